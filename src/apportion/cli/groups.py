"""`apportion groups`: which groups a cluster has, who their members are, how far behind they stand.
It only asks.
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from apportion.cli.failures import NoSuchGroup, print_failure
from apportion.cli.lines import folded, print_sentence, ranges
from apportion.client.cluster import LATEST, Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Code, DecodeError, Refused
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.sinks import claimed_sinks
from apportion.readable import readable
from apportion.topics import TopicIdPartition
from apportion.wire.codec import Buffer
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from apportion.wire.records.consumer_protocol import ConsumerProtocolAssignment
from apportion.wire.records.consumer_serde import decode

FAILED = 1  # exit code when the cluster could not be asked or refused
UNUSABLE = 2  # exit code when the arguments make no sense
NO_OFFSETS = "No offset is committed, and no member owns a partition: do the topics exist?"
COMPLETION_MS = 1_000  # nobody waits longer for a Tab
PIPED_WIDTH = 10_000  # no terminal, no line breaks: a line is a row
# the newest version of DescribeGroups in which a group of another kind is no error
WITHOUT_ERRORS = 5
PROTOCOLS = {0: "classic", 1: "consumer"}  # by the type of a member; older brokers do not tell it
BY_NAME = 9  # the newest version of OffsetFetch that answers with topic names


def show_list(bootstrap: str, timeout_ms: int, as_json: bool = False) -> int:
    """Every group of the cluster is on stdout, with its type and state; the exit code."""

    def ask(cluster: Cluster) -> tuple[Any, list[Table | Text]]:
        table = Table("group", "type", "state")
        groups = _listed(cluster)
        for group in groups:
            table.add_row(*map(readable, group.values()))
        return groups, [table]

    return _shown(bootstrap, timeout_ms, ask, as_json)


def show_group(bootstrap: str, group_id: str, timeout_ms: int, as_json: bool = False) -> int:
    """The group's members with what they own, and its offsets with their lag, are on stdout; the
    exit code.
    """

    def ask(cluster: Cluster) -> tuple[Any, list[Table | Text]]:
        group = _group(cluster, group_id)
        offsets = Table("topic", "partition", "committed", "end", "lag")
        for row in group["offsets"]:
            offsets.add_row(*map(_cell, row.values()))
        members = _members(group) if group["members"] else Text("It has no members.")
        return group, [
            Text(readable(_title(group))),
            members,
            offsets if group["offsets"] else Text(NO_OFFSETS),
        ]

    return _shown(bootstrap, timeout_ms, ask, as_json)


def group_names(
    bootstrap: str, begun: str, wanted: Callable[[ListedGroup], bool] = lambda group: True
) -> list[str]:
    """The wanted groups whose names begin so, in order; none where the cluster does not answer at
    once.
    """
    try:
        cluster = Cluster(bootstrap, timeout_ms=COMPLETION_MS)
    except ValueError:
        return []
    try:
        groups = [
            group
            for node in cluster.nodes()
            for group in cluster.call(ListGroupsRequest(), node=node).groups
        ]
    except (Refused, Disconnected):
        return []
    finally:
        cluster.close()
    return sorted(
        group.group_id for group in groups if group.group_id.startswith(begun) and wanted(group)
    )


def _shown(
    bootstrap: str,
    timeout_ms: int,
    ask: Callable[[Cluster], tuple[Any, list[Table | Text]]],
    as_json: bool,
) -> int:
    try:
        cluster = Cluster(bootstrap, timeout_ms=timeout_ms)
    except ValueError as error:
        print_failure("groups", error, as_json)
        return UNUSABLE
    try:
        report, shown = ask(cluster)
    except (Refused, Disconnected) as error:
        print_failure("groups", error, as_json)
        return FAILED
    finally:
        cluster.close()
    if as_json:
        print(json.dumps(report, indent=2))
        return 0
    console = Console(
        highlight=False,
        markup=False,
        emoji=False,
        width=None if sys.stdout.isatty() else PIPED_WIDTH,
    )
    for part in shown:
        if isinstance(part, Text):
            print_sentence(console, part)
        else:
            console.print(folded(part))
    return 0


def _listed(cluster: Cluster) -> list[dict[str, str]]:
    """Every group of the cluster, by name."""
    groups = (
        group
        for node in cluster.nodes()
        for group in cluster.call(ListGroupsRequest(), node=node).groups
    )
    rows = (
        {"group": each.group_id, "type": each.group_type or "?", "state": each.group_state or "?"}
        for each in groups
    )
    return sorted(rows, key=lambda row: row["group"])


def _group(cluster: Cluster, group_id: str) -> dict[str, Any]:
    """All that the cluster tells of the group; of groups that are neither consumer nor classic
    ones, their offsets.
    """
    try:
        group_description = _described(cluster, group_id)
    except Refused as error:
        listed = next((row for row in _listed(cluster) if row["group"] == group_id), None)
        if error.code is not Code.GROUP_ID_NOT_FOUND:
            raise
        if listed is None:
            raise NoSuchGroup(group_id) from None
        return _classic(cluster, listed)
    owned = (
        TopicIdPartition(each.topic_name, each.topic_id, partition)
        for member in group_description.members
        for each in member.assignment.topic_partitions
        for partition in each.partitions
    )
    return {
        "group": group_id,
        "type": "consumer",
        "state": group_description.group_state,
        "epoch": group_description.group_epoch,
        "assignor": group_description.assignor_name,
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
            for member in sorted(group_description.members, key=lambda member: member.member_id)
        ],
        **_offsets(cluster, group_id, owned),
    }


def _classic(cluster: Cluster, listed: dict[str, str]) -> dict[str, Any]:
    """What is told of a classic group. Whose assignment is no consumer's, or cannot be read, owns
    nothing that could be named.
    """
    group_id = listed["group"]
    group_description = cluster.call(
        DescribeGroupsRequest(groups=(group_id,)), coordinator=group_id, version=WITHOUT_ERRORS
    ).groups[0]
    members = [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.client_host,
            "protocol": "classic",
            "owns": _assigned(member.member_assignment)
            if group_description.protocol_type == "consumer"
            else {},
        }
        for member in sorted(group_description.members, key=lambda member: member.member_id)
    ]
    topics = cluster.topics(dict.fromkeys(name for member in members for name in member["owns"]))
    owned = (
        TopicIdPartition(name, topic.id, partition)
        for member in members
        for name, partitions in member["owns"].items()
        if (topic := topics.named(name)) is not None
        for partition in partitions
        if 0 <= partition < topic.partitions
    )
    about = {"assignor": group_description.protocol_data} if group_description.protocol_data else {}
    return {**listed, **about, "members": members, **_offsets(cluster, group_id, owned)}


def _assigned(blob: Buffer) -> dict[str, list[int]]:
    """The partitions of a classic consumer's assignment by topic."""
    try:
        _, assignment = decode(ConsumerProtocolAssignment, blob)
    except DecodeError:
        return {}
    return {each.topic: sorted(each.partitions) for each in assignment.assigned_partitions}


def _offsets(cluster: Cluster, group_id: str, owned: Iterable[TopicIdPartition]) -> dict[str, Any]:
    """The sinks whose names the offsets bear, and a row for each partition that has a committed
    offset or an owner.
    """
    stored = _committed(cluster, group_id)
    ends = cluster.list_offsets(sorted({*stored, *owned}), LATEST)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": offset,
            "end": end,
            "lag": None if offset is None else max(0, end - offset),
        }
        for place, end in sorted(ends.items())
        for offset in [stored[place].offset if place in stored else None]
    ]
    return {
        "sinks": sorted({name for sinks in claimed_sinks(stored).values() for name in sinks}),
        "offsets": rows,
    }


def _described(cluster: Cluster, group_id: str) -> DescribedGroup:
    def read(answer: Any) -> tuple[Code, DescribedGroup]:
        return Code.of(answer.groups[0].error_code), answer.groups[0]

    return cluster.ask_coordinator(
        "ConsumerGroupDescribe",
        ConsumerGroupDescribeRequest(group_ids=(group_id,)),
        group_id,
        read,
        cluster.timeout_ms,
    )


def _committed(cluster: Cluster, group_id: str) -> dict[TopicIdPartition, OffsetAndMetadata]:
    """Every offset that the group has stored, with what was committed beside it."""
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=None),))
    answer = cluster.call(request, coordinator=group_id, version=BY_NAME).groups[0]
    if answer.error_code != Code.NONE:
        raise Refused(Code.of(answer.error_code))
    topics = cluster.topics(topic.name for topic in answer.topics)
    known = [
        (topic.partitions, found)
        for topic in answer.topics
        if (found := topics.named(topic.name)) is not None
    ]
    return {
        TopicIdPartition(topic.name, topic.id, each.partition_index): OffsetAndMetadata(
            each.committed_offset, each.metadata or ""
        )
        for partitions, topic in known
        for each in partitions
    }


def _owned(owns: dict[str, list[int]]) -> str:
    return "  ".join(f"{topic} {ranges(partitions)}" for topic, partitions in owns.items())


def _members(group: dict[str, Any]) -> Table:
    """A row for each member. The instance, the protocol and the epoch have a column where they tell
    something.
    """
    members = group["members"]
    telling = {
        "instance": any(member["instance"] is not None for member in members),
        "protocol": any(member["protocol"] not in (None, group["type"]) for member in members),
        "epoch": any("epoch" in member for member in members),
    }
    columns = [
        each
        for each in ("member", "instance", "client", "host", "protocol", "epoch")
        if telling.get(each, True)
    ]
    table = Table(*columns, "owns")
    for member in members:
        shown = {**member, "host": member["host"].removeprefix("/")}
        table.add_row(*(_cell(shown[each]) for each in columns), readable(_owned(member["owns"])))
    return table


def _cell(value: object) -> str:
    return "-" if value is None else readable(str(value))


def _title(group: dict[str, Any]) -> str:
    epoch = f", epoch {group['epoch']}" if "epoch" in group else ""
    assignor = f", assignor {group['assignor']}" if "assignor" in group else ""
    sinks = f", of the sink {' and '.join(group['sinks'])}" if group["sinks"] else ""
    return f"{group['group']}: a {group['type']} group, {group['state']}{epoch}{assignor}{sinks}"
