"""What surrounds the rule of a plain consumer: its membership, its cluster, its application."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.membership import MembershipState, View, assignment
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    KnownTopics,
    ListOffsets,
    MatchingTopics,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.member.records.queries import (
    CallListener,
    CheckForTopics,
    FetchRecords,
    ReportFetch,
)
from apportion.member.records.record_consumer import RecordConsumer
from apportion.member.records.record_ownership import RecordConsumerSettings
from apportion.member.records.streams_consumer import ReadStreamsMembership, StreamsSnapshot
from apportion.member.streams.assignor import TaskShare
from apportion.rules import Rule, run_rule
from apportion.topics import Topic, TopicIdPartition, Topics
from apportion.wire.batch import encode_batch
from apportion.wire.messages.list_offsets import EARLIEST

ID = b"t" * 16
P0, P1, P2 = (TopicIdPartition("t", ID, number) for number in range(3))
QUIET = (
    ReadMembership,
    ReadStreamsMembership,
    ResolveTopicNames,
    KnownTopics,
    MatchingTopics,
    CheckForTopics,
    ReportFetch,
)  # change nothing


def owned(*partitions: TopicIdPartition) -> Any:
    return assignment(partition.id_partition for partition in partitions)


class RecordConsumerHost:
    """The membership, the cluster and the application of one consumer.

    queries: those since the last `clear`, without the quiet ones. offsets: the group's. logs: the
    number of records of each partition. before: called with each query, before it is answered; it
    may raise. is_adopting: the member adopts its target when it is asked to. listener_errors: what
    the application's listener raises, by its name. metadata: of each offset of the group.
    """

    def __init__(self, **settings: Any) -> None:
        chosen: dict[str, Any] = {
            "group_id": "g",
            "reset": EARLIEST,
            "auto_commit_ms": 1_000,
            "max_poll_interval_ms": 100_000,
            "request_timeout_ms": 5_000,
        }
        self.rule = RecordConsumer(RecordConsumerSettings(**(chosen | settings)))
        self.rule.topics = ("t",)
        self.view = View("m", 1, MembershipState.STABLE, 1, (), (), 1_000, None)
        self.tasks = TaskShare()
        self.now_ms = 1_000
        self.cached = self.topics = Topics([Topic("t", ID, 3)])
        self.offsets: dict[TopicIdPartition, int] = {}
        self.logs = {P0: 5, P1: 5, P2: 5}
        self.queries: list[Any] = []
        self.before: Any = lambda query: None
        self.is_adopting = True
        self.listener_errors: dict[str, Exception] = {}
        self.metadata = ""

    def receives(self, *partitions: TopicIdPartition, epoch: int = 2) -> None:
        """Give the member a new target."""
        self.view = replace(self.view, target=owned(*partitions), epoch=epoch)

    def poll(self, limit: int = 100) -> list[tuple[int, int]]:
        """Return partition and offset of each record that a poll delivers."""
        return [(record.partition, record.offset) for record in self.run(self.rule.poll(0, limit))]

    def run(self, rule: Rule[Any]) -> Any:
        return run_rule(rule, self._answer)

    def named(self, *kinds: type) -> list[Any]:
        """Return the queries of these kinds."""
        return [query for query in self.queries if isinstance(query, kinds)]

    def _answer(self, query: Any) -> Any:
        self.before(query)
        if not isinstance(query, QUIET):
            self.queries.append(query)
        match query:
            case ReadMembership() | ReadStreamsMembership():
                return StreamsSnapshot(self.view, self.now_ms, 0, self.tasks)
            case ResolveTopicNames(partitions):
                known = (
                    (self.topics.with_id(each.topic_id), each.partition) for each in partitions
                )
                return tuple(TopicIdPartition(t.name, t.id, number) for t, number in known if t)
            case AdoptAssignment(incarnation, target):
                if (
                    self.is_adopting
                    and incarnation == self.view.incarnation
                    and target == self.view.target
                ):
                    self.view = replace(self.view, owned=target)
                return self.view
            case KnownTopics(names):
                return Topics(each for each in self.cached if each.name in names)
            case MatchingTopics():
                return tuple(topic.name for topic in self.topics)
            case ExistingTopics():
                self.cached = self.topics
                return self.topics
            case FetchCommitted(partitions):
                self._refuse_deleted(partitions)
                return {
                    each: OffsetAndMetadata(self.offsets.get(each), self.metadata)
                    for each in partitions
                }
            case CommitOffsets(offsets):
                self._refuse_deleted(offsets)
                self.offsets.update(offsets)
            case ListOffsets(partitions, timestamp):
                return {
                    each: 0 if timestamp == EARLIEST else self.logs[each] for each in partitions
                }
            case CallListener(name):
                return self.listener_errors.get(name)
            case FetchRecords(positions):
                return {each: self.fetched(each, offset) for each, offset in positions.items()}
        return None

    def _refuse_deleted(self, partitions: Iterable[TopicIdPartition]) -> None:
        if any(self.topics.with_id(each.topic_id) is None for each in partitions):
            raise Refused(Code.UNKNOWN_TOPIC_ID)

    def fetched(self, partition: TopicIdPartition, position: int) -> PartitionFetch:
        count = self.logs[partition]
        if position >= count:
            return PartitionFetch((), position, Code.NONE)
        batch = encode_batch([(None, b"", ())] * count, timestamp_ms=0)
        return PartitionFetch((memoryview(batch),), count, Code.NONE)


def reading_consumer(**settings: Any) -> RecordConsumerHost:
    """Return a consumer of P0 and P1 that has delivered and committed two records of P0."""
    host = RecordConsumerHost(**settings)
    host.receives(P0, P1)
    host.poll(limit=0)
    host.offsets[P1] = host.rule.buffer.positions[P1] = 5
    assert host.poll(limit=2) == [(0, 0), (0, 1)]
    host.run(host.rule.commit(host.rule.uncommitted()))
    host.queries.clear()
    return host
