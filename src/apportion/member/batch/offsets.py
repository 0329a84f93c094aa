"""OffsetCommit and OffsetFetch: requests, responses, and the offsets that are due for commit.

Pure translation both ways. Requests name every topic by name and id; the version in use decides
which one is sent. A commit carries the member's id and epoch, and the coordinator refuses it if
they are out of date.
"""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple, TypeVar

from apportion.errors import Code
from apportion.member.batch.span import Span
from apportion.topics import TopicIdPartition, by_topic
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

V = TypeVar("V")


class Membership(NamedTuple):
    """The member that commits or fetches offsets.

    The default is no member: allowed while the group is empty.
    """

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


NO_MEMBER = Membership()


def due_commits(
    previous: Span,
    owned: Container[TopicIdPartition],
    committed: Mapping[TopicIdPartition, int | None],
) -> dict[TopicIdPartition, int]:
    """Return the end offsets of a micro-batch that the group does not have yet.

    owned: the partitions that the member still owns; others must not be committed.
    Everything below these offsets must be durable in the sink: a span that Spark hands to
    latestOffset is.
    """
    return {
        partition: end
        for partition, end in previous.end_offsets().items()
        if partition in owned and ((offset := committed.get(partition)) is None or end > offset)
    }


def commit_request(
    group_id: str,
    offsets: Mapping[TopicIdPartition, int],
    member: Membership = NO_MEMBER,
    metadata: str = "",
) -> OffsetCommitRequest:
    """Return the OffsetCommit request of a member, or of no member, as for an empty group.

    All offsets have the same metadata.
    """
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata=metadata
                    )
                    for number, offset in partitions
                ),
            )
            for (topic, topic_id), partitions in by_topic(dict(sorted(offsets.items()))).items()
        ),
    )


def commit_errors(
    response: OffsetCommitResponse, partitions: Iterable[TopicIdPartition]
) -> dict[TopicIdPartition, Code]:
    """Return each partition's error code of an OffsetCommit response.

    A partition that the response leaves out has UNKNOWN_SERVER_ERROR.
    """
    by_key = {
        (topic.name or bytes(topic.topic_id), partition.partition_index): Code.of(
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }
    return {
        partition: _value_of(by_key, partition, Code.UNKNOWN_SERVER_ERROR)
        for partition in partitions
    }


def fetch_request(
    group_id: str, partitions: Iterable[TopicIdPartition], member: Membership = NO_MEMBER
) -> OffsetFetchRequest:
    """Return the OffsetFetch request of this member; only stable offsets (KIP-447)."""
    topics = tuple(
        OffsetFetchRequestTopics(
            name=topic,
            topic_id=topic_id,
            partition_indexes=tuple(number for number, _ in partitions),
        )
        for (topic, topic_id), partitions in by_topic(dict.fromkeys(sorted(partitions))).items()
    )
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=member.member_id or None,
        member_epoch=member.epoch,
        topics=topics,
    )
    return OffsetFetchRequest(groups=(group,), require_stable=True)


class OffsetAndMetadata(NamedTuple):
    """A group's committed offset of one partition, and its metadata; None: no offset."""

    offset: int | None
    metadata: str = ""


class FetchedOffsets(NamedTuple):
    """The committed offsets in an OffsetFetch response.

    codes: the errors, of partitions that have one.
    """

    committed: dict[TopicIdPartition, OffsetAndMetadata]
    codes: dict[TopicIdPartition, Code]

    @property
    def offsets(self) -> dict[TopicIdPartition, int | None]:
        """The offsets without their metadata."""
        return {partition: committed.offset for partition, committed in self.committed.items()}


def parse_fetch_response(
    response: OffsetFetchResponse, partitions: Iterable[TopicIdPartition]
) -> tuple[Code, FetchedOffsets]:
    """Return the group's error code of an OffsetFetch response, and offsets or errors.

    A partition that the response leaves out has UNKNOWN_SERVER_ERROR.
    """
    group = response.groups[0]
    by_key = {
        (topic.name or bytes(topic.topic_id), partition.partition_index): (
            Code.of(partition.error_code),
            OffsetAndMetadata(partition.committed_offset, partition.metadata or "")
            if partition.committed_offset >= 0
            else OffsetAndMetadata(None),
        )
        for topic in group.topics
        for partition in topic.partitions
    }
    answers = {
        partition: _value_of(
            by_key, partition, (Code.UNKNOWN_SERVER_ERROR, OffsetAndMetadata(None))
        )
        for partition in partitions
    }
    return Code.of(group.error_code), FetchedOffsets(
        {partition: stored for partition, (code, stored) in answers.items() if code is Code.NONE},
        {partition: code for partition, (code, _) in answers.items() if code is not Code.NONE},
    )


def _value_of(
    by_key: Mapping[tuple[str | bytes, int], V], partition: TopicIdPartition, default: V
) -> V:
    """Return a partition's value in an offset response, which has topics or ids (KIP-848)."""
    # OffsetCommit and OffsetFetch have topic ids from version 10 on
    by_name = by_key.get((partition.topic, partition.partition))
    if by_name is not None:
        return by_name
    return by_key.get((partition.topic_id, partition.partition), default)
