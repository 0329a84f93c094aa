"""`apportion streams describe`: what the members of a Kafka Streams group say and are told. It only
asks.

The report is one value, printed as JSON or as text; its keys are documented in docs/streams.md, and
stay.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from apportion.cli.failures import NoSuchGroup, print_failure
from apportion.cli.groups import group_names as names_of_groups
from apportion.cli.streams_picture import show
from apportion.client.classic_groups import (
    GroupPosition,
    describe_classic_group,
    group_positions,
    list_group,
)
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused
from apportion.streams.describe.group import (
    DescribedConsumer,
    DescribedProcess,
    GroupDescription,
    MemberDescription,
    StandbyKind,
    describe_group,
    describe_without_metadata,
)
from apportion.streams.describe.upgrade_blockers import find_upgrade_blocker
from apportion.streams.metadata.model import (
    NO_VERSION,
    RUNNING,
    AssignmentInfo,
    AssignorError,
    SubscriptionInfo,
    TaskId,
)
from apportion.topics import TopicPartition
from apportion.wire.messages.describe_groups import DescribedGroup
from apportion.wire.messages.list_groups import ListedGroup

# exit code when the cluster could not be asked, or there is no such group of Kafka Streams
FAILED = 1
UNUSABLE = 2  # exit code when the arguments make no sense
PROTOCOL_TYPE, PROTOCOL = "consumer", "stream"
STABLE = "Stable"
OTHERS = {  # by the type of a group that is no classic one: what it is, and who shows it
    "consumer": "a consumer group of KIP-848; `apportion groups describe` shows it",
    "share": "a share group (KIP-932); kafka-share-groups.sh shows it",
    "streams": (
        "a group of the streams protocol (KIP-1071), whose tasks the broker assigns; "
        "kafka-streams-groups.sh shows it"
    ),
}
LISTS = {
    StandbyKind.STANDBY: "standby",
    StandbyKind.WARMUP: "warmup",
    StandbyKind.EITHER: "standby_or_warmup",
}


class NoStreamsGroup(Exception):
    """There is no such group of Kafka Streams; the text says what there is instead."""


def describe(bootstrap: str, group_id: str, timeout_ms: int, as_json: bool = False) -> int:
    """The group's processes with their versions, tasks and lag are on stdout, or why not on stderr;
    the exit code.
    """
    try:
        cluster = Cluster(bootstrap, timeout_ms=timeout_ms)
    except ValueError as error:
        print_failure("streams", error, as_json)
        return UNUSABLE
    try:
        report = _asked(cluster, group_id)
    except (Refused, Disconnected, NoStreamsGroup) as error:
        print_failure("streams", error, as_json)
        return FAILED
    finally:
        cluster.close()
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0


def group_names(bootstrap: str, begun: str) -> list[str]:
    """The classic groups of clients whose names begin so, in order; none where the cluster does not
    answer at once.
    """
    return names_of_groups(bootstrap, begun, _may_be_streams)


def _may_be_streams(group: ListedGroup) -> bool:
    return group.protocol_type == PROTOCOL_TYPE and group.group_type in ("", "classic")


def _asked(cluster: Cluster, group_id: str) -> dict[str, Any]:
    """The report on the group as it is now."""
    group = describe_classic_group(cluster, group_id)
    if group is None:
        raise _instead(cluster, group_id)
    is_told = group.group_state == STABLE
    if group.protocol_type not in (PROTOCOL_TYPE, "") or (
        is_told and group.protocol_data != PROTOCOL
    ):
        spoken = f"protocol type {group.protocol_type!r}, protocol {group.protocol_data!r}"
        raise NoStreamsGroup(
            f"{group_id!r} is no group of Kafka Streams ({spoken}); `apportion groups "
            "describe` shows it"
        )
    members = [
        MemberDescription(
            each.member_id,
            each.client_id,
            each.client_host,
            each.group_instance_id,
            each.member_metadata,
            each.member_assignment,
        )
        for each in group.members
    ]
    description = describe_group(members) if is_told else describe_without_metadata(members)
    positions_by_partition: Mapping[TopicPartition, GroupPosition] = {}
    problem = None
    try:
        positions_by_partition = group_positions(cluster, group_id, description.partitions)
    except (Refused, Disconnected) as error:
        problem = str(error)
    return {**report(group, description, positions_by_partition), "lag_problem": problem}


def _instead(cluster: Cluster, group_id: str) -> NoSuchGroup | NoStreamsGroup:
    other = list_group(cluster, group_id)
    if other is None:
        return NoSuchGroup(
            group_id, "that is the application.id, and `apportion groups list` shows what there is"
        )
    what = OTHERS.get(
        other.group_type.lower(),
        f"a group of another type ({other.group_type or other.protocol_type or 'unknown'})",
    )
    return NoStreamsGroup(f"{group_id!r} is no classic group but {what}")


def report(
    group: DescribedGroup,
    description: GroupDescription,
    positions_by_partition: Mapping[TopicPartition, GroupPosition],
) -> dict[str, Any]:
    """All that is known of the group, as docs/streams.md has its keys."""
    said = {process.label: process.versions for process in description.processes}
    blocker = find_upgrade_blocker(
        {label: versions for label, versions in said.items() if versions is not None}
    )
    holders = [
        process.name
        for process in description.processes
        if blocker is not None and process.label in blocker.processes
    ]
    metadata = None
    if blocker is not None:
        metadata = {
            "used": blocker.used,
            "understood": blocker.understood,
            "possible": blocker.newest_understood,
            "held_back_by": holders,
            "advice": list(blocker.advice),
        }
    processes = [
        _process(each, description.standby_kind, positions_by_partition)
        for each in description.processes
    ]
    return {
        "group": group.group_id,
        "state": group.group_state,
        "told": group.group_state == STABLE,
        "metadata": metadata,
        "next_rebalance_ms": description.next_rebalance_ms,
        "copies": LISTS[description.standby_kind],
        "unowned": list(map(str, description.unowned)),
        "lag": _sum(each["lag"] for each in processes) if processes else None,
        "processes": processes,
    }


def _process(
    process: DescribedProcess,
    copies: StandbyKind,
    positions_by_partition: Mapping[TopicPartition, GroupPosition],
) -> dict[str, Any]:
    spoken = process.versions
    is_known = all(isinstance(each.assignment, AssignmentInfo) for each in process.consumers)
    active = [
        {"task": str(task), **_at_join(process, task), **_lag(partitions, positions_by_partition)}
        for task, partitions in process.active.items()
    ]
    lists: dict[str, list[dict[str, Any]]] = {name: [] for name in LISTS.values()}
    lists[LISTS[copies]] = [
        {"task": str(task), **_at_join(process, task)} for task in process.standby
    ]
    return {
        "process": None if process.process_id is None else process.name,
        "used": None if spoken is None else spoken.used,
        "supported": None if spoken is None else _supported(spoken.supported),
        "endpoint": process.endpoint or None,
        "tags": dict(process.tags),
        "lag": _sum(each["lag"] for each in active) if is_known else None,
        "consumers": [_consumer(each) for each in process.consumers],
        "active": active,
        **lists,
    }


def _consumer(consumer: DescribedConsumer) -> dict[str, Any]:
    shown, said, given = consumer.description, consumer.subscription, consumer.assignment
    heard = given if isinstance(given, AssignmentInfo) else AssignmentInfo(used=0)
    return {
        "member": shown.member_id,
        "instance": shown.instance_id,
        "client": shown.client_id,
        "host": shown.host,
        "used": None if said is None else said.used,
        "supported": None if said is None else _supported(said.supported),
        "asks": _error(said.error) if isinstance(said, SubscriptionInfo) else None,
        "error": _error(heard.error),
        "next_rebalance_ms": heard.next_rebalance_ms,
        "active": list(map(str, consumer.active)),
        "copies": list(map(str, heard.standby)),
        "unread": list(consumer.decode_errors),
    }


def _supported(version: int) -> int | None:
    return None if version == NO_VERSION else version


def _error(number: int) -> str | None:
    """The name of an error that is told; None if it is none."""
    known = {each.value: each.name for each in AssignorError}
    return None if number == AssignorError.NONE else known.get(number, str(number))


def _at_join(process: DescribedProcess, task: TaskId) -> dict[str, Any]:
    """What the process had of the task when it last joined."""
    known = process.offset_sums.get(task)
    return {
        "ran_at_join": known == RUNNING,
        "offset_sum_at_join": None if known is None or known < 0 else known,
    }


def _lag(
    partitions: Iterable[TopicPartition],
    positions_by_partition: Mapping[TopicPartition, GroupPosition],
) -> dict[str, Any]:
    """The lag of a task, and of each partition that it reads."""
    rows: list[dict[str, Any]] = []
    for topic, partition in partitions:
        position = positions_by_partition.get(TopicPartition(topic, partition))
        known = (None, None, None) if position is None else (*position, position.lag)
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                **dict(zip(("committed", "end", "lag"), known, strict=True)),
            }
        )
    return {"lag": _sum(row["lag"] for row in rows) if rows else None, "partitions": rows}


def _sum(lags: Iterable[int | None]) -> int | None:
    """Their sum; None if one of them is not known."""
    every = list(lags)
    known = [each for each in every if each is not None]
    return sum(known) if len(known) == len(every) else None
