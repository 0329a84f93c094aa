"""Three brokers that lead the partitions of two topics, and the clock of a client of theirs."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.range_reader import DeliverBatches
from apportion.member.cluster_queries.records import FetchQuery, PartitionFetch
from apportion.member.cluster_queries.retries import Send
from apportion.member.cluster_queries.topics import (
    ClusterMetadata,
    Leader,
    ListOffsetsQuery,
    MetadataQuery,
    TopicDescription,
    TopicWithLeaders,
)
from apportion.member.metadata_cache import MetadataCache
from apportion.member.partition_leaders import SendToLeader
from apportion.member.time_limits import Pause, ReadClock
from apportion.rules import Rule, run_rule
from apportion.topics import TopicIdPartition
from apportion.wire.batch import encode_batch, read_header
from apportion.wire.messages.list_offsets import EARLIEST

A0, A1, A2 = A = tuple(TopicIdPartition("a", b"a" * 16, number) for number in range(3))
B0, B1 = B = tuple(TopicIdPartition("b", b"b" * 16, number) for number in range(2))
BATCH_RECORDS = 10
START_MS = 1_000_000


class Fetch(NamedTuple):
    """A Fetch request as a leader saw it. offsets: by partition, in the order of the request."""

    node: int
    offsets: dict[TopicIdPartition, int]
    wait_ms: int
    timeout_ms: int | None


class ThreeBrokers:
    """Brokers 1 to 3; each partition's log has batches of ten records, from 0 on.

    leaders: by partition; None: none now. shown: those that Metadata still shows in their place.
    logs: start and end of each log. down: brokers that do not answer. failing: brokers whose whole
    responses have this error. codes: the errors of a partition's next answers. deleted: topics.
    hidden: of these logs nothing is visible, as of aborted transactions. most_batches: in a
    response. request_ms: how long each request takes, beside its wait.
    sent: the requests of the client, and the names of topics that it looked up. sizes: the most
    bytes that it asked for, by Fetch. pauses: between its tries. delivered: the batches that a
    reader delivered. reading_ms: how long its caller takes for each delivery.
    """

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.leaders: dict[TopicIdPartition, Leader | None] = {
            A0: Leader(1, 5),
            A1: Leader(2, 5),
            A2: Leader(3, 5),
            B0: Leader(1, 8),
            B1: Leader(2, 8),
        }
        self.shown: dict[TopicIdPartition, Leader | None] = {}
        self.logs = dict.fromkeys((*A, *B), (0, 100))
        self.down: set[int] = set()
        self.failing: dict[int, Refused] = {}
        self.codes: dict[TopicIdPartition, list[Code]] = {}
        self.deleted: set[str] = set()
        self.hidden: set[TopicIdPartition] = set()
        self.most_batches = 10
        self.request_ms = 0
        self.reading_ms = 0
        self.now_ms = START_MS
        self.sent: list[Any] = []
        self.sizes: list[int] = []
        self.pauses: list[int] = []
        self.delivered: list[memoryview] = []

    def run(self, rule: Rule[Any]) -> Any:
        """Run a rule of the client to its end."""
        return run_rule(rule, self.answer)

    @property
    def fetches(self) -> list[Fetch]:
        """The Fetch requests of the client."""
        return [each for each in self.sent if isinstance(each, Fetch)]

    @property
    def offsets(self) -> list[int]:
        """The first offset of each delivered batch."""
        return [read_header(batch).base_offset for batch in self.delivered]

    def answer(self, query: Any) -> Any:
        """Answer a query; time passes as it takes."""
        match query:
            case ReadClock():
                return self.now_ms
            case Pause(pause_ms):
                self.pauses.append(pause_ms)
                self.now_ms += pause_ms
                return None
            case DeliverBatches(batches):
                self.delivered += batches
                self.now_ms += self.reading_ms
                return None
            case Send(MetadataQuery(names), timeout_ms):
                self.sent.append(names)
                self._pass(timeout_ms, is_answered=self.down != {1, 2, 3})
                return self._metadata(names)
            case SendToLeader(node, ListOffsetsQuery(timestamp, epochs), timeout_ms):
                self.sent.append((node, timestamp))
                self._pass(timeout_ms, is_answered=node not in self.down)
                side = 0 if timestamp == EARLIEST else 1
                return {each: self._listed(node, each, side) for each in epochs}
            case SendToLeader(node, FetchQuery() as query, timeout_ms):
                return self._fetch(node, query, timeout_ms)
        raise AssertionError(query)

    def _pass(self, timeout_ms: int | None, *, is_answered: bool) -> None:
        assert timeout_ms is not None
        self.now_ms += self.request_ms if is_answered else timeout_ms
        if not is_answered:
            raise Unanswerable("down")

    def _metadata(self, names: Iterable[Any]) -> ClusterMetadata:
        leaders = self.leaders | self.shown
        return ClusterMetadata(
            {node: (f"broker{node}", 9092) for node in (1, 2, 3)},
            tuple(
                TopicWithLeaders(
                    TopicDescription(topic[0].topic, topic[0].topic_id, len(topic)),
                    {each.partition: leaders[each] for each in topic},
                )
                for topic in (A, B)
                if topic[0].topic in names and topic[0].topic not in self.deleted
            ),
        )

    def _listed(self, node: int, partition: TopicIdPartition, side: int) -> int | Refused:
        code = self._refusal(node, partition, None)
        return self.logs[partition][side] if code is Code.NONE else Refused(code)

    def _fetch(
        self, node: int, query: FetchQuery, timeout_ms: int | None
    ) -> dict[TopicIdPartition, PartitionFetch]:
        offsets = {partition: each.offset for partition, each in query.positions.items()}
        self.sent.append(Fetch(node, offsets, query.max_wait_ms, timeout_ms))
        self.sizes.append(query.max_bytes)
        self._pass(timeout_ms, is_answered=node not in self.down)
        if node in self.failing:
            raise self.failing[node]
        fetched, room = {}, self.most_batches
        for partition, (offset, epoch) in query.positions.items():
            fetched[partition] = self._read(node, partition, (offset, epoch), (query.end, room))
            room -= len(fetched[partition].batches)
        if all(fetch.code is Code.NONE and not fetch.batches for fetch in fetched.values()):
            self.now_ms += query.max_wait_ms
        return fetched

    def _read(
        self,
        node: int,
        partition: TopicIdPartition,
        position: tuple[int, int],
        limits: tuple[int | None, int],
    ) -> PartitionFetch:
        """Return the part of a partition. limits: the end that is asked for, and the room."""
        offset, epoch = position
        code = self._refusal(node, partition, epoch)
        first, last = self.logs[partition]
        if code is Code.NONE and not first <= offset <= last:
            code = Code.OFFSET_OUT_OF_RANGE
        if code is not Code.NONE:
            return PartitionFetch((), offset, code)
        end = last if limits[0] is None else min(last, limits[0])
        starts = range(offset - offset % BATCH_RECORDS, end, BATCH_RECORDS)[: max(0, limits[1])]
        batches = tuple(batch_at(start, min(BATCH_RECORDS, last - start)) for start in starts)
        return PartitionFetch(
            () if partition in self.hidden else batches,
            read_header(batches[-1]).last_offset + 1 if batches else offset,
            Code.NONE,
        )

    def _refusal(self, node: int, partition: TopicIdPartition, epoch: int | None) -> Code:
        if self.codes.get(partition):
            return self.codes[partition].pop(0)
        if partition.topic in self.deleted:
            return Code.UNKNOWN_TOPIC_ID
        leader = self.leaders[partition]
        if leader is None or leader.node_id != node:
            return Code.NOT_LEADER_OR_FOLLOWER
        if epoch is not None and epoch < leader.epoch:
            return Code.FENCED_LEADER_EPOCH
        return Code.NONE


def batch_at(offset: int, count: int = BATCH_RECORDS) -> memoryview:
    """Return a batch of so many records that begins at this offset."""
    return memoryview(encode_batch([(None, b"", ())] * count, base_offset=offset, timestamp_ms=0))
