"""`apportion groups delete` and `delete-offsets`: of groups without members, unread offsets."""

import shlex
from collections.abc import Iterable
from contextlib import suppress

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import ReportedChange, print_change
from apportion.cli.failures import Advised, GroupHasMembers, NoSuchGroup, WrongArguments
from apportion.cli.groups.partitions import PartitionChoice, chosen
from apportion.cli.groups.report import EMPTY_STATES, group_has_members, read_members
from apportion.cli.lines import print_dry_run, print_sentence, row_console
from apportion.cli.tables import Column, Kind, print_table
from apportion.client.cluster import Cluster
from apportion.client.group_positions import CommittedOffsets
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.group_changes import DeleteGroupQuery, DeleteOffsetsQuery
from apportion.member.cluster_queries.offsets import AllOffsetsQuery
from apportion.member.permissions import denial_or_none
from apportion.readable import readable
from apportion.topics import TopicPartition, grouped, ranges

COLUMNS = {
    "topic": Column("TOPIC", Kind.NAME),
    "partition": Column("PARTITION", Kind.NUMBER),
    "committed": Column("COMMITTED", Kind.NUMBER),
}


def delete_groups(asked: Asked, names: Iterable[str], *, execute: bool) -> int:
    """Show the groups, or delete them, each by itself; return the exit code."""

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        deleted, failures = [], []
        for group_id in dict.fromkeys(names):
            try:
                if execute:
                    _delete(cluster, group_id, asked.at)
                    deleted.append({"group": group_id, "deleted": True})
                else:
                    deleted.append(_shown_group(cluster, group_id, asked.at))
            except Refused as refused:
                failures.append(refused)
        return ReportedChange(deleted, failures)

    return print_change(asked, change, lambda rows: _show_groups(rows, execute=execute))


def _show_groups(deleted: list[Report], *, execute: bool) -> None:
    for row in deleted:
        name = readable(row["group"])
        if execute:
            print_sentence(row_console(), f"{name} is deleted.")
            continue
        topics = grouped((each["topic"], each["partition"]) for each in row["offsets"])
        offsets = ", ".join(f"{topic} {ranges(numbers)}" for topic, numbers in topics.items())
        held = f"its offsets in {readable(offsets)}" if offsets else "no offsets"
        print_sentence(row_console(), f"{name} would be deleted, with {held}.")
    if not execute:
        print_dry_run("delete them")


def _shown_group(cluster: Cluster, group_id: str, at: str) -> Report:
    """Return what the deletion of a group would remove; raise Refused where it is not possible."""
    group = read_members(cluster, group_id, at)
    if group["members"] or group["state"] not in EMPTY_STATES:
        raise group_has_members(cluster, group, at)
    committed = cluster.ask_coordinator(AllOffsetsQuery(group_id))
    return {"group": group_id, "deleted": False, "offsets": _rows(committed, sorted(committed))}


def _rows(committed: CommittedOffsets, partitions: Iterable[TopicPartition]) -> list[Report]:
    """Return a row for each committed offset of these partitions."""
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "committed": committed[each].offset,
            "deleted": False,
        }
        for each in partitions
    ]


def _delete(cluster: Cluster, group_id: str, at: str) -> None:
    """Delete one group; raise Refused with the next step if that is not possible."""
    try:
        cluster.ask_coordinator(DeleteGroupQuery(group_id))
    except Refused as refused:
        if refused.code is Code.GROUP_ID_NOT_FOUND:
            raise NoSuchGroup(group_id, at) from None
        if refused.code is Code.NON_EMPTY_GROUP:
            raise _has_members(cluster, group_id, at) from None
        raise


def _has_members(cluster: Cluster, group_id: str, at: str) -> GroupHasMembers:
    """Return the error for a group with members, with those if they can be read."""
    with suppress(Refused):
        return group_has_members(cluster, read_members(cluster, group_id, at), at)
    return GroupHasMembers(group_id, (), at)


def delete_offsets(asked: Asked, group_id: str, choice: PartitionChoice, *, execute: bool) -> int:
    """Show the group's offsets of the chosen partitions, or delete them; return the exit code."""
    if choice.is_everything:
        raise WrongArguments("name the topics whose offsets to delete, as --topic TOPIC[:0,1]")
    return print_change(
        asked,
        lambda cluster: _delete_offsets(cluster, group_id, choice, asked.at, execute=execute),
        lambda rows: _show_offsets(rows, group_id, execute=execute),
    )


def _delete_offsets(
    cluster: Cluster, group_id: str, choice: PartitionChoice, at: str, *, execute: bool
) -> ReportedChange[list[Report]]:
    """Delete the offsets; return their rows, and the failures. execute: else only look."""
    group = read_members(cluster, group_id, at)
    committed = cluster.ask_coordinator(AllOffsetsQuery(group_id))
    partitions = tuple(sorted(chosen(group_id, committed, choice, at)))
    if execute:
        codes = cluster.ask_coordinator(DeleteOffsetsQuery(group_id, partitions))
    else:
        # As far as members tell: what a regular expression matches they do not.
        topics = {name for each in group["members"] for name in (*each["topics"], *each["owns"])}
        codes = {
            each: Code.GROUP_SUBSCRIBED_TO_TOPIC if each.topic in topics else Code.NONE
            for each in partitions
        }
    deleted = [
        row | {"deleted": execute}
        for row in _rows(committed, (each for each in partitions if codes[each] is Code.NONE))
    ]
    failed = grouped(
        ((each.topic, codes[each]), each) for each in partitions if codes[each] is not Code.NONE
    )
    return ReportedChange(
        deleted,
        [_refusal(group_id, code, partitions, at) for (_, code), partitions in failed.items()],
    )


def _refusal(group_id: str, code: Code, partitions: tuple[TopicPartition, ...], at: str) -> Refused:
    """Return the error for partitions of one topic whose offsets were not deleted."""
    topic = partitions[0].topic
    if code is Code.GROUP_SUBSCRIBED_TO_TOPIC:
        return Advised(
            code,
            f"members of group {group_id!r} are subscribed to topic {topic!r}: stop them first; "
            f"`apportion groups members {shlex.quote(group_id)} {at}` shows them",
        )
    numbers = ranges(each.partition for each in partitions)
    why = denial_or_none("OffsetDelete", code, (topic,)) or code.sentence
    return Refused(code, f"OffsetDelete of topic {topic!r}, partition {numbers}: {why}")


def _show_offsets(deleted: list[Report], group_id: str, *, execute: bool) -> None:
    if not execute:
        print_table(COLUMNS, deleted)
        print_dry_run("delete these offsets")
        return
    for topic, numbers in grouped((row["topic"], row["partition"]) for row in deleted).items():
        print_sentence(
            row_console(),
            readable(f"{group_id} has no offsets any more in {topic} {ranges(numbers)}."),
        )
