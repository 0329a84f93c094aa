"""The rule by which a member answers the queries of its assignor (`streams/queries.py`).

Offsets are for any assignor, internal topics and the ends of changelogs for that of Kafka Streams.
The rule asks the cluster for them; a driver answers.
"""

from collections.abc import Iterable
from typing import Any

from apportion.assign.checks import are_numbers
from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.topic_changes import NewTopic
from apportion.member.membership import (
    MetadataFetched,
    QueryAnswered,
    QueryCluster,
    Unanswered,
)
from apportion.member.metadata_cache import MetadataCache, with_topic_ids
from apportion.member.queries import FetchCommitted, ListOffsets
from apportion.member.topic_creation import create_missing_topics
from apportion.readable import foreign_text
from apportion.rules import Rule
from apportion.streams.queries import (
    CreateInternalTopics,
    FetchCommittedOffsets,
    ListEndOffsets,
    ListStartOffsets,
)
from apportion.topics import TopicIdPartition, TopicPartition, Topics
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

BROKERS_DEFAULT = -1
"""The replication factor of internal topics, as Kafka Streams leaves it since 3.0."""


def answer_query(
    action: QueryCluster, cache: MetadataCache
) -> Rule[MetadataFetched | QueryAnswered | Unanswered]:
    """Return the event that answers an assignor's query, or says why none can."""
    try:
        return (yield from _answer_or_raise(action, cache))
    except Refused as refused:
        return Unanswered(action.request_id, refused.why, refused.code)
    except Unanswerable as error:
        return Unanswered(action.request_id, str(error))


def _answer_or_raise(
    action: QueryCluster, cache: MetadataCache
) -> Rule[MetadataFetched | QueryAnswered]:
    """Return the cluster's answer. Raises Refused or Unanswerable where it has none."""
    match action.query:
        case CreateInternalTopics(topics):
            wanted = tuple(
                NewTopic(topic.name, topic.partitions, BROKERS_DEFAULT, dict(topic.configs))
                for topic in topics
            )
            metadata = yield from create_missing_topics(wanted, cache)
            return MetadataFetched(action.request_id, metadata.descriptions)
        case ListEndOffsets(partitions):
            with_ids = yield from _existing_partitions(action.query, partitions, cache)
            answer: dict[TopicIdPartition, int] = yield ListOffsets(with_ids, LATEST)
        case ListStartOffsets(partitions):
            with_ids = yield from _existing_partitions(action.query, partitions, cache)
            answer = yield ListOffsets(with_ids, EARLIEST)
        case FetchCommittedOffsets(partitions):
            with_ids = yield from _existing_partitions(action.query, partitions, cache)
            committed = yield FetchCommitted(with_ids, incarnation=0)
            answer = {each: found.offset or 0 for each, found in committed.items()}
        case _:
            shown = foreign_text(action.query)
            raise Refused(Code.INVALID_REQUEST, f"nobody here can answer {shown:.80}")
    offsets = {partition.topic_partition: offset for partition, offset in answer.items()}
    return QueryAnswered(action.request_id, offsets)


def _existing_partitions(
    query: Any, named: Iterable[TopicPartition], cache: MetadataCache
) -> Rule[tuple[TopicIdPartition, ...]]:
    """Return the partitions of a query, which an assignor names without ids.

    Raises Refused for a query of what is no partition, and for a partition that does not exist.
    """
    partitions = _checked_partitions(query, named)
    names = tuple(dict.fromkeys(each.topic for each in partitions))
    topics = yield from cache.topics(names)
    found = with_topic_ids(partitions, topics)
    if _missing_or_none(found, topics) is not None:
        # The topic may have been given more partitions.
        topics = yield from cache.topics(names, fresh=True)
        found = with_topic_ids(partitions, topics)
    if (missing := _missing_or_none(found, topics)) is not None:
        # Refused here, or its leader would be looked for until the time is up.
        why = f"topic {missing.topic!r} has no partition {missing.partition}"
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, why)
    return found


def _missing_or_none(
    partitions: Iterable[TopicIdPartition], topics: Topics
) -> TopicIdPartition | None:
    """Return the first of these partitions that its topic does not have."""
    return next(
        (each for each in partitions if topics.partition(each.topic, each.partition) is None), None
    )


def _checked_partitions(query: Any, named: Any) -> tuple[TopicPartition, ...]:
    """Return the partitions that an assignor names; plain pairs will do. Raises Refused."""
    try:
        pairs = tuple(named) if isinstance(named, Iterable) else (named,)
    # The assignor's own, whatever it is: it may have a generator for them.
    except Exception as error:
        raise Refused(
            Code.INVALID_REQUEST,
            f"the assignor's {type(query).__name__} cannot be read: {type(error).__name__}: "
            f"{foreign_text(error, str):.80}",
        ) from error
    for pair in pairs:
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], str) or not are_numbers(pair[1:]):
            raise Refused(
                Code.INVALID_REQUEST,
                f"the assignor's {type(query).__name__} names {foreign_text(pair):.80}, which "
                "is no partition: use TopicPartition(topic, number)",
            )
    return tuple(TopicPartition(topic, int(number)) for topic, number in pairs)
