"""The part of a member's state machine that both group protocols share.

A member sends its requests over a `CoordinatorLink`, leaves when its owner does not poll in time
(`PollDeadline`), and ends with an error that cannot be retried. Joining, heartbeats and assignments
differ: `consumer/machine.py` (KIP-848) and `classic/machine.py` (KIP-429) add them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from apportion.errors import Code, Refused
from apportion.machine import Instant, Note, Tick
from apportion.member.coordinator_link import CoordinatorLink, PollDeadline
from apportion.member.membership import (
    SILENT,
    Action,
    Adopted,
    Answered,
    CoordinatorFound,
    Event,
    Failed,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MemberAssignment,
    MembershipRequest,
    MembershipResponse,
    MembershipState,
    Polled,
    SendToCoordinator,
    Subscribe,
    Unanswered,
)
from apportion.member.reactions import Reaction, reaction
from apportion.member.settings import MemberSettings

S = TypeVar("S", bound=MemberSettings)


class MemberMachine(ABC, Generic[S]):
    """The state of one group member that does not depend on the protocol."""

    transitions: ClassVar[Mapping[MembershipState, set[MembershipState]]]
    """state -> states that may follow, the table of the protocol"""
    concurrent_calls: ClassVar[int]
    """how many of its actions may wait for a response at the same time"""

    def __init__(self, settings: S) -> None:
        """Begin outside the group, without topics or a known coordinator."""
        self.settings = settings
        self.state = MembershipState.UNSUBSCRIBED
        self._error: Failed | None = None
        self._link = CoordinatorLink(settings)
        self._poll_deadline = PollDeadline(settings.poll_limit_ms)
        self._becomes_stale = False

    def wake_at(self) -> int | None:
        """Return when the member next needs a Tick (monotonic ms).

        None while it waits for its owner or a response.
        """
        return min(self._wake_times(), default=None)

    def _wake_times(self) -> list[int]:
        times = [] if self._poll_deadline.at_ms is None else [self._poll_deadline.at_ms]
        if self._link.in_flight is None and self.state not in SILENT:
            times.append(self._link.due_at(sends_at_once=self._sends_at_once()))
        return times

    def step(self, event: Event, now: Instant) -> list[Action]:
        """Apply an event to a group member and return the actions that follow, in order.

        The driver of a client or of the simulator calls it, for members of either protocol.
        """
        actions: list[Action] = []
        self._apply_event(event, actions, now)
        self._send_if_due(actions, now)
        return actions

    def _apply_event(self, event: Event, actions: list[Action], now: Instant) -> None:
        """Apply an event to the member's state, and add the actions that follow."""
        match event:
            case Subscribe(topics):
                self._subscribe(tuple(sorted(dict.fromkeys(topics))), now)
            case Adopted(incarnation, adopted):
                self._adopt(incarnation, adopted)
            case Polled():
                self._restart_poll_timer(now)
                # Kafka's consumer rejoins at the next poll after max.poll.interval.ms was exceeded.
                if self.state is MembershipState.STALE:
                    self._join(now)
            case Leave(for_good):
                # A member that is leaving as stale and is closed now ends UNSUBSCRIBED: it must not
                # rejoin at a later poll.
                self._becomes_stale = False
                self._poll_deadline.stop()
                if self.state is not MembershipState.LEAVING:
                    self._leave(actions, for_good)
            case CoordinatorFound() | Answered() | Unanswered():
                self._apply_answer(event, actions, now)
            case Tick() if self._poll_deadline.is_over(now.mono_ms):
                self._leave_as_stale(actions)

    # the owner

    @abstractmethod
    def _subscribe(self, topics: tuple[str, ...], now: Instant) -> None:
        """Change the subscription; join if the member is in no group. topics: sorted."""

    @abstractmethod
    def _adopt(self, incarnation: int, adopted: MemberAssignment) -> None:
        """Record what the owner uses, if it was offered in this incarnation."""

    def _restart_poll_timer(self, now: Instant) -> None:
        """Restart max.poll.interval.ms: the owner has polled or subscribed."""
        if self.state is not MembershipState.FATAL:
            self._poll_deadline.restart(now.mono_ms)

    def _leave_as_stale(self, actions: list[Action]) -> None:
        """Leave until the owner polls again: it exceeded max.poll.interval.ms."""
        self._poll_deadline.stop()
        if self.state in SILENT or self.state is MembershipState.LEAVING:
            return
        limit = self.settings.poll_limit_ms
        why = f"{self._label()} leaves: its owner did not come back within {limit} ms"
        # onPartitionsLost and not onPartitionsRevoked: the member leaves without waiting for the
        # owner, and others may own the partitions at once.
        actions += [Note("warning", why), self._lost()]
        self._becomes_stale = True
        self._forget_partitions()
        self._send_stale_leave(actions)

    # the coordinator

    def _apply_answer(
        self, event: CoordinatorFound | Answered | Unanswered, actions: list[Action], now: Instant
    ) -> None:
        """Apply the answer to the request in flight; ignore one to any other request."""
        answered = self._link.take_answered(event)
        match event:
            case CoordinatorFound() if answered is not None:
                self._link.is_known = True
            case Answered(_, response) if isinstance(answered, SendToCoordinator):
                self._apply_response(answered.request, response, actions, now)
            case Unanswered(_, why, code) if answered is not None:
                self._apply_failure(answered, why, code, actions, now)

    @abstractmethod
    def _apply_response(
        self,
        request: MembershipRequest,
        response: MembershipResponse,
        actions: list[Action],
        now: Instant,
    ) -> None:
        """Apply the response to `request`, be it an error or not."""

    def _apply_error(
        self,
        request: MembershipRequest,
        code: Code,
        why: str,
        on_error: Reaction,
        actions: list[Action],
        now: Instant,
    ) -> None:
        """Repeat a request that was refused, if `on_error` says so; otherwise fail."""
        if on_error is Reaction.FIND_COORDINATOR:
            self._link.is_known = False
            self._retry(request, now, free=1)
        elif on_error is Reaction.RETRY or (
            on_error is Reaction.RETRY_FOR_A_TIME and self._link.backoff.may_keep_waiting(now)
        ):
            actions.append(Note("warning", f"{self._name_request(request)}: {code.name}: {why}"))
            self._retry(request, now)
        else:
            self._fail_by_response(code, why, actions)

    @abstractmethod
    def _name_request(self, request: MembershipRequest) -> str:
        """Return the request and its member as log lines name them."""

    def _fail_by_response(self, code: Code, why: str, actions: list[Action]) -> None:
        """End the membership for good, after a response with an error that no retry mends."""
        self._fail(code, why, actions)

    def _apply_failure(
        self,
        in_flight: FindCoordinator | SendToCoordinator,
        why: str,
        code: Code,
        actions: list[Action],
        now: Instant,
    ) -> None:
        """Retry a member's request that got no response, at a coordinator that is looked up."""
        if self.state is MembershipState.LEAVING:
            # One attempt is enough: the session of a member without heartbeats expires.
            self._finish_leaving(actions, is_confirmed=False)
        elif reaction("FindCoordinator", code) is Reaction.RAISE:
            self._fail(code, why, actions)
        else:
            # A broken connection often means that the group has moved to another broker.
            self._link.is_known = False
            actions.append(Note("warning", f"no answer for {self._label()}: {why}"))
            request = in_flight.request if isinstance(in_flight, SendToCoordinator) else None
            self._retry(request, now)

    @abstractmethod
    def _retry(self, request: MembershipRequest | None, now: Instant, free: int = 0) -> None:
        """Send the request again after a backoff; None: the coordinator was not found.

        free: so many failures in a row cost no time.
        """

    # transitions

    def _enter(self, state: MembershipState) -> None:
        assert state is self.state or state in self.transitions[self.state], (self.state, state)
        self.state = state

    @abstractmethod
    def _join(self, now: Instant) -> None:
        """Enter JOINING in a new incarnation, which owns nothing."""

    @abstractmethod
    def _leave(self, actions: list[Action], for_good: bool) -> None:
        """Leave because the owner asked for it: enter LEAVING, or finish if nothing is to send."""

    @abstractmethod
    def _send_stale_leave(self, actions: list[Action]) -> None:
        """Leave because the owner did not poll in time, as `_leave` does."""

    def _finish_leaving(self, actions: list[Action], *, is_confirmed: bool) -> None:
        """End the membership after a leave: enter UNSUBSCRIBED or STALE.

        is_confirmed: as in `Left`.
        """
        if self.state is not MembershipState.UNSUBSCRIBED:
            self._enter(
                MembershipState.STALE if self._becomes_stale else MembershipState.UNSUBSCRIBED
            )
        self._reset_membership()
        self._link.in_flight = None
        if not self._becomes_stale:
            actions.append(Left(is_confirmed))

    def _fail(self, code: Code, why: str, actions: list[Action]) -> None:
        """End the membership for good (FATAL), reporting everything owned as lost."""
        self._error = Failed(code, why)
        self._poll_deadline.stop()
        # Lost first: it reports the incarnation and partitions that the reset below forgets.
        actions += [self._lost(), self._error]
        self._enter(MembershipState.FATAL)
        self._reset_membership()

    @abstractmethod
    def _reset_membership(self) -> None:
        """Forget epoch, target and owned partitions: the member is in no group now."""

    @abstractmethod
    def _forget_partitions(self) -> None:
        """Forget target and owned partitions, which were reported as lost, and keep the epoch."""

    @abstractmethod
    def _lost(self) -> Lost:
        """Return the action that takes everything owned from the owner."""

    @abstractmethod
    def _label(self) -> str:
        """Return the member as log lines name it."""

    # requests

    def _send_if_due(self, actions: list[Action], now: Instant) -> None:
        """Send the request that the member's state calls for, unless it has to wait."""
        if self.state in SILENT:
            return
        # The leave is not repeated either (KIP-848): one attempt, then the session timeout.
        if self.state is MembershipState.LEAVING:
            # A leave overtakes the request in flight, whose response is ignored then.
            if self._has_sent_leave():
                return
        elif self._link.in_flight is not None or now.mono_ms < self._link.due_at(
            sends_at_once=self._sends_at_once()
        ):
            return
        if not self._link.is_known:
            actions.append(self._link.find_coordinator())
            return
        try:
            request, timeout_ms = self._build_request()
        except Refused as refused:
            self._fail(refused.code, refused.why, actions)
            return
        interval_ms = self._heartbeat_interval_ms()
        actions.append(
            self._link.send(request, timeout_ms, now_ms=now.mono_ms, interval_ms=interval_ms)
        )

    @abstractmethod
    def _sends_at_once(self) -> bool:
        """Return whether the next request does not wait for the heartbeat interval."""

    @abstractmethod
    def _heartbeat_interval_ms(self) -> int:
        """Return the time from one request to the next heartbeat."""

    @abstractmethod
    def _has_sent_leave(self) -> bool:
        """Return whether the request in flight is the leave."""

    @abstractmethod
    def _build_request(self) -> tuple[MembershipRequest, int]:
        """Return the request that the state calls for, and its timeout in ms.

        Raises Refused if the membership has to end instead.
        """
