"""What a cluster says of a classic group: its description by the coordinator, and its position in
each log.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from apportion.client.cluster import LATEST, Cluster
from apportion.errors import Code, Refused
from apportion.member.batch.offsets import fetch_request, parse_fetch_response
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest

DEAD = "Dead"
"""How brokers show a classic group that is not there, before version 6 of DescribeGroups."""


class GroupPosition(NamedTuple):
    """A group's committed offset of a partition (None if it has none), and the end of what can be
    read now.
    """

    committed: int | None
    end: int

    @property
    def lag(self) -> int | None:
        """The number of offsets ahead of the group.

        None where that depends on where it would begin.
        """
        if self.committed is None:
            return None if self.end else 0
        return max(0, self.end - self.committed)


def describe_classic_group(cluster: Cluster, group_id: str) -> DescribedGroup | None:
    """Return the group as DescribeGroups shows it.

    None if there is no classic group of that name.
    """

    def read(answer: Any) -> tuple[Code, DescribedGroup]:
        return Code.of(answer.groups[0].error_code), answer.groups[0]

    try:
        group = cluster.ask_coordinator(
            "DescribeGroups",
            DescribeGroupsRequest(groups=(group_id,)),
            group_id,
            read,
            cluster.timeout_ms,
        )
    except Refused as error:
        if error.code is not Code.GROUP_ID_NOT_FOUND:
            raise
        return None
    return None if group.group_state == DEAD else group


def list_group(cluster: Cluster, group_id: str) -> ListedGroup | None:
    """Return the group of that name, of any type, as ListGroups shows it; None if there is none."""

    def read(answer: Any) -> tuple[Code, list[ListedGroup]]:
        return Code.of(answer.error_code), [
            group for group in answer.groups if group.group_id == group_id
        ]

    found = cluster.ask_coordinator(
        "ListGroups", ListGroupsRequest(), group_id, read, cluster.timeout_ms
    )
    return found[0] if found else None


def group_positions(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, GroupPosition]:
    """Return the group's positions in the partitions that exist.

    Offsets of open transactions do not count.
    """
    wanted = tuple(partitions)
    topics = cluster.topics(dict.fromkeys(topic for topic, _ in wanted))
    places = {
        each: TopicIdPartition(topic.name, topic.id, each.partition)
        for each in wanted
        if (topic := topics.named(each.topic)) is not None
        and 0 <= each.partition < topic.partitions
    }
    if not places:
        return {}

    def read(answer: Any) -> tuple[Code, dict[TopicIdPartition, int | None]]:
        code, said = parse_fetch_response(answer, places.values())
        return next(iter(said.codes.values()), code) if code is Code.NONE else code, said.offsets

    request = OffsetFetchRequest(
        groups=fetch_request(group_id, places.values()).groups, require_stable=False
    )
    committed = cluster.ask_coordinator("OffsetFetch", request, group_id, read, cluster.timeout_ms)
    ends = cluster.list_offsets(places.values(), LATEST)
    return {
        each: GroupPosition(committed.get(place), ends[place]) for each, place in places.items()
    }
