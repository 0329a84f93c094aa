"""Descriptions of classic groups by their coordinator, and their committed offsets and lag.

For the command `apportion streams describe`.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.batch.offsets import fetch_request, parse_fetch_response
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from apportion.wire.messages.list_offsets import LATEST
from apportion.wire.messages.offset_fetch import OffsetFetchRequest

DEAD = "Dead"
"""How brokers show a classic group that is not there, before version 6 of DescribeGroups."""


class GroupPosition(NamedTuple):
    """A partition's committed offset in a group, if it has one, and the last stable offset."""

    committed: int | None
    end: int

    @property
    def lag(self) -> int | None:
        """The number of offsets ahead of the group; None where `auto.offset.reset` decides that."""
        if self.committed is None:
            return None if self.end else 0
        return max(0, self.end - self.committed)


def describe_classic_group(cluster: Cluster, group_id: str) -> DescribedGroup | None:
    """Return the group as DescribeGroups shows it; None if there is no such classic group."""

    def read(response: Any) -> tuple[Code, DescribedGroup]:
        return Code.of(response.groups[0].error_code), response.groups[0]

    try:
        group = cluster.ask_coordinator(
            "DescribeGroups",
            DescribeGroupsRequest(groups=(group_id,)),
            group_id,
            read=read,
            timeout_ms=cluster.timeout_ms,
        )
    except Refused as error:
        # DescribeGroups 6 has an error for a group that does not exist; older ones call it Dead.
        if error.code is not Code.GROUP_ID_NOT_FOUND:
            raise
        return None
    return None if group.group_state == DEAD else group


def list_group(cluster: Cluster, group_id: str) -> ListedGroup | None:
    """Return the group of that name and any type as ListGroups shows it; None if there is none."""

    def read(response: Any) -> tuple[Code, list[ListedGroup]]:
        return Code.of(response.error_code), [
            group for group in response.groups if group.group_id == group_id
        ]

    groups = cluster.ask_coordinator(
        "ListGroups", ListGroupsRequest(), group_id, read=read, timeout_ms=cluster.timeout_ms
    )
    return groups[0] if groups else None


def group_positions(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, GroupPosition]:
    """Return a classic group's committed positions in the partitions that exist.

    Offsets of open transactions do not count.
    """
    requested = tuple(partitions)
    topics = cluster.topics(dict.fromkeys(topic for topic, _ in requested))
    with_ids = {
        each: TopicIdPartition(topic.name, topic.id, each.partition)
        for each in requested
        if (topic := topics.named(each.topic)) is not None
        and 0 <= each.partition < topic.partitions
    }
    if not with_ids:
        return {}

    def read(response: Any) -> tuple[Code, dict[TopicIdPartition, int | None]]:
        code, fetched = parse_fetch_response(response, with_ids.values())
        if code is Code.NONE:
            code = next(iter(fetched.codes.values()), Code.NONE)
        return code, fetched.offsets

    # Without require_stable: an open transaction must not make the command wait.
    request = OffsetFetchRequest(
        groups=fetch_request(group_id, with_ids.values()).groups, require_stable=False
    )
    committed = cluster.ask_coordinator(
        "OffsetFetch", request, group_id, read=read, timeout_ms=cluster.timeout_ms
    )
    ends = cluster.list_offsets(with_ids.values(), LATEST)
    return {
        each: GroupPosition(committed.get(partition), ends[partition])
        for each, partition in with_ids.items()
    }
