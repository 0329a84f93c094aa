"""A node on a disk in memory, a driver that flushes when it is told to, and the requests for one
batch that most tests send.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from apportion.assign.custom import CustomAssignor
from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.machine import (
    PLAINTEXT_LISTENER,
    Abandon,
    Arrivals,
    Arrived,
    Caller,
    CloseConnection,
    Computation,
    Compute,
    Computed,
    Flush,
    Flushed,
    FlushFailed,
    Instant,
    Note,
    Reply,
    Tick,
    Ticket,
)
from apportion.node.authorization.denials import RequestDenied
from apportion.node.config_entries import OFFSETS_TOPIC
from apportion.node.listeners import Address
from apportion.node.node import Node
from apportion.node.settings import BrokerSettings
from apportion.store.memory_disk import MemoryDisk
from apportion.wire.batch import encode_batch
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from apportion.wire.table import api_of, encode_response

OF_A_GROUP = GROUP_ERROR_RESPONSES.keys() - {ListGroupsRequest}
WALL_MS = 1_700_000_000_000


class NodeDriver:
    """One life of a broker. Every answer is also encoded, as a server would."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        custom_assignors: Mapping[str, CustomAssignor] | None = None,
        **settings: Any,
    ) -> None:
        self.disk = disk or MemoryDisk()
        self.settings = settings
        self.custom_assignors = custom_assignors
        self.node = Node(
            self.disk,
            BrokerSettings.of(settings, custom_assignors),
            {PLAINTEXT_LISTENER: Address("here", 9092)},
        )
        self.now_ms = 0
        self.answers: dict[int, Any] = {}
        self.notes: list[Note] = []
        self.denied: list[RequestDenied] = []
        self.pending: Flush | None = None
        self.computations: list[Computation] = []  # begun, and not ended yet
        self.abandoned: list[Computation] = []
        self.caller = Caller("test", "/here")  # of the next request
        self._asked: dict[int, Arrived] = {}
        self._held: list[Arrived] | None = None  # that will arrive together
        self._tickets = count(1)
        self._take(self.node.start(self.now, bytes(range(16))))
        self.flush()

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, WALL_MS + self.now_ms)

    def step(self, event: Any) -> None:
        """The node steps over the event."""
        self._take(self.node.step(event, self.now))

    def ask(self, request: Any, version: int | None = None) -> int:
        """Send a request; its answer, once there is one, stands in `answers` under the ticket.

        Before the first request of a group it looks for the coordinator, as every client does.
        """
        if type(request) in OF_A_GROUP and self.node.topics.named(OFFSETS_TOPIC) is None:
            self.send(FindCoordinatorRequest(key_type=0, coordinator_keys=("any",)))
        return self.send(request, version)

    def send(self, request: Any, version: int | None = None) -> int:
        """Send a request alone; its answer stands in `answers` under the ticket."""
        ticket = next(self._tickets)
        version = api_of(type(request)).versions[-1] if version is None else version
        asked = Arrived(Ticket(ticket), request, version, self.caller, ticket.to_bytes(16, "big"))
        self._asked[ticket] = asked
        if self._held is None:
            self.step(asked)
        else:
            self._held.append(asked)
        return ticket

    @contextmanager
    def together(self) -> Iterator[None]:
        """The requests that are sent inside a `with` block arrive together at its end."""
        held: list[Arrived] = []
        self._held = held
        yield
        self._held = None
        if held:
            self.step(Arrivals(tuple(held)))

    def call(self, request: Any, version: int | None = None) -> Any:
        """Send a request, flush as often as it takes, and give the answer."""
        ticket = self.ask(request, version)
        while ticket not in self.answers and self.pending:
            self.flush()
        return self.answers[ticket]

    def flush(self) -> None:
        """The flush that is under way succeeds, and every one that follows from it."""
        while self.pending:
            flush, self.pending = self.pending, None
            self.disk.sync(flush.paths)
            self.step(Flushed(flush.flush_seq))

    def flush_once(self) -> None:
        """The flush that is under way succeeds."""
        flush, self.pending = self.pending, None
        assert flush is not None
        self.disk.sync(flush.paths)
        self.step(Flushed(flush.flush_seq))

    def end_computations(self) -> None:
        """Every computation that was begun ends, and the node gets its result."""
        computations, self.computations = self.computations, []
        for computation in computations:
            self.step(Computed(computation, computation.run()))

    def fail_flush(self) -> None:
        """The disk refuses the flush that is under way."""
        flush, self.pending = self.pending, None
        assert flush is not None
        self.step(FlushFailed(flush.flush_seq, "no"))

    def sleep(self, ms: int) -> None:
        """Time passes, and the node is woken as often as it asked for."""
        end_ms = self.now_ms + ms
        while (wake_ms := self.node.wake_at()) is not None and wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, wake_ms)
            self.step(Tick())
        self.now_ms = end_ms

    def crash(self, tear_bytes: int | None = None) -> "NodeDriver":
        """The next life, on what the disk kept."""
        return type(self)(self.disk.crash(tear_bytes), self.custom_assignors, **self.settings)

    def create(self, name: str, partitions: int = 1) -> bytes:
        """A topic; its id."""
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = self.call(CreateTopicsRequest(topics=(wanted,)))
        assert answer.topics[0].error_code == 0, answer
        result: bytes = answer.topics[0].topic_id
        return result

    def _take(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, Reply):
                assert action.ticket not in self.answers, (
                    f"two answers to {self._asked[action.ticket]}"
                )
                asked = self._asked[action.ticket]
                if action.body is not None and not isinstance(action.body, CloseConnection):
                    encode_response(api_of(type(asked.request)), asked.version, 1, action.body)
                self.answers[action.ticket] = action.body
            elif isinstance(action, Flush):
                assert self.pending is None, "two flushes at once"
                self.pending = action
            elif isinstance(action, Compute):
                self.computations.append(action.computation)
            elif isinstance(action, Abandon):
                self.abandoned.append(action.computation)
            elif isinstance(action, RequestDenied):
                self.denied.append(action)
            else:
                self.notes.append(action)


def batch(*values: bytes, **producer: int) -> bytes:
    """One record batch of these values."""
    return encode_batch(
        [(None, value, ()) for value in values],
        timestamp_ms=producer.pop("timestamp_ms", WALL_MS),
        **producer,
    )


def produce(
    topic: str, records: bytes | None, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    """A request that stores one batch, for versions up to 12."""
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
    )


def fetch(topic: str, offset: int = 0, partition: int = 0, **changes: int) -> FetchRequest:
    """A request for one partition, for versions up to 12."""
    limit = changes.pop("partition_max_bytes", 1 << 20)
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=limit)
    defaults: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    return FetchRequest(
        topics=(FetchTopic(topic=topic, partitions=(wanted,)),), **defaults | changes
    )
