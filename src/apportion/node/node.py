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

    request: Arrived | None
    run: Callable[[Any, Instant], None]
    argument: Any


class Node:
    """One broker on one disk. `start` comes before the first `step`, and its flush before the first request."""

    __slots__ = (
        *("_broker", "_cleaner", "_coordinators", "_expiry", "_failures", "_is_cutting", "_is_announcing"),
        *("_out", "_replies", "_request", "_units", "_announced_topics"),
    )

    def __init__(self, disk: Disk, settings: BrokerSettings, address: Address) -> None:
        flush_gate, delayed_fetches = FlushGate(), DelayedFetches()
        catalog = MetadataLog.open(disk)
        partitions = Partitions(disk, lambda topic: topic_service.rules(topic).layout, flush_gate)
        topic_service = TopicService(catalog, settings, flush_gate, partitions, delayed_fetches)
        deadlines = Deadlines()
        self._broker = BrokerContext(
            settings,
            address,
            flush_gate,
            topic_service,
            partitions=partitions,
            delayed_fetches=delayed_fetches,
            deadlines=deadlines,
        )
        self._cleaner = Cleaner(self._broker.deadlines, flush_gate)
        self._expiry = RetentionCheck(self._broker)
        self._coordinators = Coordinators(self._broker, self._send_when_durable)
        self._failures = StepFailures()
        self._announced_topics = catalog.topics
        self._is_announcing = False
        self._out: list[Any] = []
        self._units: deque[UnitOfWork] = (
            deque()
        )  # what events have left to do; empty but while a step goes on, or after one broke off
        self._request: Arrived | None = None  # the request that the act under way is for
        self._replies: list[PendingReply] = []  # what the act under way has answered
        self._is_cutting = False  # something is being cut back to what is known to be right

    def start(self, now: Instant, fresh: bytes) -> list[Any]:
        """Everything is as the logs say; what they hold is in the flush that this returns.

        fresh: 16 random bytes, the cluster's id if the data directory is new. Damaged: there are logs, but nothing that names them.
        """
        broker = self._broker
        self._sweep()
        broker.partitions.recover(broker.topic_service.topics, now.wall_ms - broker.settings.producer_id_expiration_ms)
        for partition in broker.partitions:
            if partition.log.cut_bytes:
                self._out.append(
                    Note(
                        "warning",
                        f"{partition.topic.name}-{partition.index} lost {partition.log.cut_bytes} bytes that were half written",
                    )
                )
        broker.topic_service.finish_recovery(fresh)
        self._coordinators.load_all(now)
        self._arm_periodic(now)
        self._confirm()
        return self._finish_step(now)

    def step(self, event: Any, now: Instant) -> list[Any]:
        """See Machine."""
        todo = self._units
        if type(event) is Arrived:
            todo.append(UnitOfWork(event, self._dispatch, event))
        elif type(event) is Flushed:
            self._flushed(event.mark)
        elif type(event) is FlushFailed:
            todo.appendleft(UnitOfWork(None, self._flush_failed, event))
        elif type(event) is Gone:
            todo.append(UnitOfWork(None, self._drop_tickets, event))
            todo += (UnitOfWork(None, self._coordinators.drop_tickets, (index, event)) for index in self._coordinators.indexes())
        self._run_all(now)
        if type(event) is Tick:
            delayed_fetches = self._broker.delayed_fetches
            for key in self._broker.deadlines.take_due(now.mono_ms):
                self._run(UnitOfWork(delayed_fetches.request_or_none(key[1]) if key[0] == "fetch" else None, self._serve, key), now)
                self._run_all(now)
        return self._finish_step(now)

    def wake_at(self) -> int | None:
        """See Machine."""
        return self._broker.deadlines.next_at()

    @property
    def topics(self) -> Topics:
        """The topics as of the last step; some may not be durable yet."""
        return self._broker.topic_service.topics

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
        own, is_telling = self._request, self._is_announcing
        failed = {asked.ticket: asked for asked in (own, *(reply.request for reply in self._replies)) if asked is not None}
        self._broker.flush_gate.retract_replies(failed)
        self._out = [action for action in self._out if type(action) is not Reply or action.ticket not in failed]
        if self._broker.flush_gate.is_collecting:
            self._flush_failed(FlushFailed(0, str(error)), now)
        else:
            failed |= {asked.ticket: asked for asked in self._undo(now)}
        for asked in failed.values():
            self._fail(asked, code if own is not None and asked.ticket == own.ticket else Code.COORDINATOR_NOT_AVAILABLE)
        self._cleaner.rearm(now)
        self._coordinators.rearm(now.mono_ms + self._failures.pause_ms)
        self._arm_periodic(now)
        if self._broker.topic_service.topics is not self._announced_topics:
            self._broker.deadlines.arm(TOPICS_CHANGED, now.mono_ms + max(1, self._failures.pause_ms))
        self._broker.deadlines.arm(RETRY, now.mono_ms + (0 if is_telling else self._failures.pause_ms))
        self._confirm()
        return self._take_actions()

    def _undo(self, now: Instant) -> list[Arrived]:
        """Cut away what the act wrote, and read its shards again from their logs; return the requests that those had parked."""
        self._is_cutting = True
        broker, savepoints = self._broker, self._broker.flush_gate.take_savepoints()
        parked: list[Arrived] = []
        if broker.topic_service in savepoints:
            before = broker.topic_service.topics
            broker.topic_service.roll_back(savepoints[broker.topic_service])
            self._forget_topics([topic for topic in before if broker.topic_service.topics.with_id(topic.id) is None])
        for partition, savepoint in savepoints.items():
            if type(partition) is Partition and broker.topic_service.topics.with_id(partition.topic.id) is not None:
                partition.roll_back(savepoint)
                broker.delayed_fetches.partition_changed(IdPartition(partition.topic.id, partition.index))
        for partition in self._coordinators.unconfirmed():
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

    def _arm_periodic(self, now: Instant) -> None:
        """Arm the deadlines of what is done every now and then, where they are not armed."""
        if PRODUCERS not in self._broker.deadlines:
            self._broker.deadlines.arm(PRODUCERS, now.mono_ms + PRODUCER_EXPIRY_CHECK_MS)
        self._expiry.arm_if_needed(now)
        if self._failures and FAILURES not in self._broker.deadlines:
            self._broker.deadlines.arm(FAILURES, now.mono_ms + COUNTED_EACH_MS)

    def _run_all(self, now: Instant) -> None:
        """Do the acts that are left to do."""
        while self._units:
            self._run(self._units.popleft(), now)

    def _run(self, act: UnitOfWork, now: Instant) -> None:
        self._request = act.request
        act.run(act.argument, now)
        self._confirm()

    def _confirm(self) -> None:
        """Keep what was done until now, whatever comes after."""
        self._request, self._is_announcing = None, False
        self._replies.clear()
        self._broker.flush_gate.release_savepoints()
        self._coordinators.confirm()

    def _take_actions(self) -> list[Any]:
        """Return the actions until now."""
        out, self._out = self._out, []
        return out

    def _dispatch(self, event: Arrived, now: Instant) -> None:
        handler = HANDLERS.get(type(event.request))
        if handler is None:
            self._coordinators.route(event, now)
            return
        answer = handler(self._broker, event, now)
        if answer is not None:
            self._send_when_durable(
                max(answer.flush_seq, self._broker.topic_service.flush_seq), PendingReply(event.ticket, answer.body, event)
            )

    def _sweep(self) -> None:
        """There are no logs of topics that never came to be; they are kept once more where the catalog has lost its end."""
        topic_service, partitions = self._broker.topic_service, self._broker.partitions
        if not topic_service.cluster_id and not partitions.is_empty():
            raise Damaged("catalog.log holds nothing that can be read, but there are logs of topics that it should name")
        if topic_service.cut_bytes:
            lost = f"catalog.log lost {topic_service.cut_bytes} bytes that were half written; "
            self._out.append(Note("warning", f"{lost}logs that nothing names are kept for now"))
        else:
            partitions.delete_unknown(topic_service.topics)

    def _send_when_durable(self, mark: int, reply: PendingReply) -> None:
        """The answer goes out when `mark` is durable."""
        self._replies.append(reply)
        if flush_gate.may_send(mark, self._broker.flush_gate.durable_seq):
            self._send(reply)
        else:
            self._broker.flush_gate.hold_reply(mark, reply)

    def _send(self, reply: PendingReply) -> None:
        if reply.ticket < 0:  # a part of a request over several groups
            whole = self._coordinators.combine_parts(reply)
            if whole is not None:
                self._replies.append(whole)
                self._out.append(Reply(whole.ticket, whole.body))
                self._coordinators.forget(reply.ticket)  # not before: until it is answered, it fails with any of its parts
        else:
            self._out.append(Reply(reply.ticket, reply.body))

    def _finish_step(self, now: Instant) -> list[Any]:
        """The step's actions, after everybody was told what changed."""
        broker = self._broker
        topics = broker.topic_service.topics
        if topics is not self._announced_topics and TOPICS_CHANGED not in broker.deadlines:
            self._units += (
                UnitOfWork(None, self._announce_topics, index) for index in self._coordinators.with_stale_topics(topics)
            )
            self._run_all(now)
            self._expiry.arm_if_needed(now)
            self._announced_topics = topics
        while broker.delayed_fetches.ready:
            ticket = next(iter(broker.delayed_fetches.ready))
            self._run(UnitOfWork(broker.delayed_fetches.request_or_none(ticket), self._retry_fetch, ticket), now)
        self._out += self._coordinators.notes()
        self._out += self._cleaner.notes() + self._expiry.notes()
        if FLUSH not in broker.deadlines and (flush := broker.flush_gate.flush_or_none()) is not None:
            self._out.append(flush)
            broker.flush_gate.flush_issued()
        return self._take_actions()

    def _announce_topics(self, index: int, now: Instant) -> None:
        """Tell that shard of the topics."""
        self._is_announcing = True
        self._coordinators.update_topics(index, now)

    def _retry_fetch(self, ticket: Ticket, now: Instant) -> None:
        """The fetch, whose partitions have changed, is answered if it has enough now."""
        self._broker.delayed_fetches.ready.pop(ticket)
        asked = self._broker.delayed_fetches.request_or_none(ticket)
        if asked is not None and (result := fetch.FetchResult(self._broker, asked)).is_complete:
            self._answer_fetch(asked, result)

    def _answer_fetch(self, asked: Arrived, result: fetch.FetchResult) -> None:
        self._stop_waiting(asked.ticket)
        self._send_when_durable(self._broker.topic_service.flush_seq, PendingReply(asked.ticket, result.response, asked))

    def _stop_waiting(self, ticket: Ticket) -> None:
        """The fetch is parked no more, if it was."""
        self._broker.deadlines.disarm(("fetch", ticket))
        self._broker.delayed_fetches.remove(ticket)

    def _serve(self, key: Key, now: Instant) -> None:
        """Serve the deadline, which has come."""
        broker = self._broker
        if key[0] == "shard":
            self._coordinators.tick(key[1], now)
        elif key[0] == "fetch" and self._request is not None:
            self._answer_fetch(self._request, fetch.FetchResult(broker, self._request))
        elif key == CLEANING:
            self._cleaner.run_step(now)
        elif key == EXPIRY:
            self._units += (
                UnitOfWork(None, self._expiry.delete_expired, partition) for partition in self._expiry.next_partitions(now)
            )
        elif key == FAILURES:
            self._out += self._failures.take_counted()
            self._arm_periodic(now)
        elif key == PRODUCERS:
            broker.deadlines.arm(key, now.mono_ms + PRODUCER_EXPIRY_CHECK_MS)
            before_ms = now.wall_ms - broker.settings.producer_id_expiration_ms
            for partition in broker.partitions:
                partition.producers.forget_before(before_ms)

    def _drop_tickets(self, event: Gone, now: Instant) -> None:
        for ticket in event.tickets:
            self._stop_waiting(ticket)

    def _flushed(self, mark: int) -> None:
        """What was written will be visible, and the answers that waited for it leave after that."""
        settled, answers = self._broker.flush_gate.flushed(mark)
        self._units += (UnitOfWork(None, self._make_visible, writer) for writer in settled)
        self._units.append(UnitOfWork(None, self._cleaner.flushed, mark))
        self._units += (UnitOfWork(reply.request, self._release_reply, reply) for reply in answers)

    def _make_visible(self, writer: FlushedFiles, now: Instant) -> None:
        """Make visible what was written before the flush; if that breaks off, the next one does it."""
        self._broker.flush_gate.begin_write(writer)
        writer.on_flushed()
        if type(writer) is Partition:
            self._broker.delayed_fetches.partition_changed(IdPartition(writer.topic.id, writer.index))
            self._cleaner.consider(writer, now)
        self._broker.flush_gate.made_visible(writer)

    def _release_reply(self, reply: PendingReply, now: Instant) -> None:
        """Send the answer: what it tells of is on the disk."""
        self._send(reply)

    def _flush_failed(self, event: FlushFailed, now: Instant) -> None:
        """Nothing that was written since the last flush is there any more, and whoever waited for it is told so."""
        self._is_cutting = True
        self._out.append(Note("error", f"the disk refused a flush, so what it was about is lost: {event.why}"))
        if self._broker.flush_gate.is_failing:
            self._broker.deadlines.arm(FLUSH, now.mono_ms + FLUSH_RETRY_MS)
        self._cleaner.flush_failed()
        lost, answers = self._broker.flush_gate.flush_failed()
        for reply in answers:
            self._send(
                reply if reply.request is None else reply._replace(body=error_response(reply.request, Code.KAFKA_STORAGE_ERROR))
            )
        if self._broker.topic_service in lost:
            self._forget_topics(self._broker.topic_service.cut_back())
        for writer in lost:
            if type(writer) is Partition and self._broker.topic_service.topics.with_id(writer.topic.id) is not None:
                self._cut_back(writer, now)
        self._is_cutting = False

    def _forget_topics(self, never_made: list[Topic]) -> None:
        """Topics that never reached the disk have no logs, and groups that had theirs in one are gone."""
        for topic in never_made:
            if topic.name == OFFSETS_TOPIC:
                self._refuse_all(self._coordinators.close(), Code.COORDINATOR_NOT_AVAILABLE)
            self._broker.partitions.delete_logs(topic)

    def _cut_back(self, partition: Partition, now: Instant) -> None:
        partition.cut_back()
        self._broker.delayed_fetches.partition_changed(IdPartition(partition.topic.id, partition.index))
        if partition.topic.name == OFFSETS_TOPIC:
            self._refuse_all(self._coordinators.reload(partition, now), Code.COORDINATOR_NOT_AVAILABLE)

    def _refuse_all(self, parked: list[Arrived], code: Code) -> None:
        for asked in parked:
            self._send(PendingReply(asked.ticket, error_response(asked, code), asked))
