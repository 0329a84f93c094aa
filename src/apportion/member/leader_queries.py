"""The rule by which a Kafka Streams member answers the queries of its task assignor.

The leader's assignor (`streams.queries`) needs internal topics, the ends of changelogs and
committed offsets. The rule asks the cluster for them; a driver answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.topic_changes import NewTopic
from apportion.member.membership import (
    MetadataFetched,
    QueryAnswered,
    QueryCluster,
    TopicDescription,
    Unanswered,
)
from apportion.member.metadata_cache import with_topic_ids
from apportion.member.queries import ExistingTopics, FetchCommitted, KnownTopics, ListOffsets
from apportion.rules import Rule, RuleQuery
from apportion.streams.queries import CreateInternalTopics, FetchCommittedOffsets, ListEndOffsets
from apportion.topics import TopicIdPartition, TopicPartition, Topics
from apportion.wire.messages.list_offsets import LATEST

BROKERS_DEFAULT = -1
"""The replication factor of internal topics, as Kafka Streams leaves it since 3.0."""


@dataclass(frozen=True, slots=True)
class CreateTopics(RuleQuery):
    """Create these topics, unless another leader has done so meanwhile. Answer: None."""

    topics: tuple[NewTopic, ...]


@dataclass(frozen=True, slots=True)
class DescribeTopics(RuleQuery):
    """Describe those of the named topics that exist. Answer: tuple[TopicDescription, ...]."""

    names: tuple[str, ...]


def answer_query(action: QueryCluster) -> Rule[MetadataFetched | QueryAnswered | Unanswered]:
    """Return the event that answers a query of a leader's task assignor, or says why none can."""
    try:
        return (yield from _answer_or_raise(action))
    except Refused as refused:
        return Unanswered(action.request_id, refused.why, refused.code)
    except Unanswerable as error:
        return Unanswered(action.request_id, str(error))


def _answer_or_raise(action: QueryCluster) -> Rule[MetadataFetched | QueryAnswered]:
    """Return the cluster's answer. Raises Refused or Unanswerable where it has none."""
    match action.query:
        case CreateInternalTopics(topics):
            names = tuple(topic.name for topic in topics)
            existing: Topics = yield ExistingTopics(names)
            missing = tuple(
                NewTopic(topic.name, topic.partitions, BROKERS_DEFAULT, dict(topic.configs))
                for topic in topics
                if existing.named(topic.name) is None
            )
            if missing:
                yield CreateTopics(missing)
            described: tuple[TopicDescription, ...] = yield DescribeTopics(names)
            # A topic that was just created is not known to every broker yet.
            if len(described) < len(topics):
                raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "internal topics do not show up yet")
            return MetadataFetched(action.request_id, described)
        case ListEndOffsets(partitions):
            with_ids = yield from _with_topic_ids(partitions)
            answer: dict[TopicIdPartition, int] = yield ListOffsets(with_ids, LATEST)
        case FetchCommittedOffsets(partitions):
            with_ids = yield from _with_topic_ids(partitions)
            committed = yield FetchCommitted(with_ids, incarnation=0)
            answer = {each: found.offset or 0 for each, found in committed.items()}
        case _:
            raise Refused(Code.INVALID_REQUEST, f"nobody here can answer {action.query!r}")
    offsets = {partition.topic_partition: offset for partition, offset in answer.items()}
    return QueryAnswered(action.request_id, offsets)


def _with_topic_ids(partitions: Sequence[TopicPartition]) -> Rule[tuple[TopicIdPartition, ...]]:
    """Return the partitions, which a leader names without ids; refuse those of a missing topic."""
    topics: Topics = yield KnownTopics(tuple(dict.fromkeys(each.topic for each in partitions)))
    return with_topic_ids(partitions, topics)
