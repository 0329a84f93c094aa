"""Committed offsets: OffsetCommit, OffsetFetch and OffsetDelete.

Offsets are stored beside the groups, which only judge the sender. A group that has offsets and no
members is a simple group: it exists as long as one of its offsets does.
Versions: OffsetCommit 2-10 (10 names topics by id), OffsetFetch 1-10 (8: many groups, 10: topic
ids), OffsetDelete 0.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from apportion.coord import records
from apportion.coord.group import CommitClaim, FetchClaim
from apportion.coord.records import CoordinatorRecord
from apportion.coord.replay import Ledger
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.settings import MAX_INT64
from apportion.topics import NO_TOPIC_ID, Topic, TopicId, Topics
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from apportion.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from apportion.wire.records.groups import OffsetCommitValue

MAX_TIMESTAMP_MS = MAX_INT64
"""The latest timestamp that a record can have."""
NO_OFFSET = OffsetCommitValue(offset=-1)
"""The answer for a partition without a committed offset."""


class TopicCommit(NamedTuple):
    """One topic of an OffsetCommit, and the cluster's topic that it refers to.

    topic: None if there is none.
    """

    requested: OffsetCommitRequestTopic
    topic: Topic | None

    def existing_partitions(self) -> Iterator[tuple[TopicId, OffsetCommitRequestPartition]]:
        """Yield the partitions that exist, with the topic id."""
        for partition in self.requested.partitions:
            if self.topic is not None and 0 <= partition.partition_index < self.topic.partitions:
                yield self.topic.id, partition


def commit_offsets(turn: Turn, arrived: Arrived) -> None:
    """Store the offsets of an OffsetCommit that may be stored, and answer for each partition.

    Errors: INVALID_GROUP_ID for an id that no record can hold. For one partition: UNKNOWN_TOPIC_ID
    (from version 10 on), UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE; for all that exist,
    the group's error for the sender.
    """
    request: OffsetCommitRequest = arrived.request
    if not records.fits_in_key(request.group_id):
        raise Refused(Code.INVALID_GROUP_ID, "GroupId is too long.")
    commits = [
        TopicCommit(
            requested,
            _resolve_topic_or_none(
                turn.topics, requested.name, requested.topic_id, arrived.version
            ),
        )
        for requested in request.topics
    ]
    existing = [partition for commit in commits for partition in commit.existing_partitions()]
    fitting = tuple(
        (topic_id, requested.partition_index)
        for topic_id, requested in existing
        if _metadata_fits(turn, requested)
    )
    # If no partition exists, Kafka does not ask the group at all.
    commit_error = _commit_error(turn.ledger, arrived, fitting) if existing else Code.NONE
    # As in Kafka, only a commit that passes the group's checks counts as a heartbeat.
    if existing and commit_error is Code.NONE:
        _touch_session(turn, request)
    # a topic that is named twice is answered as one
    responses: dict[tuple[str, TopicId], list[OffsetCommitResponsePartition]] = {}
    for requested, topic in commits:
        responses.setdefault((requested.name, requested.topic_id), []).extend(
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index,
                error_code=int(_commit_partition(turn, arrived, topic, partition, commit_error)),
            )
            for partition in requested.partitions
        )
    topics = (
        OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=tuple(partitions))
        for (name, topic_id), partitions in responses.items()
    )
    turn.reply(arrived.ticket, OffsetCommitResponse(topics=tuple(topics)))


def _commit_error(
    ledger: Ledger,
    arrived: Arrived,
    partitions: tuple[tuple[TopicId, int], ...],
) -> Code:
    """Return the group's error for the sender of an OffsetCommit, or NONE."""
    request: OffsetCommitRequest = arrived.request
    epoch = request.generation_id_or_member_epoch
    try:
        check_commit(
            ledger,
            request.group_id,
            CommitClaim(
                request.member_id, request.group_instance_id, epoch, arrived.version, partitions
            ),
        )
    except Refused as refusal:
        return refusal.code
    return Code.NONE


def _touch_session(turn: Turn, body: OffsetCommitRequest) -> None:
    """Restart the member's session, where OffsetCommit counts as a heartbeat (classic groups)."""
    group = turn.ledger.groups.get(body.group_id)
    session = None if group is None else group.session_or_none(body.member_id)
    if session is not None:
        turn.deadlines.arm(session[0], turn.now.mono_ms + session[1])


def check_commit(ledger: Ledger, group_id: str, claim: CommitClaim) -> None:
    """Refuse an OffsetCommit that its group, or the absence of one, does not allow.

    Errors: the group's; without a group UNKNOWN_MEMBER_ID if it has offsets, else
    GROUP_ID_NOT_FOUND, which is ILLEGAL_GENERATION before version 9.
    """
    group = ledger.groups.get(group_id)
    if group is not None:
        group.check_commit(claim)
    # A simple group exists, so it is the member that does not.
    elif claim.epoch >= 0 and group_id in ledger.offsets:
        raise Refused(
            Code.UNKNOWN_MEMBER_ID, f"Group {group_id} has no member {claim.member_id!r}."
        )
    elif claim.epoch >= 0:
        code = Code.GROUP_ID_NOT_FOUND if claim.version >= 9 else Code.ILLEGAL_GENERATION
        raise Refused(code, f"There is no group {group_id}.")


def _commit_partition(
    turn: Turn,
    arrived: Arrived,
    topic: Topic | None,
    requested: OffsetCommitRequestPartition,
    commit_error: Code,
) -> Code:
    """Store one partition's offset of an OffsetCommit; return NONE or the error."""
    request: OffsetCommitRequest = arrived.request
    if topic is None:
        return Code.UNKNOWN_TOPIC_ID if arrived.version >= 10 else Code.UNKNOWN_TOPIC_OR_PARTITION
    if not 0 <= requested.partition_index < topic.partitions:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    # Behind the test of the partition, as in Kafka: what does not exist is reported as that.
    if commit_error is not Code.NONE:
        return commit_error
    if not _metadata_fits(turn, requested):
        return Code.OFFSET_METADATA_TOO_LARGE
    metadata = requested.committed_metadata or ""
    now_ms, retention_ms = turn.now.wall_ms, request.retention_time_ms
    # Versions 2 to 4 may name a retention time; KIP-211 removed it.
    if retention_ms == -1:
        value = OffsetCommitValue(
            offset=requested.committed_offset,
            leader_epoch=requested.committed_leader_epoch,
            metadata=metadata,
            commit_timestamp=now_ms,
            topic_id=topic.id,
        )
    # only version 1 of the record can say when an offset expires, and it knows no leader epoch and
    # no topic id
    else:
        value = OffsetCommitValue(
            offset=requested.committed_offset,
            metadata=metadata,
            commit_timestamp=now_ms,
            expire_timestamp=min(now_ms + retention_ms, MAX_TIMESTAMP_MS),
        )
    turn.emit(records.offset_commit(request.group_id, topic.name, requested.partition_index, value))
    return Code.NONE


def _metadata_fits(turn: Turn, requested: OffsetCommitRequestPartition) -> bool:
    return (
        len((requested.committed_metadata or "").encode())
        <= turn.settings.offset_metadata_max_bytes
    )


def fetch_offsets(turn: Turn, arrived: Arrived) -> None:
    """Answer OffsetFetch with the committed offsets; -1 where there is none, or no such group."""
    request: OffsetFetchRequest = arrived.request
    if arrived.version >= 8:
        groups = tuple(_fetch_group(turn, group, arrived.version) for group in request.groups)
        turn.reply(arrived.ticket, OffsetFetchResponse(groups=groups))
        return
    topics = _fetch_topics(turn, request.group_id, request.topics, arrived.version)
    turn.reply(arrived.ticket, OffsetFetchResponse(topics=topics))


def _fetch_group(
    turn: Turn, requested: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponseGroup:
    """Return one group of an OffsetFetch response, from version 8 on; its error if refused."""
    group = turn.ledger.groups.get(requested.group_id)
    if group is not None:
        try:
            group.check_fetch(FetchClaim(requested.member_id, requested.member_epoch))
        except Refused as refusal:  # one group of many: the others have their answers
            return OffsetFetchResponseGroup(
                group_id=requested.group_id, error_code=int(refusal.code)
            )
    topics = _fetch_topics(turn, requested.group_id, requested.topics, version)
    return OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics)


def _fetch_topics(
    turn: Turn, group_id: str, requested: Iterable[OffsetFetchRequestTopic] | None, version: int
) -> tuple[OffsetFetchResponseTopic, ...]:
    """Return the requested topics of one group, for OffsetFetch; None requests all."""
    committed = turn.ledger.offsets.get(group_id, {})
    if requested is None:
        requested = _committed_topics(turn.topics, committed, version)
    return tuple(_fetch_topic(turn.topics, committed, topic, version) for topic in requested)


def _committed_topics(
    topics: Topics, committed: dict[str, dict[int, OffsetCommitValue]], version: int
) -> Iterable[OffsetFetchRequestTopic]:
    """Yield everything that the group has committed, as an OffsetFetch of `version` names it."""
    for name, partitions in sorted(committed.items()):
        topic = topics.named(name)
        # From version 10 on topics are named by id, and a deleted topic has none.
        if version < 10 or topic is not None:
            topic_id = NO_TOPIC_ID if version < 10 or topic is None else topic.id
            yield OffsetFetchRequestTopic(
                name=name, topic_id=topic_id, partition_indexes=tuple(sorted(partitions))
            )


def _fetch_topic(
    topics: Topics,
    committed: dict[str, dict[int, OffsetCommitValue]],
    requested: OffsetFetchRequestTopic,
    version: int,
) -> OffsetFetchResponseTopic:
    """Return one topic of an OffsetFetch response, by name or (from version 10 on) by id."""
    topic = _resolve_topic_or_none(topics, requested.name, requested.topic_id, version)
    code = Code.UNKNOWN_TOPIC_ID if version >= 10 and topic is None else Code.NONE
    offsets = committed.get(requested.name if topic is None else topic.name, {})
    partitions = (
        _partition_response(index, _of_topic_or_none(offsets.get(index), topic), code)
        for index in requested.partition_indexes
    )
    return OffsetFetchResponseTopic(
        name=requested.name, topic_id=requested.topic_id, partitions=tuple(partitions)
    )


def _of_topic_or_none(
    value: OffsetCommitValue | None, topic: Topic | None
) -> OffsetCommitValue | None:
    """Return the committed offset; None if it is of a deleted topic of the same name."""
    if value is None or topic is None or value.topic_id in (NO_TOPIC_ID, topic.id):
        return value
    return None


def _partition_response(
    index: int, value: OffsetCommitValue | None, code: Code
) -> OffsetFetchResponsePartition:
    """Return one partition of an OffsetFetch response; without a commit the offset is -1."""
    value = NO_OFFSET if value is None else value
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=int(code),
    )


def _resolve_topic_or_none(
    topics: Topics, name: str, topic_id: TopicId, version: int
) -> Topic | None:
    """Return the topic that a request names: by id from version 10 on, else by name."""
    return topics.with_id(topic_id) if version >= 10 else topics.named(name)


def delete_offsets(turn: Turn, arrived: Arrived) -> None:
    """Delete committed offsets for OffsetDelete, but not of topics that the group subscribes to.

    Errors: INVALID_GROUP_ID, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND; for one partition
    UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC.
    """
    request: OffsetDeleteRequest = arrived.request
    if not request.group_id:
        raise Refused(Code.INVALID_GROUP_ID, "GroupId is empty.")
    group = turn.ledger.groups.get(request.group_id)
    if group is not None:
        group.check_offset_deletion()
    if group is None and request.group_id not in turn.ledger.offsets:
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no group {request.group_id}.")
    # a topic that is named twice is answered as one
    responses: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for requested in request.topics:
        topic = turn.topics.named(requested.name)
        is_subscribed = group is not None and group.subscribes_to(requested.name)
        partitions = responses.setdefault(requested.name, [])
        for index in (partition.partition_index for partition in requested.partitions):
            code = Code.NONE
            if topic is None or not 0 <= index < topic.partitions:
                code = Code.UNKNOWN_TOPIC_OR_PARTITION
            elif is_subscribed:
                code = Code.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                turn.emit_all(_tombstones(turn.ledger, request.group_id, requested.name, [index]))
            partitions.append(
                OffsetDeleteResponsePartition(partition_index=index, error_code=int(code))
            )
    topics = (
        OffsetDeleteResponseTopic(name=name, partitions=tuple(partitions))
        for name, partitions in responses.items()
    )
    turn.reply(arrived.ticket, OffsetDeleteResponse(topics=tuple(topics)))


def delete_group_offsets(turn: Turn, group_id: str) -> None:
    """Delete every committed offset of the group, for DeleteGroups."""
    for topic, partitions in sorted(turn.ledger.offsets.get(group_id, {}).items()):
        turn.emit_all(_tombstones(turn.ledger, group_id, topic, sorted(partitions)))


def delete_topic_offsets(turn: Turn, topic: str) -> None:
    """Delete every group's committed offsets of a topic that was deleted."""
    for group_id, topics in sorted(turn.ledger.offsets.items()):
        # Or a topic that is created again under the name would begin at the old one's offsets.
        if topic in topics:
            turn.emit_all(_tombstones(turn.ledger, group_id, topic, sorted(topics[topic])))


def _tombstones(
    ledger: Ledger, group_id: str, topic: str, indexes: Iterable[int]
) -> list[CoordinatorRecord]:
    """Return the records that delete those of a group's committed offsets that exist."""
    committed = ledger.offsets.get(group_id, {}).get(topic, {})
    return [
        records.offset_commit(group_id, topic, index, None)
        for index in indexes
        if index in committed
    ]
