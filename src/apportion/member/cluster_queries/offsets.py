"""Queries about a group's offsets: OffsetCommit and OffsetFetch.

Requests name every topic by name and id; the version in use decides which one is sent. A query
carries the member's id and epoch, and the coordinator refuses it if they are out of date.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from apportion.errors import Code
from apportion.member.cluster_queries.query import GroupQuery, by_partition, result_key
from apportion.topics import TopicIdPartition, TopicPartition, values_by_topic
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
)


class Membership(NamedTuple):
    """The member that commits or fetches offsets.

    The default is no member: allowed while the group is empty.
    """

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


NO_MEMBER = Membership()


class OffsetAndMetadata(NamedTuple):
    """A group's committed offset of one partition, and its metadata; None: no offset."""

    offset: int | None
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class OffsetCommitQuery(GroupQuery[None]):
    """Commit these offsets, as a member or as no member.

    metadata: of each offset.
    """

    api: ClassVar[str] = "OffsetCommit"

    offsets: Mapping[TopicIdPartition, int]
    membership: Membership = NO_MEMBER
    metadata: str = ""

    def request(self) -> OffsetCommitRequest:
        """Return the request to commit the offsets."""
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.membership.epoch,
            member_id=self.membership.member_id,
            group_instance_id=self.membership.instance_id,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offset,
                            committed_metadata=self.metadata,
                        )
                        for number, offset in partitions
                    ),
                )
                for (topic, topic_id), partitions in values_by_topic(
                    dict(sorted(self.offsets.items()))
                ).items()
            ),
        )

    def parse(self, response: OffsetCommitResponse) -> None:
        """Raise Refused if any offset was not committed.

        A partition that the response leaves out has UNKNOWN_SERVER_ERROR.
        """
        codes = {
            result_key(topic.name, topic.topic_id, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        found = by_partition(codes, self.offsets)
        for partition in self.offsets:
            code = found.get(partition, Code.UNKNOWN_SERVER_ERROR)
            if code != Code.NONE:
                raise self.refused(code, partition.topic)


@dataclass(frozen=True, slots=True)
class OffsetFetchQuery(GroupQuery[dict[TopicIdPartition, OffsetAndMetadata]]):
    """Fetch the committed offsets of these partitions, as a member or as no member.

    require_stable: refuse an offset that an open transaction is about to change (KIP-447).
    """

    api: ClassVar[str] = "OffsetFetch"

    partitions: tuple[TopicIdPartition, ...]
    membership: Membership = NO_MEMBER
    require_stable: bool = True

    def request(self) -> OffsetFetchRequest:
        """Return the request for the offsets of the partitions."""
        topics = tuple(
            OffsetFetchRequestTopic(
                name=topic,
                topic_id=topic_id,
                partition_indexes=tuple(number for number, _ in partitions),
            )
            for (topic, topic_id), partitions in values_by_topic(
                dict.fromkeys(sorted(self.partitions))
            ).items()
        )
        group = OffsetFetchRequestGroup(
            group_id=self.group_id,
            member_id=self.membership.member_id or None,
            member_epoch=self.membership.epoch,
            topics=topics,
        )
        return OffsetFetchRequest(groups=(group,), require_stable=self.require_stable)

    def parse(self, response: OffsetFetchResponse) -> dict[TopicIdPartition, OffsetAndMetadata]:
        """Return each partition's offset; raise Refused if any was not fetched.

        A partition that the response leaves out has UNKNOWN_SERVER_ERROR.
        """
        group = response.groups[0]
        results = {
            result_key(topic.name, topic.topic_id, partition.partition_index): partition
            for topic in group.topics
            for partition in topic.partitions
        }
        fetched = dict.fromkeys(self.partitions, NO_ANSWER) | by_partition(results, self.partitions)
        self.refuse_errors([group.error_code])
        for partition, each in fetched.items():
            if each.error_code != Code.NONE:
                raise self.refused(each.error_code, partition.topic)
        return {partition: _committed(each) for partition, each in fetched.items()}


@dataclass(frozen=True, slots=True)
class AllOffsetsQuery(GroupQuery[dict[TopicPartition, OffsetAndMetadata]]):
    """Fetch every committed offset of the group, for tools that do not know its topics."""

    api: ClassVar[str] = "OffsetFetch"
    version: ClassVar[int | None] = 9  # the last that names topics; later ones have ids alone

    def request(self) -> OffsetFetchRequest:
        """Return the request for the offsets of all partitions."""
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=None)
        return OffsetFetchRequest(groups=(group,))

    def parse(self, response: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset of each partition that has one."""
        group = response.groups[0]
        self.refuse_errors([group.error_code])
        return {
            TopicPartition(topic.name, partition.partition_index): _committed(partition)
            for topic in group.topics
            for partition in topic.partitions
        }


NO_ANSWER = OffsetFetchResponsePartition(error_code=Code.UNKNOWN_SERVER_ERROR)


def _committed(partition: OffsetFetchResponsePartition) -> OffsetAndMetadata:
    """Return a partition's offset in an OffsetFetch response."""
    if partition.committed_offset < 0:
        return OffsetAndMetadata(None)
    return OffsetAndMetadata(partition.committed_offset, partition.metadata or "")
