"""`apportion groups`: which groups a cluster has, who their members are, how far behind they stand. It only asks."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from apportion.client.cluster import LATEST, Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Code, Refused
from apportion.member.spans import Place
from apportion.wire.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest, DescribedGroup
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

FAILED = 1  # exit code when the cluster could not be asked or refused
BY_NAME = 9  # the newest version of OffsetFetch that answers with topic names


def show_list(bootstrap: str, timeout_ms: int) -> int:
    """Every group of the cluster is on stdout, with its type and state; the exit code."""
    table = Table("group", "type", "state")

    def fill(cluster: Cluster) -> None:
        groups = (group for node in cluster.nodes() for group in cluster.call(ListGroupsRequest(), node=node).groups)
        for group in sorted(groups, key=lambda group: group.group_id):
            table.add_row(group.group_id, group.group_type or "?", group.group_state or "?")

    return _shown(bootstrap, timeout_ms, fill, [table])


def show_group(bootstrap: str, group_id: str, timeout_ms: int) -> int:
    """The group's members with what they own, and its offsets with their lag, are on stdout; the exit code."""
    members = Table("member", "client", "host", "epoch", "owns")
    offsets = Table("topic", "partition", "committed", "end", "lag")

    def fill(cluster: Cluster) -> None:
        group = _described(cluster, group_id)
        members.title = f"{group_id}: {group.group_state}, epoch {group.group_epoch}, assignor {group.assignor_name}"
        for member in sorted(group.members, key=lambda member: member.member_id):
            members.add_row(
                member.member_id, member.client_id, member.client_host, str(member.member_epoch), _owned(member.assignment)
            )
        committed = _committed(cluster, group_id)
        ends = cluster.list_offsets(committed, LATEST)
        for place, offset in sorted(committed.items()):
            lag = max(0, ends[place] - offset)
            offsets.add_row(place.topic, str(place.partition), str(offset), str(ends[place]), str(lag))

    return _shown(bootstrap, timeout_ms, fill, [members, offsets])


def _shown(bootstrap: str, timeout_ms: int, fill: Any, tables: Iterable[Table]) -> int:
    cluster = Cluster(bootstrap, timeout_ms=timeout_ms)
    try:
        fill(cluster)
    except (Refused, Disconnected) as error:
        Console(stderr=True, highlight=False).print(f"apportion groups: {error}", markup=False)
        return FAILED
    finally:
        cluster.close()
    console = Console(highlight=False)
    for table in tables:
        console.print(table)
    return 0


def _described(cluster: Cluster, group_id: str) -> DescribedGroup:
    def read(answer: Any) -> tuple[Code, DescribedGroup]:
        return Code.of(answer.groups[0].error_code), answer.groups[0]

    return cluster.ask_coordinator(
        "ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=(group_id,)), group_id, read, cluster.timeout_ms
    )


def _committed(cluster: Cluster, group_id: str) -> dict[Place, int]:
    """Every offset that the group has stored."""
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=None),))
    answer = cluster.call(request, coordinator=group_id, version=BY_NAME).groups[0]
    if answer.error_code != Code.NONE:
        raise Refused(Code.of(answer.error_code))
    topics = cluster.topics(topic.name for topic in answer.topics)
    known = [(topic.partitions, found) for topic in answer.topics if (found := topics.named(topic.name)) is not None]
    return {
        Place(topic.name, topic.id, each.partition_index): each.committed_offset
        for partitions, topic in known
        for each in partitions
    }


def _owned(assignment: Assignment) -> str:
    return "  ".join(f"{each.topic_name} {','.join(map(str, sorted(each.partitions)))}" for each in assignment.topic_partitions)
