"""One broker as a Machine: requests in, answers out, and between them one journal and at most one flush under way.

`step` hands a request to its handler or to the shard of its group, then tells everybody what changed, looks again at the fetches
that could be answered now, and asks for a flush if anything was written. An answer leaves when what it tells of is on the disk.
It refuses to know sockets, clocks and threads.
"""

from collections.abc import Iterator
from typing import Any

from apportion.coord.shard import Shard
from apportion.deadlines import Deadlines
from apportion.errors import Code
from apportion.machine import Arrived, Flushed, FlushFailed, Gone, Instant, Note, Reply, Ticket
from apportion.node import journal
from apportion.node.broker import Address, Broker, Handler
from apportion.node.cleaning import CLEANING, Cleaner
from apportion.node.coordinators import Coordinators
from apportion.node.handlers import admin, cluster, configs, delete_records, fetch, offsets, produce, producer_ids
from apportion.node.journal import Held, Journal
from apportion.node.partitions import Partition, Partitions
from apportion.node.refusals import refusal
from apportion.node.settings import BrokerSettings
from apportion.node.topics import OFFSETS_TOPIC, Registry
from apportion.node.waits import Waits
from apportion.store.catalog import Catalog
from apportion.store.disk import Damaged, Disk, DiskError
from apportion.store.log import LogSettings
from apportion.topics import Topic, Topics

HANDLERS: dict[type, Handler] = {
    request: handler
    for family in (admin, cluster, configs, delete_records, fetch, offsets, producer_ids, produce)
    for request, handler in family.HANDLERS.items()
}
"""Requests that no group has a part in; all others go to the coordinators."""

FLUSH = ("flush",)
"""The deadline that the next flush waits for, if one is armed."""
FLUSH_AGAIN_MS = 1_000  # how long a disk that has refused twice in a row is left alone
PRODUCERS_LOOKED_AT_MS = 600_000  # how often producers that have fallen silent are looked for


class Node:
    """One broker on one disk. `start` comes before the first `step`, and its flush before the first request."""

    __slots__ = ("_broker", "_cleaner", "_coordinators", "_out", "_told")

    def __init__(self, disk: Disk, settings: BrokerSettings, address: Address) -> None:
        writes, waits = Journal(), Waits()
        catalog = Catalog.open(disk)
        partitions = Partitions(disk, lambda name: LogSettings(segment_bytes=registry.segment_bytes(name)), writes)
        registry = Registry(catalog, settings, writes, partitions, waits)
        self._broker = Broker(
            settings=settings,
            address=address,
            journal=writes,
            registry=registry,
            partitions=partitions,
            waits=waits,
            deadlines=Deadlines(),
        )
        self._cleaner = Cleaner(self._broker.deadlines, writes)
        self._coordinators = Coordinators(self._broker, self._say)
        self._told = catalog.topics
        self._out: list[Any] = []

    def start(self, now: Instant, fresh: bytes) -> list[Any]:
        """Everything is as the logs say; what they hold is in the flush that this returns.

        fresh: 16 random bytes, the cluster's id if the data directory is new. Damaged: there are logs, but nothing that names them.
        """
        broker = self._broker
        self._sweep()
        broker.partitions.recover(broker.registry.topics, now.wall_ms - broker.settings.producer_id_expiration_ms)
        for partition in broker.partitions:
            if partition.log.cut_bytes:
                self._warn(f"{partition.topic.name}-{partition.index} lost {partition.log.cut_bytes} bytes that were half written")
        broker.registry.recovered(fresh)
        self._coordinators.recover(now)
        broker.deadlines.arm(("producers",), now.mono_ms + PRODUCERS_LOOKED_AT_MS)
        return self._settled(now)

    def step(self, event: Any, now: Instant) -> list[Any]:
        """See Machine."""
        if type(event) is Arrived:
            handler = HANDLERS.get(type(event.request))
            if handler is None:
                self._coordinators.arrived(event, now)
            else:
                answer = handler(self._broker, event, now)
                if answer is not None:
                    self._say(max(answer.mark, self._broker.registry.mark), Held(event.ticket, answer.body, event))
        elif type(event) is Flushed:
            self._flushed(event.mark, now)
        elif type(event) is FlushFailed:
            self._flush_failed(event, now)
        elif type(event) is Gone:
            self._gone(event, now)
        else:
            self._tick(now)
        return self._settled(now)

    def wake_at(self) -> int | None:
        """See Machine."""
        return self._broker.deadlines.next_at()

    @property
    def topics(self) -> Topics:
        """The topics as of the last step; some may not be durable yet."""
        return self._broker.registry.topics

    def partitions(self) -> Iterator[Partition]:
        """The open partitions, to be looked at, never to be changed."""
        return iter(self._broker.partitions)

    def shards(self) -> Iterator[tuple[Partition, Shard]]:
        """Every seated shard with the partition of its log, to be looked at, never to be changed."""
        return self._coordinators.shards()

    def give_up(self, event: Any, error: Exception, now: Instant) -> list[Any]:
        """After `step(event)` raised `error`: its request has failed, and the shards that it broke are as their logs say.

        UNKNOWN_SERVER_ERROR, or KAFKA_STORAGE_ERROR when it was the disk that refused. `error` itself is raised again if it was the
        way back from a failed flush that failed: then nothing is known of what is on the disk.
        """
        if type(event) is FlushFailed:
            raise error
        code = Code.KAFKA_STORAGE_ERROR if isinstance(error, DiskError) else Code.UNKNOWN_SERVER_ERROR
        self._out.append(Note("error", f"a step failed at {_place(error)}: {type(error).__name__}: {error}"))
        for partition in self._coordinators.broken():
            self._reload(partition, code, now)
        if type(event) is Arrived and not self._is_answered(event.ticket):
            self._stop_waiting(event.ticket)
            self._out.append(Reply(event.ticket, refusal(event, code)))
        return self._settled(now)

    def _sweep(self) -> None:
        """There are no logs of topics that never came to be; they are kept once more where the catalog has lost its end."""
        registry, partitions = self._broker.registry, self._broker.partitions
        if not registry.cluster_id and not partitions.is_empty():
            raise Damaged("catalog.log holds nothing that can be read, but there are logs of topics that it should name")
        if registry.cut_bytes:
            self._warn(
                f"catalog.log lost {registry.cut_bytes} bytes that were half written; logs that nothing names are kept for now"
            )
        else:
            partitions.sweep(registry.topics)

    def _warn(self, text: str) -> None:
        self._out.append(Note("warning", text))

    def _say(self, mark: int, held: Held) -> None:
        """The answer goes out when `mark` is durable."""
        if journal.may_leave(mark, self._broker.journal.durable):
            self._send(held)
        else:
            self._broker.journal.hold(mark, held)

    def _send(self, held: Held) -> None:
        if held.ticket < 0:  # a part of a request over several groups
            whole = self._coordinators.joined(held)
            if whole is not None:
                self._out.append(Reply(whole.ticket, whole.body))
        else:
            self._out.append(Reply(held.ticket, held.body))

    def _settled(self, now: Instant) -> list[Any]:
        """The step's actions, after everybody was told what changed."""
        broker = self._broker
        topics = broker.registry.topics
        if topics is not self._told:
            self._coordinators.tell(topics, now)
            self._told = topics
        if broker.waits.ripe:
            self._look_again(now)
        self._out += self._coordinators.notes()
        self._out += self._cleaner.notes()
        flush = None if FLUSH in broker.deadlines else broker.journal.flush_or_none()
        if flush is not None:
            self._out.append(flush)
        out, self._out = self._out, []
        return out

    def _look_again(self, now: Instant) -> None:
        """Fetches whose partitions grew are answered if they now have enough."""
        waits = self._broker.waits
        ripe, waits.ripe = waits.ripe, {}
        for ticket in ripe:
            haul = fetch.Haul(self._broker, waits.asked(ticket))
            if haul.is_enough:
                self._answer_fetch(ticket, haul)

    def _answer_fetch(self, ticket: Ticket, haul: fetch.Haul) -> None:
        self._say(self._broker.registry.mark, Held(ticket, haul.response, self._stop_waiting(ticket)))

    def _stop_waiting(self, ticket: Ticket) -> Arrived | None:
        """The fetch is parked no more; None if it was not."""
        self._broker.deadlines.disarm(("fetch", ticket))
        return self._broker.waits.leave(ticket)

    def _tick(self, now: Instant) -> None:
        broker = self._broker
        for key in broker.deadlines.take_due(now.mono_ms):
            if key[0] == "shard":
                self._coordinators.tick(key[1], now)
            elif key[0] == "fetch":
                self._answer_fetch(key[1], fetch.Haul(broker, broker.waits.asked(key[1])))
            elif key == CLEANING:
                self._cleaner.go_on(now)
            elif key != FLUSH:
                for partition in broker.partitions:
                    partition.producers.forget_before(now.wall_ms - broker.settings.producer_id_expiration_ms)
                broker.deadlines.arm(key, now.mono_ms + PRODUCERS_LOOKED_AT_MS)

    def _gone(self, event: Gone, now: Instant) -> None:
        for ticket in event.tickets:
            self._stop_waiting(ticket)
        self._coordinators.gone(event, now)

    def _flushed(self, mark: int, now: Instant) -> None:
        """What was written is visible, and the answers that waited for it leave."""
        settled, answers = self._broker.journal.flushed(mark)
        for writer in settled:
            if type(writer) is Partition:
                self._broker.waits.changed((writer.topic.id, writer.index))
                self._cleaner.look_at(writer, now)
        self._cleaner.flushed(mark, now)
        for held in answers:
            self._send(held)

    def _flush_failed(self, event: FlushFailed, now: Instant) -> None:
        """Nothing that was written since the last flush is there any more, and whoever waited for it is told so."""
        self._out.append(Note("error", f"the disk refused a flush, so what it was about is lost: {event.why}"))
        if self._broker.journal.is_failing:
            self._broker.deadlines.arm(FLUSH, now.mono_ms + FLUSH_AGAIN_MS)
        self._cleaner.flush_failed()
        lost, answers = self._broker.journal.failed()
        for held in answers:
            self._send(held if held.asked is None else held._replace(body=refusal(held.asked, Code.KAFKA_STORAGE_ERROR)))
        if self._broker.registry in lost:
            self._forget_topics(self._broker.registry.cut_back())
        for writer in lost:
            if type(writer) is Partition and self._broker.registry.topics.with_id(writer.topic.id) is not None:
                self._cut_back(writer, now)

    def _forget_topics(self, never_made: list[Topic]) -> None:
        """Topics that never reached the disk have no logs, and groups that had theirs in one are gone."""
        for topic in never_made:
            if topic.name == OFFSETS_TOPIC:
                self._refuse(self._coordinators.close(), Code.COORDINATOR_NOT_AVAILABLE)
            self._broker.partitions.drop(topic)

    def _cut_back(self, partition: Partition, now: Instant) -> None:
        partition.cut_back(now.wall_ms - self._broker.settings.producer_id_expiration_ms)
        self._broker.waits.changed((partition.topic.id, partition.index))
        if partition.topic.name == OFFSETS_TOPIC:
            self._reload(partition, Code.COORDINATOR_NOT_AVAILABLE, now)

    def _is_answered(self, ticket: Ticket) -> bool:
        """True when this step has answered the request, or its answer waits for the disk."""
        return any(type(action) is Reply and action.ticket == ticket for action in self._out) or self._broker.journal.holds(ticket)

    def _reload(self, partition: Partition, code: Code, now: Instant) -> None:
        self._refuse(self._coordinators.reload(partition, now), code)

    def _refuse(self, parked: list[Arrived], code: Code) -> None:
        for asked in parked:
            self._send(Held(asked.ticket, refusal(asked, code), asked))


def _place(error: Exception) -> str:
    """File and line where the error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
