"""A group member that runs on its own threads: heartbeats go on while its owner works.

The owner is the code behind a `Consumer`, or a Spark query. It reads `status()`, an immutable
snapshot, at any time. When `status().target` differs from `status().owned`, it stops using what was
revoked, starts what was added, and calls `adopt`; only then is the change acknowledged to the
coordinator. `request_offsets` sends the member's id and epoch, so the coordinator refuses an owner
that has been replaced. One owner, any number of readers.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from apportion.client.cluster import Cluster
from apportion.client.member_requests import MemberRequests
from apportion.client.members import MembershipChange, MembershipEvent
from apportion.client.outage import LOG_INTERVAL_S
from apportion.drive.clocks import now
from apportion.drive.interrupts import interrupt_program
from apportion.drive.notes import log_note
from apportion.drive.threads import BlockingCall, ThreadDriver
from apportion.machine import Instant, Note
from apportion.member.classic.requests import ClassicSettings
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Action,
    Adopted,
    CoordinatorFound,
    Event,
    Failed,
    FetchMetadata,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MemberAssignment,
    MembershipState,
    Offer,
    Polled,
    QueryCluster,
    RunAssignor,
    SendToCoordinator,
    Subscribe,
    View,
)
from apportion.member.offset_requests import (
    AwaitOtherEpoch,
    request_offsets,
    request_offsets_within,
)
from apportion.member.queries import (
    CommitOffsets,
    FetchCommitted,
    MembershipSnapshot,
    ReadMembership,
)
from apportion.readable import readable
from apportion.rules import run_rule
from apportion.topics import IdPartition, TopicIdPartition

E_contra = TypeVar("E_contra", contravariant=True)
HISTORY_LIMIT = 256
log = logging.getLogger("apportion.session")


class MembershipMachine(Protocol[E_contra]):
    """The state machine of a member, with events of its own kind beside those of all members."""

    concurrent_calls: int

    @property
    def settings(self) -> ConsumerSettings | ClassicSettings:
        """Its settings, whichever its protocol is."""
        ...

    def step(self, event: E_contra | Event, now: Instant) -> list[Action]:
        """Apply an event and return the actions that follow, in order."""
        ...

    def wake_at(self) -> int | None:
        """Return when it next needs a Tick (monotonic ms)."""
        ...

    def view(self) -> View:
        """Return a snapshot of the member."""
        ...


class GroupMembership(Generic[E_contra]):
    """One member of one group: its state machine, its threads, and the owner's calls to it.

    Its type names the events that a member of this kind takes: `Event` those of every member.
    """

    def __init__(
        self,
        cluster: Cluster,
        member: MembershipMachine[E_contra],
        topics: Iterable[str],
        *,
        before_join: Callable[[CoordinatorFound], Event] | None = None,
    ) -> None:
        """Take a member's state machine (`new_member`); no thread runs before `start`.

        before_join: called on a background thread, each time that the coordinator was found and
        before it hears of the member; returns the event for the member, which joins after
        `CoordinatorFound` alone.
        """
        self.cluster = cluster
        self.settings, self._member = member.settings, member
        self._topics = tuple(topics)
        self._status = self._member.view()
        self._changed = threading.Condition()
        self._history: deque[MembershipEvent] = deque(maxlen=HISTORY_LIMIT)
        self._crash: BaseException | None = None
        self._left: Left | None = None
        self._requests = MemberRequests(
            cluster, self.settings.group_id, self.settings.response_timeout_ms, before_join
        )
        self._last_logged: Note | None = None
        self._log_again_s = 0.0
        self._driver: ThreadDriver[E_contra | Event, Action] = ThreadDriver(
            self._member,
            perform=self._perform,
            after_step=self._publish,
            on_crash=self._record_crash,
            concurrent_calls=member.concurrent_calls,
        )

    # the owner's side

    def start(self) -> None:
        """Join the group; threads keep the member in it until `leave` or the process ends."""
        # The driver first: the post below has nobody to run it otherwise.
        self._driver.start(f"apportion-{self.settings.group_id}")
        self._driver.post(Subscribe(self._topics))

    def status(self) -> View:
        """Return the member's state after its last step.

        Raises RuntimeError if its thread died of a defect, KeyboardInterrupt if an assignor of the
        member raised it there.
        """
        with self._changed:
            # A defect in the thread must not look like a quiet group: the owner would read on while
            # its session expires.
            if isinstance(self._crash, KeyboardInterrupt):
                raise KeyboardInterrupt from self._crash
            if self._crash is not None:
                raise RuntimeError(
                    f"the session of group {self.settings.group_id!r} died: {self._crash!r}"
                ) from self._crash
            return self._status

    def snapshot(self) -> MembershipSnapshot:
        """Return the status and the time at which it was read. Raises as `status` does."""
        return MembershipSnapshot(self.status(), now().mono_ms, self.cluster.interruptions)

    def wait(self, ready: Callable[[View], bool], timeout_ms: int) -> View:
        """Return the first status for which `ready` holds, or the present one at the timeout."""
        self._wait_until(lambda: ready(self._status), timeout_ms)
        return self.status()

    def _wait_until(self, is_over: Callable[[], bool], timeout_ms: int) -> None:
        """Wait until the condition holds after a step, the member's thread dies, or the timeout."""
        # The monotonic clock: a jump of the wall clock must neither cut a wait short nor extend it.
        deadline = time.monotonic() + timeout_ms / 1000
        with self._changed:
            while (
                self._crash is None and not is_over() and (left := deadline - time.monotonic()) > 0
            ):
                self._changed.wait(left)

    def wait_for_change(self, timeout_ms: int) -> View:
        """Return the first status that differs from the present one, or that one at the timeout."""
        before = self.status()
        return self.wait(lambda view: view != before, timeout_ms)

    def adopt(self, incarnation: int, owned: Iterable[IdPartition | TopicIdPartition]) -> View:
        """Own exactly these partitions from now on, and acknowledge that to the coordinator.

        Return the status after that.

        incarnation: that of the status whose target was applied. Nothing happens if the member has
        lost its membership since, or if `owned` contains partitions that the coordinator has
        revoked since: the next status shows it.
        """
        adopted = tuple(sorted({IdPartition(each.topic_id, each.partition) for each in owned}))
        self._driver.post(Adopted(incarnation, adopted))
        return self.wait(
            lambda view: (
                view.incarnation != incarnation or view.owned == adopted or view.epoch <= 0
            ),
            1_000,
        )

    def subscribe(self, topics: Iterable[str], expression: str = "") -> None:
        """Subscribe the group member to these topics from the next heartbeat on.

        expression: of RE2, for the coordinator to resolve; KIP-848 members alone have one.
        """
        self._driver.post(Subscribe(tuple(topics), expression))

    def touch(self) -> None:
        """Show the member that its owner polls. Needed only with `poll_limit_ms`.

        Without it the member leaves the group after max.poll.interval.ms, as Kafka's consumers do.
        """
        self._driver.post(Polled())

    def request_offsets(
        self, request: CommitOffsets | FetchCommitted, timeout_ms: int | None = None
    ) -> Any:
        """Commit or fetch offsets as the member that the request names; return its answer.

        Raises Refused if the member has lost the request's incarnation.
        """
        limit_ms = self.cluster.timeout_ms if timeout_ms is None else timeout_ms

        def answer(query: Any) -> Any:
            match query:
                case AwaitOtherEpoch(epoch, wait_ms):
                    return self.wait(lambda view: view.epoch != epoch, wait_ms).epoch != epoch
                case ReadMembership():
                    return self.snapshot()
            return self.cluster.answer(query)

        rule = request_offsets(request, self._group, self.settings.instance_id)
        return run_rule(request_offsets_within(rule, self.cluster.metadata, limit_ms), answer)

    def history(self) -> tuple[MembershipEvent, ...]:
        """Return the last HISTORY_LIMIT events of the membership, oldest first."""
        with self._changed:
            return tuple(self._history)

    def leave(self, timeout_ms: int = 3_000, *, for_good: bool = False) -> bool:
        """Leave the group and stop the threads; return whether that is confirmed, as in `Left`.

        A static member (group.instance.id, KIP-345) keeps its assignment until it returns or its
        session expires, unless it leaves for good.
        """
        # The driver is stopped only below, after the answer or the timeout: a dynamic member that
        # goes without LeaveGroup holds its partitions for a whole session timeout.
        self._driver.post(Leave(for_good))
        self._wait_until(lambda: self._left is not None, timeout_ms)
        self._driver.stop()
        return self._left is not None and self._left.is_confirmed

    @property
    def _group(self) -> str:
        return self.settings.group_id

    # the threads' side

    def _perform(self, action: Action) -> BlockingCall[Event] | None:
        """Perform an action of the machine, or return the call that may take long."""
        match action:
            case (
                FindCoordinator()
                | SendToCoordinator()
                | FetchMetadata()
                | QueryCluster()
                | RunAssignor()
            ):
                return lambda: self._requests.send(action)
            case Offer(incarnation, _, revoke, add):
                self._record("offered", incarnation, revoke, add)
            case Lost(incarnation, lost):
                self._record("lost", incarnation, lost, ())
            case Failed(code, why):
                self._record("failed", self._status.incarnation, (), (), why=f"{code.name}: {why}")
                log.error("group %s: %s: %s", readable(self._group), code.name, readable(why))
            case Left():
                self._record("left", self._status.incarnation, (), ())
                with self._changed:
                    self._left = action
            case Note():
                self._log(action)
        return None

    def _log(self, note: Note) -> None:
        """Log a note unless the last one was the same: an outage must not fill the log."""
        if note != self._last_logged or time.monotonic() >= self._log_again_s:
            self._last_logged, self._log_again_s = note, time.monotonic() + LOG_INTERVAL_S
            log_note(log, note, self._group)

    def _record(
        self,
        what: MembershipChange,
        incarnation: int,
        revoked: MemberAssignment,
        added: MemberAssignment,
        *,
        why: str = "",
    ) -> None:
        epoch = self._member.view().epoch
        event = MembershipEvent(now().wall_ms, what, incarnation, epoch, revoked, added, why)
        with self._changed:
            self._history.append(event)

    def _publish(self) -> None:
        """Take a snapshot after a step, for the owner's calls, and wake those that wait."""
        view = self._member.view()
        with self._changed:
            before, self._status = self._status, view
            if (
                view.owned != before.owned
                and view.incarnation == before.incarnation
                and view.state is not MembershipState.LEAVING
                and view.epoch > 0
            ):
                revoked = tuple(each for each in before.owned if each not in view.owned)
                added = tuple(each for each in view.owned if each not in before.owned)
                self._record("adopted", view.incarnation, revoked, added)
            self._changed.notify_all()

    def _record_crash(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            interrupt_program()
        else:
            log.error("the session of group %s died", readable(self._group), exc_info=error)
        with self._changed:
            self._crash = error
            self._changed.notify_all()
