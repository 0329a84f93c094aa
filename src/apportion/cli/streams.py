"""The command `apportion streams describe`: metadata, tasks and lag of a Kafka Streams group.

The command only reads. Its report is one value, printed as JSON or as text; the keys are documented
in docs/streams.md, and stay.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from apportion.cli.asked import Asked
from apportion.cli.cluster_reports import print_report
from apportion.cli.failures import NoStreamsGroup, NoSuchGroup
from apportion.cli.groups.names import group_names as completions
from apportion.cli.groups.report import position_cells
from apportion.cli.streams_picture import STANDBY_KEYS, show
from apportion.cli.typed_cluster import TypedCluster
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.group_positions import GroupPosition, group_positions
from apportion.errors import Refused
from apportion.member.group_protocols import describe_by_protocol
from apportion.rules import run_rule
from apportion.streams.describe.group import (
    DescribedConsumer,
    DescribedProcess,
    GroupDescription,
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
from apportion.wire.group_states import GroupState
from apportion.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from apportion.wire.messages.describe_groups import DescribedGroup
from apportion.wire.messages.list_groups import ListedGroup

# the protocol type and the protocol with which Kafka Streams joins a classic group
PROTOCOL_TYPE, PROTOCOL = "consumer", "stream"
OTHER_TYPES = {  # type of a group that is no classic one -> what it is, and which tool shows it
    "consumer": "a consumer group of KIP-848; `{0}` shows it",
    "share": "a share group (KIP-932); kafka-share-groups.sh shows it",
    "streams": (
        "a group of the streams protocol (KIP-1071), whose tasks the broker assigns; "
        "kafka-streams-groups.sh shows it"
    ),
}


def describe(asked: Asked, group_id: str) -> int:
    """Print the group's processes with their versions, tasks and lag; return the exit code."""
    return print_report(
        asked,
        lambda cluster: _read_group(cluster, group_id, asked.at),
        lambda report: show(report, describe_command(group_id, asked.at)),
    )


def describe_command(group_id: str, at: str) -> str:
    """Return the command that shows a group of any type. at: as Asked.at."""
    return f"apportion groups describe {shlex.quote(group_id)} {at}"


def group_names(typed: TypedCluster, prefix: str) -> list[str]:
    """Return the names of groups that may be of Kafka Streams, for Tab's completions."""
    return completions(
        typed,
        prefix,
        lambda group: group.protocol_type == PROTOCOL_TYPE and group.group_type in ("", "classic"),
    )


def _read_group(cluster: Cluster, group_id: str, at: str) -> dict[str, Any]:
    """Return the report on a Streams group as it is now.

    at: as Asked.at, for the error's text. Raises NoSuchGroup if there is no such group,
    NoStreamsGroup if it is not one of Kafka Streams on the classic protocol.
    """
    group = run_rule(
        describe_by_protocol(group_id, classic_first=True),
        lambda asked: cluster.ask_coordinator(asked.query),
    )
    if group is None:
        raise NoSuchGroup(group_id, at, "that is the application.id, and ")
    if not isinstance(group, DescribedGroup):
        raise _no_classic_group(group, describe_command(group_id, at))
    # Brokers send subscriptions and assignments, and the protocol, only of a stable group.
    is_stable = group.group_state == GroupState.STABLE
    # Kafka Streams joins with protocol type "consumer"; what tells it from consumers is the
    # protocol "stream".
    if group.protocol_type not in (PROTOCOL_TYPE, "") or (
        is_stable and group.protocol_data != PROTOCOL
    ):
        protocols = f"protocol type {group.protocol_type!r}, protocol {group.protocol_data!r}"
        raise NoStreamsGroup(
            f"{group_id!r} is no group of Kafka Streams ({protocols}); "
            f"`{describe_command(group_id, at)}` shows it"
        )
    # While a group rebalances brokers leave the members' metadata out.
    description = (
        describe_group(group.members) if is_stable else describe_without_metadata(group.members)
    )
    positions_by_partition: Mapping[TopicPartition, GroupPosition] = {}
    lag_problem = None
    try:
        positions_by_partition = group_positions(cluster, group_id, description.partitions)
    except (Refused, Disconnected) as error:
        # The rest of the report is right without the lag, so it is printed all the same.
        lag_problem = str(error)
    return {**report(group, description, positions_by_partition), "lag_problem": lag_problem}


def _no_classic_group(other: ConsumerGroup | ListedGroup, command: str) -> NoStreamsGroup:
    """Return the error for the name of a group of another type, with what that is.

    command: that which shows a consumer group.
    """
    group_type = other.group_type if isinstance(other, ListedGroup) else "consumer"
    known = OTHER_TYPES.get(group_type.lower())
    what = f"a group of another type ({group_type})" if known is None else known.format(command)
    return NoStreamsGroup(f"{other.group_id!r} is no classic group but {what}")


def report(
    group: DescribedGroup,
    description: GroupDescription,
    positions_by_partition: Mapping[TopicPartition, GroupPosition],
) -> dict[str, Any]:
    """Return the report of `streams describe` on a group, with the keys of docs/streams.md."""
    blocker = find_upgrade_blocker(
        {
            process.label: process.versions
            for process in description.processes
            if process.versions is not None
        }
    )
    metadata = None
    if blocker is not None:
        metadata = {
            "used": blocker.used,
            "understood": blocker.understood,
            "possible": blocker.newest_understood,
            "held_back_by": [
                process.name
                for process in description.processes
                if process.label in blocker.processes
            ],
            "advice": list(blocker.advice),
        }
    processes = [
        _process(each, description.standby_kind, positions_by_partition)
        for each in description.processes
    ]
    return {
        "group": group.group_id,
        "state": group.group_state,
        "told": group.group_state == GroupState.STABLE,
        "metadata": metadata,
        "next_rebalance_ms": description.next_rebalance_ms,
        "copies": STANDBY_KEYS[description.standby_kind],
        "unowned": list(map(str, description.unowned)),
        "lag": _sum(each["lag"] for each in processes) if processes else None,
        "processes": processes,
    }


def _process(
    process: DescribedProcess,
    standby_kind: StandbyKind,
    positions_by_partition: Mapping[TopicPartition, GroupPosition],
) -> dict[str, Any]:
    """Return one process of a Streams group, with its tasks and their lag, for the report."""
    versions = process.versions
    is_known = all(isinstance(each.assignment, AssignmentInfo) for each in process.consumers)
    active = [
        {"task": str(task), **_at_join(process, task), **_lag(partitions, positions_by_partition)}
        for task, partitions in process.active.items()
    ]
    lists: dict[str, list[dict[str, Any]]] = {name: [] for name in STANDBY_KEYS.values()}
    lists[STANDBY_KEYS[standby_kind]] = [
        {"task": str(task), **_at_join(process, task)} for task in process.standby
    ]
    return {
        "process": None if process.process_id is None else process.name,
        "used": None if versions is None else versions.used,
        "supported": None if versions is None else _supported(versions.supported),
        "endpoint": process.endpoint or None,
        "places": list(process.places),
        "tags": dict(process.tags),
        # A sum without the tasks of an undecodable assignment would look like good news.
        "lag": _sum(each["lag"] for each in active) if is_known else None,
        "consumers": [_consumer(each) for each in process.consumers],
        "active": active,
        **lists,
    }


def _consumer(consumer: DescribedConsumer) -> dict[str, Any]:
    """Return one member of a Streams process, with its versions and tasks, for the report."""
    member, subscription = consumer.description, consumer.subscription
    assignment = (
        consumer.assignment
        if isinstance(consumer.assignment, AssignmentInfo)
        else AssignmentInfo(used=0)
    )
    return {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "used": None if subscription is None else subscription.used,
        "supported": None if subscription is None else _supported(subscription.supported),
        "asks": _error(subscription.error) if isinstance(subscription, SubscriptionInfo) else None,
        "error": _error(assignment.error),
        "next_rebalance_ms": assignment.next_rebalance_ms,
        "active": list(map(str, consumer.active)),
        "copies": list(map(str, assignment.standby)),
        "unread": list(consumer.decode_errors),
    }


def _supported(version: int) -> int | None:
    return None if version == NO_VERSION else version


def _error(number: int) -> str | None:
    """Return the name of an assignor's error code; None for no error."""
    names = {each.value: each.name for each in AssignorError}
    return None if number == AssignorError.NONE else names.get(number, str(number))


def _at_join(process: DescribedProcess, task: TaskId) -> dict[str, Any]:
    """Return a task's state that the Streams process reported when it last joined."""
    offset_sum = process.offset_sums.get(task)
    return {
        "ran_at_join": offset_sum == RUNNING,
        "offset_sum_at_join": None if offset_sum is None or offset_sum < 0 else offset_sum,
    }


def _lag(
    partitions: Iterable[TopicPartition],
    positions_by_partition: Mapping[TopicPartition, GroupPosition],
) -> dict[str, Any]:
    """Return the lag of a Streams task, and of each partition that it reads, for the report."""
    read = tuple(partitions)
    positions = [positions_by_partition.get(partition) for partition in read]
    rows: list[dict[str, Any]] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            **position_cells(position),
        }
        for partition, position in zip(read, positions, strict=True)
    ]
    unread = (each and each.log.unread(each.committed) for each in positions)
    return {"lag": _sum(unread) if rows else None, "partitions": rows}


def _sum(lags: Iterable[int | None]) -> int | None:
    """Return the sum of the tasks' lags; None if one of them is not known."""
    every = list(lags)
    known = [lag for lag in every if lag is not None]
    return sum(known) if len(known) == len(every) else None
