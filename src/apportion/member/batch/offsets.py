"""OffsetCommit and OffsetFetch: requests, responses, and which ends of a span are due to be
committed.

Pure translation both ways. Requests name every topic by name and id; the version in use decides
which one is sent. A commit carries the member's id and epoch, and the coordinator refuses it if
they are out of date.
"""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple, TypeVar

from apportion.errors import Code
from apportion.member.batch.span import Span
from apportion.topics import TopicIdPartition
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
    held: Container[TopicIdPartition],
    committed: Mapping[TopicIdPartition, int | None],
) -> dict[TopicIdPartition, int]:
    """Return the ends of `previous` for partitions still held, where the group does not have them
    yet.

    Everything below these offsets must be durable in the sink: a span that Spark hands to
    latestOffset is.
    """
    return {
        place: to
        for place, (_, to) in previous.ranges.items()
        if place in held and (known := committed.get(place), known is None or to > known)[1]
    }


def commit_request(
    group_id: str,
    offsets: Mapping[TopicIdPartition, int],
    who: Membership = NO_MEMBER,
    metadata: str = "",
) -> OffsetCommitRequest:
    """Return the OffsetCommit request of this member."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=who.epoch,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
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
            for (topic, topic_id), partitions in _by_topic(offsets).items()
        ),
    )


def commit_errors(
    response: OffsetCommitResponse, places: Iterable[TopicIdPartition]
) -> dict[TopicIdPartition, Code]:
    """Return each partition's error code; UNKNOWN_SERVER_ERROR where the response leaves it out."""
    said = {
        (topic.name or bytes(topic.topic_id), partition.partition_index): Code.of(
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }
    return {place: _found(said, place, Code.UNKNOWN_SERVER_ERROR) for place in places}


def fetch_request(
    group_id: str, places: Iterable[TopicIdPartition], who: Membership = NO_MEMBER
) -> OffsetFetchRequest:
    """Return the OffsetFetch request of this member; only stable offsets are returned (KIP-447)."""
    topics = tuple(
        OffsetFetchRequestTopics(
            name=topic,
            topic_id=topic_id,
            partition_indexes=tuple(number for number, _ in partitions),
        )
        for (topic, topic_id), partitions in _by_topic(dict.fromkeys(places)).items()
    )
    group = OffsetFetchRequestGroup(
        group_id=group_id, member_id=who.member_id or None, member_epoch=who.epoch, topics=topics
    )
    return OffsetFetchRequest(groups=(group,), require_stable=True)


class OffsetAndMetadata(NamedTuple):
    """A group's committed offset of one partition, None where it has none, and the metadata
    committed with it.
    """

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
        return {place: one.offset for place, one in self.committed.items()}


def parse_fetch_response(
    response: OffsetFetchResponse, places: Iterable[TopicIdPartition]
) -> tuple[Code, FetchedOffsets]:
    """Return the group's error code, and what the response says of each partition."""
    group = response.groups[0]
    said = {
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
        place: _found(said, place, (Code.UNKNOWN_SERVER_ERROR, OffsetAndMetadata(None)))
        for place in places
    }
    return Code.of(group.error_code), FetchedOffsets(
        {place: stored for place, (code, stored) in answers.items() if code is Code.NONE},
        {place: code for place, (code, _) in answers.items() if code is not Code.NONE},
    )


def _found(said: Mapping[tuple[str | bytes, int], V], place: TopicIdPartition, otherwise: V) -> V:
    by_name = said.get((place.topic, place.partition))
    return (
        by_name if by_name is not None else said.get((place.topic_id, place.partition), otherwise)
    )


def _by_topic(values: Mapping[TopicIdPartition, V]) -> dict[tuple[str, bytes], list[tuple[int, V]]]:
    topics: dict[tuple[str, bytes], list[tuple[int, V]]] = {}
    for place in sorted(values):
        topics.setdefault((place.topic, place.topic_id), []).append(
            (place.partition, values[place])
        )
    return topics
