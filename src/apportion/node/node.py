"""One broker as a Machine: requests in, answers out, and between them one journal and at most one flush under way.

`step` hands a request to its handler or to the shard of its group, then tells everybody what changed, looks again at the fetches
that could be answered now, and asks for a flush if anything was written. An answer leaves when what it tells of is on the disk.
It refuses to know sockets, clocks and threads.

A step is a row of acts: one request, one answer that was held, one deadline, one waiting fetch, one shard that hears of topics or
who is gone. An act is done wholly, or it breaks off and `give_up` undoes it: **what fails leaves no trace that later steps could
stumble over**.
- What it wrote is cut away. Writers take a savepoint first (`FlushGate.begin_write`) and are read again from their files. Every
  shard that had a part in it is read again from its log.
- What it answered is taken back. The request that it was for has failed. The others whom it answered, and those that a shard which
  is read again had parked, are told once to ask again (COORDINATOR_NOT_AVAILABLE). Nobody waits for anything after that: not in
  `DelayedFetches`, not among the parts of a split request, not with a deadline.
- The acts before it stand. Those behind it are not lost: they are in `_todo`, in `DelayedFetches.ripe` or among the deadlines, and
  the deadline RETRY has them done: at once, and after a pause where failures come in a row. What fails whenever it is tried is
  tried once a second, and keeps neither the flush nor anybody else waiting.
- What an act may change beside that, it may change in one place that cannot break off, or do twice without harm.
If the flush was being put together, it is unknown what the next one would cover, so it counts as refused by the disk. Where the
undoing itself breaks off, nothing is known any more, and the broker ends.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from apportion.coord.shard import Shard
from apportion.deadlines import Deadlines, Key
from apportion.errors import Code
from apportion.machine import Arrived, Flushed, FlushFailed, Gone, Instant, Note, Reply, Tick, Ticket
from apportion.node import flush_gate
from apportion.node.broker import Address, BrokerContext, Handler
from apportion.node.cleaning import CLEANING, Cleaner
from apportion.node.coordinators import Coordinators
from apportion.node.delayed_fetches import DelayedFetches
from apportion.node.expiry import EXPIRY, RetentionCheck
from apportion.node.failures import COUNTED_EACH_MS, StepFailures
from apportion.node.flush_gate import FlushedFiles, FlushGate, PendingReply
from apportion.node.handlers import admin, cluster, configs, delete_records, fetch, offsets, produce, producer_ids
from apportion.node.partitions import Partition, Partitions
from apportion.node.refusals import error_response
from apportion.node.settings import BrokerSettings
from apportion.node.topics import OFFSETS_TOPIC, TopicService
from apportion.store.disk import Damaged, Disk, DiskError
from apportion.store.metadata_log import MetadataLog
from apportion.topics import IdPartition, Topic, Topics

HANDLERS: dict[type, Handler] = {
    request: handler
    for family in (admin, cluster, configs, delete_records, fetch, offsets, producer_ids, produce)
    for request, handler in family.HANDLERS.items()
}
"""Requests that no group has a part in; all others go to the coordinators."""

FLUSH: Key = ("flush",)  # the deadline that the next flush waits for, if one is armed
PRODUCERS: Key = ("producers",)  # that at which producers that have fallen silent are looked for
RETRY: Key = ("again",)  # that of what a step that broke off has left to do
TOPICS_CHANGED: Key = ("tell",)  # that of the shards that have still to hear of topics, because one of them broke off
FAILURES: Key = ("failures",)  # that at which failures are told that were only counted
FLUSH_RETRY_MS = 1_000  # how long a disk that has refused twice in a row is left alone
PRODUCER_EXPIRY_CHECK_MS = 600_000  # how often producers that have fallen silent are looked for


class UnitOfWork(NamedTuple):
    """A part of a step, done wholly or not at all. subject: the request that has failed if it is not done."""

    subject: Arrived | None
    do: Callable[[Any, Instant], None]
    argument: Any


class Node:
    """One broker on one disk. `start` comes before the first `step`, and its flush before the first request."""

    __slots__ = (
        *("_broker", "_cleaner", "_coordinators", "_expiry", "_failures", "_is_cutting", "_is_telling"),
        *("_out", "_said", "_subject", "_todo", "_told"),
    )

    def __init__(self, disk: Disk, settings: BrokerSettings, address: Address) -> None:
        writes, waits = FlushGate(), DelayedFetches()
        catalog = MetadataLog.open(disk)
        partitions = Partitions(disk, lambda topic: registry.rules_of(topic).layout, writes)
        registry = TopicService(catalog, settings, writes, partitions, waits)
        deadlines = Deadlines()
        self._broker = BrokerContext(settings, address, writes, registry, partitions=partitions, waits=waits, deadlines=deadlines)
        self._cleaner = Cleaner(self._broker.deadlines, writes)
        self._expiry = RetentionCheck(self._broker)
        self._coordinators = Coordinators(self._broker, self._say)
        self._failures = StepFailures()
        self._told = catalog.topics
        self._is_telling = False
        self._out: list[Any] = []
        self._todo: deque[UnitOfWork] = (
            deque()
        )  # what events have left to do; empty but while a step goes on, or after one broke off
        self._subject: Arrived | None = None  # the request that the act under way is for
        self._said: list[PendingReply] = []  # what the act under way has answered
        self._is_cutting = False  # something is being cut back to what is known to be right

    def start(self, now: Instant, fresh: bytes) -> list[Any]:
        """Everything is as the logs say; what they hold is in the flush that this returns.

        fresh: 16 random bytes, the cluster's id if the data directory is new. Damaged: there are logs, but nothing that names them.
        """
        broker = self._broker
        self._sweep()
        broker.partitions.recover(broker.registry.topics, now.wall_ms - broker.settings.producer_id_expiration_ms)
        for partition in broker.partitions:
            if lost_bytes := partition.log.truncated_bytes:
                name = f"{partition.topic.name}-{partition.index}"
                self._out.append(Note("warning", f"{name} lost {lost_bytes} bytes that were half written"))
        broker.registry.recovered(fresh)
        self._coordinators.recover(now)
        self._look_out(now)
        self._confirm()
        return self._settled(now)

    def step(self, event: Any, now: Instant) -> list[Any]:
        """See Machine."""
        todo = self._todo
        if type(event) is Arrived:
            todo.append(UnitOfWork(event, self._arrived, event))
        elif type(event) is Flushed:
            self._flushed(event.mark)
        elif type(event) is FlushFailed:
            todo.appendleft(UnitOfWork(None, self._flush_failed, event))
        elif type(event) is Gone:
            todo.append(UnitOfWork(None, self._gone, event))
            todo += (UnitOfWork(None, self._coordinators.gone, (index, event)) for index in self._coordinators.indexes())
        self._do_all(now)
        if type(event) is Tick:
            waits = self._broker.waits
            for key in self._broker.deadlines.take_due(now.mono_ms):
                self._do(UnitOfWork(waits.asked_or_none(key[1]) if key[0] == "fetch" else None, self._serve, key), now)
                self._do_all(now)
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
        """After `step(event)` raised `error`: the act that broke off is undone and its request has failed; see the module.

        The request of that act has failed with UNKNOWN_SERVER_ERROR, or KAFKA_STORAGE_ERROR when it was the disk that refused.
        `error` itself is raised again if it was the way back from a failed flush that failed: then nothing is known of the disk.
        """
        if self._is_cutting:
            raise error
        code = Code.KAFKA_STORAGE_ERROR if isinstance(error, DiskError) else Code.UNKNOWN_SERVER_ERROR
        self._out += self._failures.add(error, now.mono_ms)
        own, is_telling = self._subject, self._is_telling
        failed = {asked.ticket: asked for asked in (own, *(held.asked for held in self._said)) if asked is not None}
        self._broker.journal.retract(failed)
        self._out = [action for action in self._out if type(action) is not Reply or action.ticket not in failed]
        if self._broker.journal.is_collecting:
            self._flush_failed(FlushFailed(0, str(error)), now)
        else:
            failed |= {asked.ticket: asked for asked in self._undo(now)}
        for asked in failed.values():
            self._fail(asked, code if own is not None and asked.ticket == own.ticket else Code.COORDINATOR_NOT_AVAILABLE)
        self._cleaner.broke_off(now)
        self._coordinators.broke_off(now.mono_ms + self._failures.pause_ms)
        self._look_out(now)
        if self._broker.registry.topics is not self._told:
            self._broker.deadlines.arm(TOPICS_CHANGED, now.mono_ms + max(1, self._failures.pause_ms))
        self._broker.deadlines.arm(RETRY, now.mono_ms + (0 if is_telling else self._failures.pause_ms))
        self._confirm()
        return self._taken()

    def _undo(self, now: Instant) -> list[Arrived]:
        """Cut away what the act wrote, and read its shards again from their logs; return the requests that those had parked."""
        self._is_cutting = True
        broker, savepoints = self._broker, self._broker.journal.take_savepoints()
        parked: list[Arrived] = []
        if broker.registry in savepoints:
            before = broker.registry.topics
            broker.registry.roll_back(savepoints[broker.registry])
            self._forget_topics([topic for topic in before if broker.registry.topics.with_id(topic.id) is None])
        for partition, savepoint in savepoints.items():
            if type(partition) is Partition and broker.registry.topics.with_id(partition.topic.id) is not None:
                partition.roll_back(savepoint)
                broker.waits.changed(IdPartition(partition.topic.id, partition.index))
        for partition in self._coordinators.broken():
            parked += self._coordinators.reload(partition, now)
        self._is_cutting = False
        return parked

    def _fail(self, asked: Arrived, code: Code) -> None:
        """Answer the request, or the whole that it is a part of, with `code`, and have nobody wait for it any more."""
        whole = self._coordinators.abandon(asked.ticket)
        if whole is None and asked.ticket < 0:
            return  # another part was first
        asked = whole or asked
        self._stop_waiting(asked.ticket)
        self._out.append(Reply(asked.ticket, error_response(asked, code)))

    def _look_out(self, now: Instant) -> None:
        """Arm the deadlines of what is done every now and then, where they are not armed."""
        if PRODUCERS not in self._broker.deadlines:
            self._broker.deadlines.arm(PRODUCERS, now.mono_ms + PRODUCER_EXPIRY_CHECK_MS)
        self._expiry.look_out(now)
        if self._failures and FAILURES not in self._broker.deadlines:
            self._broker.deadlines.arm(FAILURES, now.mono_ms + COUNTED_EACH_MS)

    def _do_all(self, now: Instant) -> None:
        """Do the acts that are left to do."""
        while self._todo:
            self._do(self._todo.popleft(), now)

    def _do(self, act: UnitOfWork, now: Instant) -> None:
        self._subject = act.subject
        act.do(act.argument, now)
        self._confirm()

    def _confirm(self) -> None:
        """Keep what was done until now, whatever comes after."""
        self._subject, self._is_telling = None, False
        self._said.clear()
        self._broker.journal.release_savepoints()
        self._coordinators.confirm()

    def _taken(self) -> list[Any]:
        """Return the actions until now."""
        out, self._out = self._out, []
        return out

    def _arrived(self, event: Arrived, now: Instant) -> None:
        handler = HANDLERS.get(type(event.request))
        if handler is None:
            self._coordinators.arrived(event, now)
            return
        answer = handler(self._broker, event, now)
        if answer is not None:
            self._say(max(answer.mark, self._broker.registry.mark), PendingReply(event.ticket, answer.body, event))

    def _sweep(self) -> None:
        """There are no logs of topics that never came to be; they are kept once more where the catalog has lost its end."""
        registry, partitions = self._broker.registry, self._broker.partitions
        if not registry.cluster_id and not partitions.is_empty():
            raise Damaged("catalog.log holds nothing that can be read, but there are logs of topics that it should name")
        if registry.cut_bytes:
            lost = f"catalog.log lost {registry.cut_bytes} bytes that were half written; "
            self._out.append(Note("warning", f"{lost}logs that nothing names are kept for now"))
        else:
            partitions.sweep(registry.topics)

    def _say(self, mark: int, held: PendingReply) -> None:
        """The answer goes out when `mark` is durable."""
        self._said.append(held)
        if flush_gate.may_send(mark, self._broker.journal.durable):
            self._send(held)
        else:
            self._broker.journal.hold(mark, held)

    def _send(self, held: PendingReply) -> None:
        if held.ticket < 0:  # a part of a request over several groups
            whole = self._coordinators.joined(held)
            if whole is not None:
                self._said.append(whole)
                self._out.append(Reply(whole.ticket, whole.body))
                self._coordinators.forget(held.ticket)  # not before: until it is answered, it fails with any of its parts
        else:
            self._out.append(Reply(held.ticket, held.body))

    def _settled(self, now: Instant) -> list[Any]:
        """The step's actions, after everybody was told what changed."""
        broker = self._broker
        topics = broker.registry.topics
        if topics is not self._told and TOPICS_CHANGED not in broker.deadlines:
            self._todo += (UnitOfWork(None, self._tell, index) for index in self._coordinators.untold(topics))
            self._do_all(now)
            self._expiry.look_out(now)
            self._told = topics
        while broker.waits.ripe:
            ticket = next(iter(broker.waits.ripe))
            self._do(UnitOfWork(broker.waits.asked_or_none(ticket), self._look_again, ticket), now)
        self._out += self._coordinators.notes()
        self._out += self._cleaner.notes() + self._expiry.notes()
        if FLUSH not in broker.deadlines and (flush := broker.journal.flush_or_none()) is not None:
            self._out.append(flush)
            broker.journal.told()
        return self._taken()

    def _tell(self, index: int, now: Instant) -> None:
        """Tell that shard of the topics."""
        self._is_telling = True
        self._coordinators.tell(index, now)

    def _look_again(self, ticket: Ticket, now: Instant) -> None:
        """The fetch, whose partitions have changed, is answered if it has enough now."""
        self._broker.waits.ripe.pop(ticket)
        asked = self._broker.waits.asked_or_none(ticket)
        if asked is not None and (haul := fetch.FetchResult(self._broker, asked)).is_enough:
            self._answer_fetch(asked, haul)

    def _answer_fetch(self, asked: Arrived, haul: fetch.FetchResult) -> None:
        self._stop_waiting(asked.ticket)
        self._say(self._broker.registry.mark, PendingReply(asked.ticket, haul.response, asked))

    def _stop_waiting(self, ticket: Ticket) -> None:
        """The fetch is parked no more, if it was."""
        self._broker.deadlines.disarm(("fetch", ticket))
        self._broker.waits.leave(ticket)

    def _serve(self, key: Key, now: Instant) -> None:
        """Serve the deadline, which has come."""
        broker = self._broker
        if key[0] == "shard":
            self._coordinators.tick(key[1], now)
        elif key[0] == "fetch" and self._subject is not None:
            self._answer_fetch(self._subject, fetch.FetchResult(broker, self._subject))
        elif key == CLEANING:
            self._cleaner.go_on(now)
        elif key == EXPIRY:
            self._todo += (UnitOfWork(None, self._expiry.look_at, partition) for partition in self._expiry.take_slice(now))
        elif key == FAILURES:
            self._out += self._failures.counted()
            self._look_out(now)
        elif key == PRODUCERS:
            broker.deadlines.arm(key, now.mono_ms + PRODUCER_EXPIRY_CHECK_MS)
            before_ms = now.wall_ms - broker.settings.producer_id_expiration_ms
            for partition in broker.partitions:
                partition.producers.forget_before(before_ms)

    def _gone(self, event: Gone, now: Instant) -> None:
        for ticket in event.tickets:
            self._stop_waiting(ticket)

    def _flushed(self, mark: int) -> None:
        """What was written will be visible, and the answers that waited for it leave after that."""
        settled, answers = self._broker.journal.flushed(mark)
        self._todo += (UnitOfWork(None, self._show, writer) for writer in settled)
        self._todo.append(UnitOfWork(None, self._cleaner.flushed, mark))
        self._todo += (UnitOfWork(held.asked, self._leave, held) for held in answers)

    def _show(self, writer: FlushedFiles, now: Instant) -> None:
        """Make visible what was written before the flush; if that breaks off, the next one does it."""
        self._broker.journal.begin_write(writer)
        writer.settled()
        if type(writer) is Partition:
            self._broker.waits.changed(IdPartition(writer.topic.id, writer.index))
            self._cleaner.look_at(writer, now)
        self._broker.journal.shown(writer)

    def _leave(self, held: PendingReply, now: Instant) -> None:
        """Send the answer: what it tells of is on the disk."""
        self._send(held)

    def _flush_failed(self, event: FlushFailed, now: Instant) -> None:
        """Nothing that was written since the last flush is there any more, and whoever waited for it is told so."""
        self._is_cutting = True
        self._out.append(Note("error", f"the disk refused a flush, so what it was about is lost: {event.why}"))
        if self._broker.journal.is_failing:
            self._broker.deadlines.arm(FLUSH, now.mono_ms + FLUSH_RETRY_MS)
        self._cleaner.flush_failed()
        lost, answers = self._broker.journal.failed()
        for held in answers:
            self._send(held if held.asked is None else held._replace(body=error_response(held.asked, Code.KAFKA_STORAGE_ERROR)))
        if self._broker.registry in lost:
            self._forget_topics(self._broker.registry.cut_back())
        for writer in lost:
            if type(writer) is Partition and self._broker.registry.topics.with_id(writer.topic.id) is not None:
                self._cut_back(writer, now)
        self._is_cutting = False

    def _forget_topics(self, never_made: list[Topic]) -> None:
        """Topics that never reached the disk have no logs, and groups that had theirs in one are gone."""
        for topic in never_made:
            if topic.name == OFFSETS_TOPIC:
                self._refuse(self._coordinators.close(), Code.COORDINATOR_NOT_AVAILABLE)
            self._broker.partitions.drop(topic)

    def _cut_back(self, partition: Partition, now: Instant) -> None:
        partition.cut_back()
        self._broker.waits.changed(IdPartition(partition.topic.id, partition.index))
        if partition.topic.name == OFFSETS_TOPIC:
            self._refuse(self._coordinators.reload(partition, now), Code.COORDINATOR_NOT_AVAILABLE)

    def _refuse(self, parked: list[Arrived], code: Code) -> None:
        for asked in parked:
            self._send(PendingReply(asked.ticket, error_response(asked, code), asked))
