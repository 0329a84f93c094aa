"""The commands `apportion groups list` and `apportion groups describe`.

Both show a cluster's groups, their members and their lag, and change nothing.
"""

from collections.abc import Callable, Iterable
from typing import Any

from rich.table import Table
from rich.text import Text

from apportion.cli.cluster_reports import print_report
from apportion.cli.failures import NoSuchGroup
from apportion.cli.lines import folded, print_sentence, ranges, row_console
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.group_positions import all_group_positions
from apportion.errors import DecodeError, Refused
from apportion.member.group_claims import sinks_of
from apportion.member.group_protocols import describe_by_protocol
from apportion.readable import readable
from apportion.rules import run_rule
from apportion.topics import TopicPartition
from apportion.wire.codec import Buffer
from apportion.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from apportion.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from apportion.wire.messages.list_groups import ListedGroup
from apportion.wire.records.consumer_protocol import ConsumerProtocolAssignment
from apportion.wire.records.consumer_serde import decode

NO_OFFSETS = "No offset is committed, and no member owns a partition: do the topics exist?"
COMPLETION_TIMEOUT_MS = 1_000  # a shell waits for Tab's completions
# by MemberType of ConsumerGroupDescribe; brokers before version 1 of it do not send it
PROTOCOLS = {0: "classic", 1: "consumer"}


def show_list(bootstrap: str, timeout_ms: int, as_json: bool = False) -> int:
    """Print every group of the cluster with its type and state; return the exit code."""

    def show(groups: list[dict[str, str]]) -> None:
        table = Table("group", "type", "state")
        for group in groups:
            table.add_row(*map(readable, group.values()))
        _print_parts(table if groups else Text("There are no groups."))

    return print_report("groups", bootstrap, timeout_ms, _list_groups, None if as_json else show)


def show_group(bootstrap: str, group_id: str, timeout_ms: int, as_json: bool = False) -> int:
    """Print the group's members with partitions, its offsets and lag; return the exit code."""

    def read(cluster: Cluster) -> dict[str, Any]:
        return _describe_group(cluster, group_id, bootstrap)

    def show(group: dict[str, Any]) -> None:
        offsets = Table("topic", "partition", "committed", "end", "lag")
        for row in group["offsets"]:
            offsets.add_row(*map(_cell, row.values()))
        _print_parts(
            Text(readable(_title(group))),
            _members(group) if group["members"] else Text("It has no members."),
            offsets if group["offsets"] else Text(NO_OFFSETS),
        )

    return print_report("groups", bootstrap, timeout_ms, read, None if as_json else show)


def group_names(
    bootstrap: str, prefix: str, is_offered: Callable[[ListedGroup], bool] | None = None
) -> list[str]:
    """Return the names of groups that begin with `prefix`, in order, for Tab's completions.

    There are none if the cluster does not reply at once, or with an error.
    """
    try:
        cluster = Cluster(bootstrap, timeout_ms=COMPLETION_TIMEOUT_MS)
    except ValueError:
        return []
    try:
        groups = cluster.list_groups()
    # An error message in the middle of a command line would be worse than no completions.
    except (Refused, Disconnected):
        return []
    finally:
        cluster.close()
    return [
        group.group_id
        for group in groups
        if group.group_id.startswith(prefix) and (is_offered is None or is_offered(group))
    ]


def _print_parts(*parts: Table | Text) -> None:
    console = row_console()
    for part in parts:
        if isinstance(part, Text):
            print_sentence(console, part)
        else:
            console.print(folded(part))


def _list_groups(cluster: Cluster) -> list[dict[str, str]]:
    """Return a row of the report for every group of the cluster, in order of name."""
    return list(map(_row, cluster.list_groups()))


def _row(group: ListedGroup) -> dict[str, str]:
    """Return a listed group's row of the report; brokers before KIP-848 do not tell its type."""
    return {
        "group": group.group_id,
        "type": group.group_type or "?",
        "state": group.group_state or "?",
    }


def _describe_group(cluster: Cluster, group_id: str, bootstrap: str) -> dict[str, Any]:
    """Return the report of `groups describe` on a group of any type.

    The report on a share or Streams group has the offsets alone.
    """
    # The consumer protocol first: it is what most new groups speak.
    group = run_rule(
        describe_by_protocol(group_id, classic_first=False),
        lambda asked: cluster.ask_coordinator(asked.query),
    )
    if group is None:
        raise NoSuchGroup(group_id, bootstrap)
    if isinstance(group, ConsumerGroup):
        return _consumer_group(cluster, group)
    if isinstance(group, ClassicGroup):
        return _classic_group(cluster, group)
    return {**_row(group), "members": [], **_offsets(cluster, group_id, ())}


def _consumer_group(cluster: Cluster, group: ConsumerGroup) -> dict[str, Any]:
    """Return the report of `groups describe` on a group of the consumer protocol (KIP-848)."""
    owned = (
        TopicPartition(each.topic_name, partition)
        for member in group.members
        for each in member.assignment.topic_partitions
        for partition in each.partitions
    )
    return {
        "group": group.group_id,
        "type": "consumer",
        "state": group.group_state,
        "epoch": group.group_epoch,
        "assignor": group.assignor_name,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "protocol": PROTOCOLS.get(member.member_type),
                "epoch": member.member_epoch,
                "owns": {
                    each.topic_name: sorted(each.partitions)
                    for each in member.assignment.topic_partitions
                },
            }
            for member in sorted(group.members, key=lambda member: member.member_id)
        ],
        **_offsets(cluster, group.group_id, owned),
    }


def _classic_group(cluster: Cluster, group: ClassicGroup) -> dict[str, Any]:
    """Return the report of `groups describe` on a group of the classic protocol.

    In it, members own nothing if they are no consumers, or if their assignment cannot be decoded:
    only consumers' assignments have a known format.
    """
    members: list[dict[str, Any]] = [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.client_host,
            "protocol": "classic",
            "owns": _decode_assignment(member.member_assignment)
            if group.protocol_type == "consumer"
            else {},
        }
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]
    owned = (
        TopicPartition(name, partition)
        for member in members
        for name, partitions in member["owns"].items()
        for partition in partitions
    )
    return {
        "group": group.group_id,
        "type": "classic",
        "state": group.group_state,
        **({"assignor": group.protocol_data} if group.protocol_data else {}),
        "members": members,
        **_offsets(cluster, group.group_id, owned),
    }


def _decode_assignment(assignment_bytes: Buffer) -> dict[str, list[int]]:
    """Return the partitions of a classic consumer's assignment by topic; {} if undecodable."""
    try:
        _, assignment = decode(ConsumerProtocolAssignment, assignment_bytes)
    except DecodeError:
        return {}
    return {each.topic: sorted(each.partitions) for each in assignment.assigned_partitions}


def _offsets(cluster: Cluster, group_id: str, owned: Iterable[TopicPartition]) -> dict[str, Any]:
    """Return the sinks that have claimed the group, and a row of the report for each partition.

    Partitions are those that have a committed offset or an owner.
    """
    # Partitions without a commit are listed, too: they may be the ones that nobody reads.
    positions = all_group_positions(cluster, group_id, owned)
    return {
        "sinks": sorted(
            {name for each in positions.values() for name in sinks_of(each.metadata) or ()}
        ),
        "offsets": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": position.committed,
                "end": position.end,
                "lag": position.lag,
            }
            for partition, position in positions.items()
        ],
    }


def _owned(owns: dict[str, list[int]]) -> str:
    return "  ".join(f"{topic} {ranges(partitions)}" for topic, partitions in owns.items())


def _members(group: dict[str, Any]) -> Table:
    """Return the table of the group's members, for `groups describe`.

    Columns in which no member has anything to show are left out: instance, protocol, epoch.
    """
    members = group["members"]
    is_shown = {
        "instance": any(member["instance"] is not None for member in members),
        "protocol": any(member["protocol"] not in (None, group["type"]) for member in members),
        "epoch": any("epoch" in member for member in members),
    }
    columns = [
        each
        for each in ("member", "instance", "client", "host", "protocol", "epoch")
        if is_shown.get(each, True)
    ]
    table = Table(*columns, "owns")
    for member in members:
        # Brokers send Java's form of an address, with a slash before it.
        shown = {**member, "host": member["host"].removeprefix("/")}
        table.add_row(*(_cell(shown[each]) for each in columns), readable(_owned(member["owns"])))
    return table


def _cell(value: object) -> str:
    return "-" if value is None else readable(str(value))


def _title(group: dict[str, Any]) -> str:
    """Return the first line of `groups describe`: name, type, state, epoch, assignor and sinks."""
    epoch = f", epoch {group['epoch']}" if "epoch" in group else ""
    assignor = f", assignor {group['assignor']}" if "assignor" in group else ""
    sinks = f", of the sink {' and '.join(group['sinks'])}" if group["sinks"] else ""
    return f"{group['group']}: a {group['type']} group, {group['state']}{epoch}{assignor}{sinks}"
