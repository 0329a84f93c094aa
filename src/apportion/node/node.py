"""One broker as a Machine: requests in, replies out, and between them one flush gate.

`step` hands a request to its handler, or to the coordinator shard of its group; then it announces
new topics to the shards, retries the delayed fetches whose partitions have changed, and asks for a
flush if anything was written. A reply leaves when all writes that it shows are on the disk.
`unit_of_work.py` says what happens when a step fails. A node knows no sockets, clocks or threads.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from apportion.coord.heartbeat_budget import HeartbeatBudget
from apportion.coord.shard import Shard
from apportion.deadlines import Deadlines, Key
from apportion.errors import Code
from apportion.machine import (
    Arrivals,
    Arrived,
    ComputationEnd,
    Flushed,
    FlushFailed,
    Gone,
    Instant,
    Tick,
)
from apportion.node.authorization.gate import Gate
from apportion.node.bootstrap import NOTHING, BootstrapMetadata
from apportion.node.broker import Answer, BrokerContext
from apportion.node.cleaning import CLEANING, Cleaner
from apportion.node.coordinators import SHARD, Coordinators
from apportion.node.delayed_fetches import FETCH, DelayedFetches
from apportion.node.disk_failures import DISK, DiskFailures
from apportion.node.failures import COUNTED_EACH_MS, FAILURES, StepFailures
from apportion.node.fetch_answers import FetchAnswers
from apportion.node.flush_gate import FLUSH, FLUSH_RETRY_MS, FlushedFiles, FlushGate, PendingReply
from apportion.node.handlers.table import HANDLERS
from apportion.node.listeners import Advertised
from apportion.node.partitions import Partition, Partitions
from apportion.node.producers import EXPIRY_CHECK_MS, PRODUCERS
from apportion.node.recovery import recover
from apportion.node.replies import ReplySender
from apportion.node.retention import EXPIRY, RetentionCheck
from apportion.node.rollback import Rollback
from apportion.node.settings import BrokerSettings
from apportion.node.splits import SplitRequests
from apportion.node.topics import TopicService
from apportion.node.unit_of_work import UnitOfWork
from apportion.store.disk import Disk, DiskError
from apportion.store.metadata_log import LogEnd, MetadataLog
from apportion.topics import IdPartition, Topics

# Deadlines with the same time are served in the order of their keys, as tuples are sorted.
RETRY: Key = ("again",)
"""The deadline at which the units run that a failed step has left."""
TOPICS_CHANGED: Key = ("tell",)
"""The deadline to announce topics and settings to the shards behind one that has failed."""


class Node:
    """One broker on one disk.

    Call `start` first, and carry out its flush before the first request.
    """

    __slots__ = (
        *("_announced", "_broker", "_cleaner", "_coordinators", "_expiry", "_failures"),
        *("_fetches", "_gate", "_is_announcing", "_request", "_rollback", "_sender"),
        *("_split_requests", "_units"),
    )

    def __init__(self, disk: Disk, settings: BrokerSettings, advertised: Advertised) -> None:
        flush_gate, delayed_fetches, deadlines = FlushGate(), DelayedFetches(), Deadlines()
        partitions = Partitions(disk, lambda topic: topic_service.rules(topic).layout, flush_gate)
        topic_service = TopicService(
            MetadataLog.open(disk), settings, flush_gate, partitions, delayed_fetches
        )
        self._broker = BrokerContext(
            advertised,
            flush_gate,
            topic_service,
            partitions=partitions,
            delayed_fetches=delayed_fetches,
            deadlines=deadlines,
            disk_failures=DiskFailures(disk, deadlines),
        )
        self._gate = Gate(self._broker) if settings.authorizer_class_name else None
        self._cleaner = Cleaner(self._broker)
        self._expiry = RetentionCheck(self._broker)
        self._split_requests = SplitRequests()
        self._sender = ReplySender(self._broker, self._split_requests)
        self._fetches = FetchAnswers(self._broker, self._sender)
        self._coordinators = Coordinators(
            self._broker, self._split_requests, self._sender.send_when_durable
        )
        self._rollback = Rollback(self._broker, self._coordinators, self._sender.send)
        self._failures = StepFailures()
        self._announced = self._broker.topic_service.for_shards
        self._is_announcing = False
        # still to run: empty between steps, unless one failed
        self._units: deque[UnitOfWork | Arrived] = deque()
        self._request: Arrived | None = None  # of the current unit

    def start(self, now: Instant, fresh: bytes, given: BootstrapMetadata = NOTHING) -> list[Any]:
        """Recover topics, logs and groups from the disk, and return a flush of all that they hold.

        The flush comes before the first request, so nobody is shown what only the page cache held.
        fresh: 16 random bytes, for the id of a new cluster. Errors: Damaged, see `recover`.
        """
        self._sender.actions += recover(self._broker, now, fresh, given)
        self._coordinators.load_all(now)
        self._arm_periodic(now)
        self._confirm()
        return self._finish_step(now)

    def step(self, event: Any, now: Instant) -> list[Any]:
        """Run the units of work that `event` asks for, and return the actions that follow."""
        if type(event) is Arrived:
            self._units.append(event)
        elif type(event) is Arrivals:
            self._units += event.requests
        elif type(event) is Flushed:
            self._flushed(event.flush_seq)
        elif type(event) is FlushFailed:
            # Before all others, which would build on writes that are lost.
            self._units.appendleft(UnitOfWork(None, self._flush_failed, event))
        elif type(event) is Gone:
            self._units.append(UnitOfWork(None, self._drop_tickets, event))
        elif isinstance(event, ComputationEnd):
            self._units.append(UnitOfWork(None, self._coordinators.end_computation, event))
        self._run_all(now)
        if type(event) is Tick:
            delayed_fetches = self._broker.delayed_fetches
            # One at a time: what one deadline does may put off another that is due (seed 96).
            for key in self._broker.deadlines.take_due(now.mono_ms):
                request = delayed_fetches.request_or_none(key[1]) if key[0] == FETCH else None
                self._run(UnitOfWork(request, self._serve, key), now)
                self._run_all(now)
        return self._finish_step(now)

    def wake_at(self) -> int | None:
        """Return when the earliest deadline is due (monotonic ms); None if none is armed."""
        return self._broker.deadlines.next_at()

    @property
    def topics(self) -> Topics:
        """The topics as of the last step. Some may not be durable yet."""
        return self._broker.topic_service.topics

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings that hold now."""
        return self._broker.settings

    @property
    def durable(self) -> LogEnd:
        """The metadata that is on the disk: the credentials for logins, and the ACLs."""
        return self._broker.topic_service.durable

    def partitions(self) -> Iterator[Partition]:
        """Return the open partitions, for inspection only."""
        return iter(self._broker.partitions)

    def shards(self) -> Iterator[tuple[Partition, Shard]]:
        """Return each loaded shard with the partition of its log, for inspection only."""
        return self._coordinators.shards()

    @property
    def heartbeats(self) -> HeartbeatBudget:
        """The heartbeats to come of all consumer groups, for inspection only."""
        return self._coordinators.heartbeats

    def give_up(self, _event: Any, error: Exception, now: Instant) -> list[Any]:
        """Undo the unit of work in which `step(event)` raised `error`, and fail its request.

        The request fails with UNKNOWN_SERVER_ERROR, or KAFKA_STORAGE_ERROR where the disk refused.
        Raises `error` again if it was raised during a rollback. See the module.
        """
        if self._rollback.is_running:
            raise error
        code = Code.UNKNOWN_SERVER_ERROR
        if isinstance(error, DiskError):
            code = Code.KAFKA_STORAGE_ERROR
            self._broker.disk_failures.add(str(error), now.mono_ms, error.errno)
        self._sender.actions += self._failures.add(error, now.mono_ms)
        own_request, is_announcing = self._request, self._is_announcing
        failed = {
            request.ticket: request
            for request in (own_request, *self._sender.requests_of_unit())
            if request is not None
        }
        # Before the rollback, whose own replies have to leave.
        self._sender.retract(failed)
        if self._broker.flush_gate.is_collecting:
            self._flush_failed(FlushFailed(0, str(error), getattr(error, "errno", None)), now)
        else:
            failed |= {request.ticket: request for request in self._rollback.undo_unit(now)}
        for request in failed.values():
            self._fail(
                request,
                code
                if own_request is not None and request.ticket == own_request.ticket
                else Code.COORDINATOR_NOT_AVAILABLE,
            )
        self._cleaner.rearm(now)
        self._coordinators.rearm(now.mono_ms + self._failures.pause_ms)
        self._arm_periodic(now)
        if self._broker.topic_service.differs_from(self._announced):
            self._broker.deadlines.arm(
                TOPICS_CHANGED, now.mono_ms + max(1, self._failures.pause_ms)
            )
        # At once where a request failed, which is not tried again: others came with it, and wait.
        is_tried_again = own_request is None and not is_announcing
        self._broker.deadlines.arm(
            RETRY, now.mono_ms + (self._failures.pause_ms if is_tried_again else 0)
        )
        self._confirm()
        self._sender.actions += self._broker.disk_failures.take_notes()
        return self._sender.take_actions()

    def _fail(self, request: Arrived, code: Code) -> None:
        """Answer a request of a failed step with `code`, and forget it everywhere.

        A part of a split request fails the whole request.
        """
        whole = self._split_requests.abandon(request.ticket)
        if whole is None and request.ticket < 0:
            return  # the whole request has failed with another of its parts
        request = whole or request
        self._fetches.stop_waiting(request.ticket)
        self._sender.send_error(request, code)

    def _arm_periodic(self, now: Instant) -> None:
        """Arm the node's periodic deadlines that are not armed.

        The expiry of producer states, the retention check, and lines about failed steps if any are.
        """
        if PRODUCERS not in self._broker.deadlines:
            self._broker.deadlines.arm(PRODUCERS, now.mono_ms + EXPIRY_CHECK_MS)
        self._expiry.arm_if_needed(now)
        if self._failures and FAILURES not in self._broker.deadlines:
            self._broker.deadlines.arm(FAILURES, now.mono_ms + COUNTED_EACH_MS)

    def _run_all(self, now: Instant) -> None:
        """Run the queued units of work, of which each request is one."""
        units = self._units
        while units:
            unit = units.popleft()
            if isinstance(unit, UnitOfWork):
                self._run(unit, now)
            else:
                self._run_request(unit, now)

    def _run_request(self, request: Arrived, now: Instant) -> None:
        """Answer a request, by the broker's handler of its API or by the group coordinators.

        It is a unit of work; but a steady heartbeat, which has nothing to undo, needs none.
        """
        self._request = request
        if self._gate is not None:
            checked = self._gate.check(request)
            if isinstance(checked, Answer):
                self._sender.send_answer(request, checked)
                self._confirm()
                return
            request = checked
        steady = self._coordinators.steady_response_or_none(request, now)
        if steady is not None:
            self._sender.send_at_once(request, steady)
            self._request = None
            return
        handler = HANDLERS.get(type(request.request))
        if handler is None:
            self._coordinators.route(request, now)
        elif (answer := handler(self._broker, request, now)) is not None:
            self._sender.send_answer(request, answer)
        self._confirm()

    def _run(self, unit: UnitOfWork, now: Instant) -> None:
        """Run one unit of work of the node, and confirm it."""
        self._request = unit.request
        unit.run(unit.argument, now)
        self._confirm()

    def _confirm(self) -> None:
        """Commit the current unit of work: a later failure undoes nothing of it."""
        self._request, self._is_announcing = None, False
        self._sender.confirm()
        self._broker.flush_gate.release_savepoints()
        self._coordinators.confirm()

    def _finish_step(self, now: Instant) -> list[Any]:
        """Announce topics and settings, retry fetches, begin a flush; return the step's actions."""
        broker = self._broker
        if (
            broker.topic_service.differs_from(self._announced)
            and TOPICS_CHANGED not in broker.deadlines
        ):
            latest = broker.topic_service.for_shards
            self._units += (
                UnitOfWork(None, self._announce, index)
                for index in self._coordinators.out_of_date()
            )
            self._run_all(now)
            self._announced = latest
        self._coordinators.arm_steady()
        # A topic, or the broker, may have got a retention in this step.
        self._expiry.arm_if_needed(now)
        while broker.delayed_fetches.ready:
            ticket = next(iter(broker.delayed_fetches.ready))
            request = broker.delayed_fetches.request_or_none(ticket)
            self._run(UnitOfWork(request, self._fetches.retry, ticket), now)
        # Behind the replies, and before a flush.
        self._sender.actions += broker.computations
        broker.computations.clear()
        self._sender.actions += broker.disk_failures.take_notes()
        if self._gate is not None:
            self._sender.actions += broker.denials.take()
        if (
            # The flush comes last in a step: it covers what all units above have written.
            broker.flush_gate.has_written
            and FLUSH not in broker.deadlines
            and (flush := broker.flush_gate.begin_flush_or_none()) is not None
        ):
            self._sender.actions.append(flush)
            broker.flush_gate.flush_issued()
        return self._sender.take_actions()

    def _announce(self, index: int, now: Instant) -> None:
        self._is_announcing = True
        self._coordinators.update(index, now)

    def _serve(self, key: Key, now: Instant) -> None:
        """Serve a due deadline; at its max_wait a Fetch gets the batches there are."""
        broker = self._broker
        if key[0] == SHARD:
            self._coordinators.tick(key[1], now)
        elif key[0] == FETCH and self._request is not None:
            self._fetches.answer(self._request)
        elif key == CLEANING:
            self._cleaner.run_step(now)
        elif key == EXPIRY:
            self._units += (
                UnitOfWork(None, self._expiry.delete_expired, partition)
                for partition in self._expiry.take_next_partitions(now)
            )
        elif key == DISK:
            broker.disk_failures.end_minute(now.mono_ms)
        elif key == FAILURES:
            self._sender.actions += self._failures.take_counted()
            self._arm_periodic(now)
        elif key == PRODUCERS:
            broker.deadlines.arm(key, now.mono_ms + EXPIRY_CHECK_MS)
            broker.partitions.forget_producers(
                now.wall_ms - broker.settings.producer_id_expiration_ms
            )

    def _drop_tickets(self, event: Gone, _now: Instant) -> None:
        for ticket in event.tickets:
            self._fetches.stop_waiting(ticket)
        self._units += (
            UnitOfWork(None, self._coordinators.drop_tickets, (index, event))
            for index in self._coordinators.indexes_with(event.tickets)
        )

    def _flushed(self, flush_seq: int) -> None:
        """Queue the effects of a successful flush: consumers see the writes, then replies leave.

        Each is a unit of work of its own, so that a failure in one undoes nothing of the others.
        """
        flushed, replies, notes = self._broker.flush_gate.flushed(flush_seq)
        self._sender.actions += notes
        self._units += (UnitOfWork(None, self._make_visible, files) for files in flushed)
        self._units.append(UnitOfWork(None, self._cleaner.flushed, flush_seq))
        # Last: a producer that was told of its record must find it when it reads.
        self._units += (UnitOfWork(reply.request, self._release_reply, reply) for reply in replies)

    def _make_visible(self, files: FlushedFiles, now: Instant) -> None:
        """Let consumers see what the flush covered. If this fails, the next flush does so again."""
        self._broker.flush_gate.begin_write(files)
        files.on_flushed()
        if type(files) is Partition:
            self._broker.delayed_fetches.partition_changed(IdPartition(files.topic.id, files.index))
            self._cleaner.consider(files, now)
        self._broker.flush_gate.made_visible(files)

    def _release_reply(self, reply: PendingReply, _now: Instant) -> None:
        self._sender.send(reply)

    def _flush_failed(self, event: FlushFailed, now: Instant) -> None:
        """Undo the broker's writes since the last flush; fail the requests that waited for it."""
        self._rollback.is_running = True  # from here on an error is final
        self._broker.disk_failures.add(event.why, now.mono_ms, event.error_number)
        if self._broker.flush_gate.is_failing:
            self._broker.deadlines.arm(FLUSH, now.mono_ms + FLUSH_RETRY_MS)
        self._cleaner.flush_failed()
        self._rollback.undo_unflushed(now)
