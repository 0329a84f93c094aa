"""`apportion groups reset-offsets`: commits other offsets for a group without members."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import print_report
from apportion.cli.failures import GroupHasMembers, Impossible, NoSuchGroup, WrongArguments
from apportion.cli.groups.partitions import PartitionChoice, existing_partitions
from apportion.cli.groups.report import EMPTY_STATES, group_has_members, read_members
from apportion.cli.groups.reset_targets import PartitionLog, ResetTarget, TargetOptions
from apportion.cli.lines import print_dry_run
from apportion.cli.properties import refuse_twice, text_of
from apportion.cli.tables import Column, Kind, print_table
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.log_bounds import LogBounds
from apportion.member.cluster_queries.offsets import (
    AllOffsetsQuery,
    OffsetAndMetadata,
    OffsetCommitQuery,
)
from apportion.member.group_claims import metadata_of, sinks_of
from apportion.topics import TopicIdPartition, TopicPartition, grouped
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

COLUMNS = {
    "topic": Column("TOPIC", Kind.NAME),
    "partition": Column("PARTITION", Kind.NUMBER),
    "committed": Column("COMMITTED", Kind.NUMBER),
    "new": Column("NEW", Kind.NUMBER),
    "note": Column("NOTE", Kind.LIST, is_rare=True),
}
LIMITED = "limited to the log"
NO_OFFSET = OffsetAndMetadata(None)


class ResetPlan(NamedTuple):
    """The arguments of `reset-offsets`, checked.

    choice: the partitions; of no topic: with `all_topics`, where the group has offsets. offsets: of
    `--from-file`, which names its partitions.
    """

    group_id: str
    choice: PartitionChoice
    all_topics: bool
    target: ResetTarget | None
    offsets: Mapping[TopicPartition, int]
    execute: bool
    new_group: bool


def parse_plan(
    group_id: str,
    choice: PartitionChoice,
    options: TargetOptions,
    from_file: Path | None,
    *,
    all_topics: bool,
    execute: bool,
    new_group: bool,
) -> ResetPlan:
    """Return the plan that was typed. Raises WrongArguments."""
    target = options.parse(time.time_ns() // 1_000_000)
    if (target is None) == (from_file is None):
        raise WrongArguments(
            "say where to: --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, "
            "--by-duration, --shift-by, or --from-file"
        )
    if from_file is not None and (all_topics or not choice.is_everything):
        raise WrongArguments("--from-file names its partitions: leave --topic and --all-topics out")
    if from_file is None and all_topics is not choice.is_everything:
        raise WrongArguments("name partitions as --topic TOPIC[:0,1], or say --all-topics")
    offsets = {} if from_file is None else _read_offsets(from_file, group_id)
    return ResetPlan(group_id, choice, all_topics, target, offsets, execute, new_group)


def _read_offsets(file: Path, group_id: str) -> dict[TopicPartition, int]:
    """Return the offsets in a file, as kafka-consumer-groups exports and takes them.

    A line is `TOPIC,PARTITION,OFFSET`, or has the group's id before that.
    """
    try:
        lines = text_of(file).splitlines()
    except ValueError as error:
        raise WrongArguments(f"--from-file {file} cannot be read: {error}") from None
    found: dict[TopicPartition, int] = {}
    first_lines: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        fields = [field.strip().strip('"') for field in line.split(",")]
        if len(fields) == 4 and fields[0] == group_id:
            del fields[0]
        if not line.strip():
            continue
        if len(fields) != 3 or not (fields[1].isdecimal() and fields[2].isdecimal()):
            raise WrongArguments(
                f"--from-file {file}: line {number} must be TOPIC,PARTITION,OFFSET, or have the "
                f"group {group_id!r} before that, not {line!r}"
            )
        partition = TopicPartition(fields[0], int(fields[1]))
        try:
            refuse_twice(f"{partition.topic}-{partition.partition}", first_lines, number)
        except ValueError as error:
            raise WrongArguments(f"--from-file {file}: {error}") from None
        found[partition] = int(fields[2])
    if not found:
        raise WrongArguments(f"--from-file {file} has no offsets")
    return found


def reset_offsets(asked: Asked, plan: ResetPlan) -> int:
    """Print the group's new offsets, and commit them with `--execute`; return the exit code."""
    return print_report(asked, lambda cluster: _reset(cluster, plan, asked.at), _show)


def _show(report: Report) -> None:
    print_table(COLUMNS, report["offsets"])
    if not report["executed"]:
        print_dry_run("commit these offsets")


def _reset(cluster: Cluster, plan: ResetPlan, at: str) -> Report:
    """Return the report on the reset, after it was made if that was asked for."""
    _require_empty(cluster, plan, at)
    committed = cluster.ask_coordinator(AllOffsetsQuery(plan.group_id))
    partitions = existing_partitions(cluster, _choice(plan, committed), at)
    logs = _logs(cluster, partitions, committed, plan.target)
    wanted = {partition: _new_offset(partition, log, plan) for partition, log in logs.items()}
    offsets = {
        partition: logs[partition].bounds.nearest(offset) for partition, offset in wanted.items()
    }
    if plan.execute:
        _commit(cluster, plan.group_id, offsets, committed, at)
    return {
        "group": plan.group_id,
        "executed": plan.execute,
        "offsets": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": logs[partition].committed,
                "new": offset,
                "note": None if offset == wanted[partition] else LIMITED,
            }
            for partition, offset in offsets.items()
        ],
    }


def _require_empty(cluster: Cluster, plan: ResetPlan, at: str) -> None:
    """Raise an error if the group has members, who would commit over the new offsets."""
    try:
        group = read_members(cluster, plan.group_id, at)
    except NoSuchGroup:
        if plan.new_group:
            return
        # Kafka's tool makes a group of any name, a misspelt one too.
        raise NoSuchGroup(
            plan.group_id, at, also="; --new-group makes a new one with these offsets"
        ) from None
    if group["members"] or group["state"] not in EMPTY_STATES:
        raise group_has_members(cluster, group, at)


def _choice(plan: ResetPlan, committed: Iterable[TopicPartition]) -> PartitionChoice:
    """Return the partitions whose offsets are reset."""
    if plan.offsets:
        return PartitionChoice(grouped(sorted(plan.offsets)))
    if not plan.all_topics:
        return plan.choice
    # Every partition of these topics, as in Kafka's tool.
    topics = dict.fromkeys(each.topic for each in sorted(committed))
    if not topics:
        raise Impossible(
            f"group {plan.group_id!r} has no committed offsets, so --all-topics means none: name "
            "topics with --topic"
        )
    return PartitionChoice(dict.fromkeys(topics, ()))


def _logs(
    cluster: Cluster,
    partitions: tuple[TopicIdPartition, ...],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    target: ResetTarget | None,
) -> dict[TopicIdPartition, PartitionLog]:
    """Return what the target needs to know of each partition."""
    earliest = cluster.list_offsets(partitions, EARLIEST)
    latest = cluster.list_offsets(partitions, LATEST)
    time_ms = None if target is None else target.time_ms
    at_time = {} if time_ms is None else cluster.list_offsets(partitions, time_ms)
    return {
        each: PartitionLog(
            LogBounds(earliest[each], latest[each]),
            committed.get(each.topic_partition, NO_OFFSET).offset,
            at_time.get(each, -1),
        )
        for each in partitions
    }


def _new_offset(partition: TopicIdPartition, log: PartitionLog, plan: ResetPlan) -> int:
    if plan.target is None:
        return plan.offsets[partition.topic_partition]
    try:
        return plan.target.offset(log)
    except Impossible as error:
        raise Impossible(f"{partition}: {error}") from None


def _commit(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicIdPartition, int],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    at: str,
) -> None:
    """Commit the offsets as no member.

    A sink's claim on the group stays (decisions/0041), and a sink that has nothing of a partition
    may begin at the new offset; any other metadata belongs to the old offset, and goes with it, as
    in Kafka's tool.
    """
    by_metadata: dict[str, dict[TopicIdPartition, int]] = {}
    for partition, offset in offsets.items():
        metadata = committed.get(partition.topic_partition, NO_OFFSET).metadata
        kept = metadata_of(sinks_of(metadata) or (), starting=True)
        by_metadata.setdefault(kept, {})[partition] = offset
    for metadata, some in by_metadata.items():
        try:
            cluster.ask_coordinator(OffsetCommitQuery(group_id, some, metadata=metadata))
        except Refused as refused:
            # A member has joined since the group was described.
            if refused.code is Code.UNKNOWN_MEMBER_ID:
                raise GroupHasMembers(group_id, (), at) from None
            raise
