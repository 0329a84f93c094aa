"""Committed offsets: a store beside the groups. It asks a group whether the claimant may, and nothing else.

A group that has offsets and nobody in it is a simple group: it exists as long as one of its offsets does.
Versions: OffsetCommit 2-10 (10 names topics by id), OffsetFetch 1-10 (8 asks for many groups, 10 by id), OffsetDelete 0.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from apportion.coord import records
from apportion.coord.group import CommitClaim, FetchClaim
from apportion.coord.records import CoordinatorRecord
from apportion.coord.replay import Ledger
from apportion.coord.turn import GroupRequest, Turn
from apportion.errors import Code, Refused
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
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from apportion.wire.records.groups import OffsetCommitValue

MAX_TIMESTAMP_MS = (1 << 63) - 1
"""The last moment that a record can name."""
NO_OFFSET = OffsetCommitValue(offset=-1)
"""What stands where nothing was committed."""


class TopicCommit(NamedTuple):
    """One topic of a commit, and the topic of the cluster that it means (None: there is none)."""

    requested: OffsetCommitRequestTopic
    topic: Topic | None

    def existing_partitions(self) -> Iterator[tuple[TopicId, OffsetCommitRequestPartition]]:
        """The partitions that exist."""
        for partition in self.requested.partitions:
            if self.topic is not None and 0 <= partition.partition_index < self.topic.partitions:
                yield self.topic.id, partition


def commit_offsets(turn: Turn, request: GroupRequest[OffsetCommitRequest]) -> None:
    """The offsets that may be stored are stored, and each partition has its answer.

    Errors: INVALID_GROUP_ID for an id that no record can hold. For one partition: UNKNOWN_TOPIC_ID (from version 10 on, for its
    topic), UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE; for all that exist, what the group says of the claimant.
    """
    if not records.fits_in_key(request.body.group_id):
        raise Refused(Code.INVALID_GROUP_ID, "GroupId is too long.")
    wishes = [
        TopicCommit(said, _resolve_topic_or_none(turn.topics, said.name, said.topic_id, request.version))
        for said in request.body.topics
    ]
    known = [place for wish in wishes for place in wish.existing_partitions()]
    fitting = tuple((topic_id, said.partition_index) for topic_id, said in known if _metadata_fits(turn, said))
    denial = _commit_error(turn.ledger, request, fitting) if known else Code.NONE
    if known and denial is Code.NONE:
        _touch_session(turn, request.body)
    answers: dict[tuple[str, TopicId], list[OffsetCommitResponsePartition]] = {}  # a topic that is named twice is answered as one
    for said, topic in wishes:
        answers.setdefault((said.name, said.topic_id), []).extend(
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index,
                error_code=int(_commit_partition(turn, request, topic, partition, denial)),
            )
            for partition in said.partitions
        )
    topics = (
        OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=tuple(partitions))
        for (name, topic_id), partitions in answers.items()
    )
    turn.reply(request.ticket, OffsetCommitResponse(topics=tuple(topics)))


def _commit_error(ledger: Ledger, request: GroupRequest[OffsetCommitRequest], places: tuple[tuple[TopicId, int], ...]) -> Code:
    """What the group has against the claimant; NONE if nothing. Other partitions of the request have their own answers."""
    body = request.body
    epoch = body.generation_id_or_member_epoch
    try:
        check_commit(ledger, body.group_id, CommitClaim(body.member_id, body.group_instance_id, epoch, request.version, places))
    except Refused as refusal:
        return refusal.code
    return Code.NONE


def _touch_session(turn: Turn, body: OffsetCommitRequest) -> None:
    """Where a commit is a sign of life, the member's session begins anew."""
    group = turn.ledger.groups.get(body.group_id)
    session = None if group is None else group.session_or_none(body.member_id)
    if session is not None:
        turn.deadlines.arm(session[0], turn.now.mono_ms + session[1])


def check_commit(ledger: Ledger, group_id: str, claim: CommitClaim) -> None:
    """Refuses a commit that the group, or the lack of one, does not allow.

    Errors: what the group says; without a group UNKNOWN_MEMBER_ID if there are offsets, else GROUP_ID_NOT_FOUND, which before
    version 9 is ILLEGAL_GENERATION.
    """
    group = ledger.groups.get(group_id)
    if group is not None:
        group.check_commit(claim)
    elif claim.epoch >= 0 and group_id in ledger.offsets:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"Group {group_id} has no member {claim.member_id!r}.")
    elif claim.epoch >= 0:
        code = Code.GROUP_ID_NOT_FOUND if claim.version >= 9 else Code.ILLEGAL_GENERATION
        raise Refused(code, f"There is no group {group_id}.")


def _commit_partition(
    turn: Turn, request: GroupRequest[OffsetCommitRequest], topic: Topic | None, said: OffsetCommitRequestPartition, denial: Code
) -> Code:
    """The offset is stored, unless its partition does not exist, the group denies it, or the note beside it is too long."""
    if topic is None:
        return Code.UNKNOWN_TOPIC_ID if request.version >= 10 else Code.UNKNOWN_TOPIC_OR_PARTITION
    if not 0 <= said.partition_index < topic.partitions:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if denial is not Code.NONE:
        return denial
    if not _metadata_fits(turn, said):
        return Code.OFFSET_METADATA_TOO_LARGE
    metadata = said.committed_metadata or ""
    now_ms, keep_ms = turn.now.wall_ms, request.body.retention_time_ms
    if keep_ms == -1:
        value = OffsetCommitValue(
            offset=said.committed_offset,
            leader_epoch=said.committed_leader_epoch,
            metadata=metadata,
            commit_timestamp=now_ms,
            topic_id=topic.id,
        )
    else:  # only version 1 of the record can say when an offset expires, and it knows no leader epoch and no topic id
        value = OffsetCommitValue(
            offset=said.committed_offset,
            metadata=metadata,
            commit_timestamp=now_ms,
            expire_timestamp=min(now_ms + keep_ms, MAX_TIMESTAMP_MS),
        )
    turn.emit(records.offset_commit(request.body.group_id, topic.name, said.partition_index, value))
    return Code.NONE


def _metadata_fits(turn: Turn, said: OffsetCommitRequestPartition) -> bool:
    return len((said.committed_metadata or "").encode()) <= turn.settings.offset_metadata_max_bytes


def fetch_offsets(turn: Turn, request: GroupRequest[OffsetFetchRequest]) -> None:
    """The committed offsets are told; -1 where there is none, and no error for a group that does not exist."""
    if request.version >= 8:
        groups = tuple(_fetch_group(turn, group, request.version) for group in request.body.groups)
        turn.reply(request.ticket, OffsetFetchResponse(groups=groups))
        return
    committed = turn.ledger.offsets.get(request.body.group_id, {})
    said = request.body.topics
    wanted = (
        [(topic.name, topic.partition_indexes) for topic in said]
        if said is not None
        else [(name, tuple(sorted(partitions))) for name, partitions in sorted(committed.items())]
    )
    topics = tuple(_fetch_by_name(turn.topics, committed, name, indexes) for name, indexes in wanted)
    turn.reply(request.ticket, OffsetFetchResponse(topics=topics))


def _fetch_by_name(
    topics: Topics, committed: dict[str, dict[int, OffsetCommitValue]], name: str, indexes: Iterable[int]
) -> OffsetFetchResponseTopic:
    topic, offsets = topics.named(name), committed.get(name, {})
    shown = (
        _partition_response(OffsetFetchResponsePartition, index, _of_topic_or_none(offsets.get(index), topic)) for index in indexes
    )
    return OffsetFetchResponseTopic(name=name, partitions=tuple(shown))


def _fetch_group(turn: Turn, said: OffsetFetchRequestGroup, version: int) -> OffsetFetchResponseGroup:
    group = turn.ledger.groups.get(said.group_id)
    if group is not None:
        try:
            group.check_fetch(FetchClaim(said.member_id, said.member_epoch))
        except Refused as refusal:  # one group of many: the others have their answers
            return OffsetFetchResponseGroup(group_id=said.group_id, error_code=int(refusal.code))
    committed = turn.ledger.offsets.get(said.group_id, {})
    wanted = said.topics
    if wanted is None:
        wanted = tuple(_committed_topics(turn.topics, committed, version))
    topics = tuple(_fetch_topic(turn.topics, committed, topic, version) for topic in wanted)
    return OffsetFetchResponseGroup(group_id=said.group_id, topics=topics)


def _committed_topics(
    topics: Topics, committed: dict[str, dict[int, OffsetCommitValue]], version: int
) -> Iterable[OffsetFetchRequestTopics]:
    """The request for everything that the group has committed and that the version can name."""
    for name, partitions in sorted(committed.items()):
        topic = topics.named(name)
        if version < 10 or topic is not None:
            topic_id = NO_TOPIC_ID if topic is None else topic.id
            yield OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=tuple(sorted(partitions)))


def _fetch_topic(
    topics: Topics, committed: dict[str, dict[int, OffsetCommitValue]], said: OffsetFetchRequestTopics, version: int
) -> OffsetFetchResponseTopics:
    topic = _resolve_topic_or_none(topics, said.name, said.topic_id, version)
    code = Code.UNKNOWN_TOPIC_ID if version >= 10 and topic is None else Code.NONE
    offsets = committed.get(said.name if topic is None else topic.name, {})
    shown = (
        _partition_response(OffsetFetchResponsePartitions, index, _of_topic_or_none(offsets.get(index), topic), code)
        for index in said.partition_indexes
    )
    return OffsetFetchResponseTopics(name=said.name, topic_id=said.topic_id, partitions=tuple(shown))


def _of_topic_or_none(value: OffsetCommitValue | None, topic: Topic | None) -> OffsetCommitValue | None:
    """The offset, unless it was committed for an earlier topic of the same name."""
    if value is None or topic is None or value.topic_id in (NO_TOPIC_ID, topic.id):
        return value
    return None


def _partition_response(kind: Any, index: int, value: OffsetCommitValue | None, code: Code = Code.NONE) -> Any:
    value = NO_OFFSET if value is None else value
    return kind(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=int(code),
    )


def _resolve_topic_or_none(topics: Topics, name: str, topic_id: TopicId, version: int) -> Topic | None:
    """The topic that a request names, by its id from version 10 on."""
    return topics.with_id(topic_id) if version >= 10 else topics.named(name)


def delete_offsets(turn: Turn, request: GroupRequest[OffsetDeleteRequest]) -> None:
    """The offsets are forgotten, but for topics that the group subscribes to.

    Errors: INVALID_GROUP_ID, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND; for one partition
    UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC.
    """
    body = request.body
    if not body.group_id:
        raise Refused(Code.INVALID_GROUP_ID, "GroupId is empty.")
    group = turn.ledger.groups.get(body.group_id)
    if group is not None:
        group.check_offset_deletion()
    if group is None and body.group_id not in turn.ledger.offsets:
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no group {body.group_id}.")
    answers: dict[str, list[OffsetDeleteResponsePartition]] = {}  # a topic that is named twice is answered as one
    for said in body.topics:
        topic = turn.topics.named(said.name)
        is_read = group is not None and group.subscribes_to(said.name)
        partitions = answers.setdefault(said.name, [])
        for index in (partition.partition_index for partition in said.partitions):
            code = Code.NONE
            if topic is None or not 0 <= index < topic.partitions:
                code = Code.UNKNOWN_TOPIC_OR_PARTITION
            elif is_read:
                code = Code.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                turn.emit_all(_tombstones(turn.ledger, body.group_id, said.name, [index]))
            partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=int(code)))
    topics = (OffsetDeleteResponseTopic(name=name, partitions=tuple(partitions)) for name, partitions in answers.items())
    turn.reply(request.ticket, OffsetDeleteResponse(topics=tuple(topics)))


def delete_group_offsets(turn: Turn, group_id: str) -> None:
    """The group has committed nothing."""
    for topic, partitions in sorted(turn.ledger.offsets.get(group_id, {}).items()):
        turn.emit_all(_tombstones(turn.ledger, group_id, topic, sorted(partitions)))


def delete_topic_offsets(turn: Turn, topic: str) -> None:
    """No group has committed anything for the topic."""
    for group_id, topics in sorted(turn.ledger.offsets.items()):
        if topic in topics:
            turn.emit_all(_tombstones(turn.ledger, group_id, topic, sorted(topics[topic])))


def _tombstones(ledger: Ledger, group_id: str, topic: str, indexes: Iterable[int]) -> list[CoordinatorRecord]:
    committed = ledger.offsets.get(group_id, {}).get(topic, {})
    return [records.offset_commit(group_id, topic, index, None) for index in indexes if index in committed]
