"""The part of a member's state machine that both group protocols share.

A member has one request to its coordinator in flight at a time. Before the first one, and after an
error that says so, it looks up the coordinator (FindCoordinator). It repeats failed requests with
exponential backoff, leaves when its owner does not poll in time (max.poll.interval.ms), and ends
with an error that cannot be retried. Joining, heartbeats and assignments differ:
`consumer/machine.py` (KIP-848) and `classic/machine.py` (KIP-429) add them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from apportion.errors import Code, Refused
from apportion.machine import Instant, Note, Tick
from apportion.member.backoff import Backoff
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

    def __init__(self, settings: S) -> None:
        """Begin outside the group, without topics or a known coordinator."""
        self.settings = settings
        self.state = MembershipState.UNSUBSCRIBED
        self._error: Failed | None = None
        self._coordinator_known = False
        self._in_flight: FindCoordinator | SendToCoordinator | None = None
        self._last_request_id = 0
        self._backoff = Backoff(
            settings.backoff_ms, settings.backoff_limit_ms, settings.wait_limit_ms
        )
        self._heartbeat_at_ms = 0
        self._poll_deadline_ms: int | None = None
        self._becomes_stale = False
        self._sent_at_ms = 0  # when the last request was sent

    def wake_at(self) -> int | None:
        """Return when the member next needs a Tick (monotonic ms).

        None while it waits for its owner or a response.
        """
        return min(self._wake_times(), default=None)

    def _wake_times(self) -> list[int]:
        times = [] if self._poll_deadline_ms is None else [self._poll_deadline_ms]
        if self._in_flight is None and self.state not in SILENT:
            times.append(self._due_at())
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
        """Apply an event to the member's state, and add the actions that follow.

        A response to any request but the one in flight is ignored.
        """
        in_flight = self._in_flight
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
                self._becomes_stale, self._poll_deadline_ms = False, None
                if self.state is not MembershipState.LEAVING:
                    self._leave(actions, for_good)
            # A response to an earlier request is stale: it must not change anything.
            case CoordinatorFound(request_id) if (
                in_flight is not None and request_id == in_flight.request_id
            ):
                self._in_flight, self._coordinator_known = None, True
            case Answered(request_id, response) if (
                isinstance(in_flight, SendToCoordinator) and request_id == in_flight.request_id
            ):
                self._in_flight = None
                self._apply_response(in_flight.request, response, actions, now)
            case Unanswered(request_id, why, code) if (
                in_flight is not None and request_id == in_flight.request_id
            ):
                self._in_flight = None
                self._apply_failure(in_flight, why, code, actions, now)
            case Tick() if (
                self._poll_deadline_ms is not None and now.mono_ms >= self._poll_deadline_ms
            ):
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
        limit = self.settings.poll_limit_ms
        self._poll_deadline_ms = (
            None if limit is None or self.state is MembershipState.FATAL else now.mono_ms + limit
        )

    def _leave_as_stale(self, actions: list[Action]) -> None:
        """Leave until the owner polls again: it exceeded max.poll.interval.ms."""
        self._poll_deadline_ms = None
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

    @abstractmethod
    def _apply_response(
        self,
        request: MembershipRequest,
        response: MembershipResponse,
        actions: list[Action],
        now: Instant,
    ) -> None:
        """Apply the response to `request`, be it an error or not."""

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
            self._coordinator_known = False
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
        self._in_flight = None
        if not self._becomes_stale:
            actions.append(Left(is_confirmed))

    def _fail(self, code: Code, why: str, actions: list[Action]) -> None:
        """End the membership for good (FATAL), reporting everything owned as lost."""
        self._error = Failed(code, why)
        self._poll_deadline_ms = None
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
        elif self._in_flight is not None or now.mono_ms < self._due_at():
            return
        # Each attempt has its own id, so that a late response to an earlier attempt is told from
        # this one's.
        self._last_request_id += 1
        if not self._coordinator_known:
            self._in_flight = FindCoordinator(self._last_request_id, self.settings.group_id)
        else:
            try:
                request, timeout_ms = self._build_request()
            except Refused as refused:
                self._fail(refused.code, refused.why, actions)
                return
            self._sent_at_ms = now.mono_ms
            self._heartbeat_at_ms = now.mono_ms + self._heartbeat_interval_ms()
            self._in_flight = SendToCoordinator(self._last_request_id, request, timeout_ms)
        actions.append(self._in_flight)

    def _due_at(self) -> int:
        """Return when the next request may be sent (monotonic ms)."""
        # The backoff holds even for requests that do not wait for the interval, or a refused join
        # would be repeated without a pause.
        not_before_ms = self._backoff.not_before_ms
        return not_before_ms if self._sends_at_once() else max(self._heartbeat_at_ms, not_before_ms)

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
