"""A member's link to its coordinator, and the deadline by which its owner has to poll.

A member has one request to its coordinator in flight. Before the first one, and after an error that
says so, it looks the coordinator up (FindCoordinator). Failed requests are repeated with
exponential backoff. The contents of requests, and the effects of responses, are the protocol's.
"""

from apportion.machine import Instant
from apportion.member.membership import (
    FindCoordinator,
    MembershipRequest,
    SendToCoordinator,
)
from apportion.member.settings import MemberSettings


class Backoff:
    """The delay before the next request, doubled with each failure in a row up to a limit.

    not_before_ms: when the next request may be sent (monotonic).
    """

    def __init__(self, first_ms: int, longest_ms: int, limit_ms: int) -> None:
        """Begin without a failure.

        first_ms, longest_ms: the shortest and the longest delay. limit_ms: of `may_keep_waiting`.
        """
        self.not_before_ms = 0
        self._first_ms, self._longest_ms, self._limit_ms = first_ms, longest_ms, limit_ms
        self._failures = 0
        self._waiting_since_ms: int | None = None

    def reset_delay(self, now: Instant) -> None:
        """Let the next request be sent at once; failures in a row still count."""
        self.not_before_ms = now.mono_ms

    def record_success(self) -> None:
        """Forget all failures."""
        self._failures, self._waiting_since_ms = 0, None

    def record_failure(self, now: Instant, free: int = 0) -> None:
        """Delay a member's next request; the first `free` failures in a row cost nothing."""
        doublings = self._failures - free
        self._failures += 1
        # 20 doublings are more than any limit; the shift must not grow without end
        wait_ms = (
            0 if doublings < 0 else min(self._first_ms << min(doublings, 20), self._longest_ms)
        )
        self.not_before_ms = now.mono_ms + wait_ms

    def record_waiting(self, now: Instant) -> None:
        """Note an error that only time can resolve; the first one in a row starts the limit."""
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now.mono_ms

    def may_keep_waiting(self, now: Instant) -> bool:
        """Return whether such an error may be retried: the limit has not passed since the first."""
        since_ms = self._waiting_since_ms
        return since_ms is None or now.mono_ms - since_ms < self._limit_ms


class CoordinatorLink:
    """The request in flight of one member, and when the next one is due.

    is_known: the coordinator was looked up, and no error has said since that it is another one.
    request_type: of the last request; None before the first. heartbeat_at_ms: when the next
    heartbeat is due. accepted_ms: when the last request was accepted; None before the first. Both
    times are monotonic. interval_ms: between two heartbeats.
    """

    def __init__(self, settings: MemberSettings, interval_ms: int = 0) -> None:
        """Begin without a known coordinator. interval_ms: between two heartbeats."""
        self.in_flight: FindCoordinator | SendToCoordinator | None = None
        self.is_known = False
        self.backoff = Backoff(
            settings.backoff_ms, settings.backoff_limit_ms, settings.wait_limit_ms
        )
        self.request_type: type[MembershipRequest] | None = None
        self.heartbeat_at_ms = 0
        self.accepted_ms: int | None = None
        self._settings = settings
        self.interval_ms = interval_ms
        self._last_request_id = 0
        self._sent_ms = 0
        # when the last request was sent that showed the coordinator that the member is alive
        self._confirmed_ms = 0
        # when the last request was sent whose response asked for no rebalance
        self._settled_ms = 0

    @property
    def api(self) -> str:
        """The API of the last request, such as `JoinGroup`."""
        assert self.request_type is not None
        return self.request_type.__name__.removesuffix("Request")

    def next_request_id(self) -> int:
        """Return a new id: it tells a late response to an earlier attempt from this one's."""
        self._last_request_id += 1
        return self._last_request_id

    def due_at(self, *, sends_at_once: bool) -> int | None:
        """Return when the next request may be sent (monotonic ms); None while one is in flight.

        sends_at_once: it does not wait for the heartbeat interval.
        """
        if self.in_flight is not None:
            return None
        # The backoff holds even for requests that do not wait for the interval, or a refused join
        # would be repeated without a pause.
        not_before_ms = self.backoff.not_before_ms
        return not_before_ms if sends_at_once else max(self.heartbeat_at_ms, not_before_ms)

    def find_coordinator(self) -> FindCoordinator:
        """Look the coordinator up, which is the request in flight then."""
        self.in_flight = lookup = FindCoordinator(self.next_request_id(), self._settings.group_id)
        return lookup

    def send(self, request: MembershipRequest, now: Instant) -> SendToCoordinator:
        """Send a request, which is in flight then; the next heartbeat is due in an interval."""
        self.request_type = type(request)
        self._sent_ms = now.mono_ms
        self.restart_interval(now)
        timeout_ms = self._settings.timeout_ms(request)
        self.in_flight = sent = SendToCoordinator(self.next_request_id(), request, timeout_ms)
        return sent

    def take_answered(self, request_id: int) -> FindCoordinator | SendToCoordinator | None:
        """Return the request in flight if it has this id, and have none in flight then.

        None: an earlier request was answered, which must not change anything.
        """
        answered = self.in_flight
        if answered is None or request_id != answered.request_id:
            return None
        self.in_flight = None
        return answered

    def interrupt(self, now: Instant) -> None:
        """Ignore the response to the request in flight; the next request is sent at once."""
        self.in_flight, self.heartbeat_at_ms = None, now.mono_ms
        self.backoff.reset_delay(now)

    def retry(self, now: Instant, free: int = 0) -> None:
        """Send the next request after a backoff alone, not at the end of the heartbeat interval.

        free: so many failures in a row cost no time.
        """
        self.backoff.record_failure(now, free)
        self.heartbeat_at_ms = now.mono_ms

    def restart_interval(self, now: Instant) -> None:
        """Send the next heartbeat in an interval from now."""
        self.heartbeat_at_ms = now.mono_ms + self.interval_ms

    def set_interval(self, interval_ms: int) -> None:
        """Change the heartbeat interval, which counts from the sending of the last request."""
        self.interval_ms = interval_ms
        self.heartbeat_at_ms = self._sent_ms + interval_ms

    def record_accepted(self, now: Instant, *, is_settled: bool = True) -> None:
        """Note that the last request was accepted. is_settled: it was asked for no rebalance."""
        self.accepted_ms, self._confirmed_ms = now.mono_ms, self._sent_ms
        if is_settled:
            self._settled_ms = self._sent_ms

    def may_have_been_removed(self, now: Instant, session_timeout_ms: int) -> bool:
        """Return whether the coordinator may have removed the member since the last contact.

        It may after a session timeout without contact, and after a rebalance timeout without a
        response that asked for no rebalance: REBALANCE_IN_PROGRESS prolongs the session, but not
        the deadline for the JoinGroup.
        """
        return (
            now.mono_ms - self._confirmed_ms > session_timeout_ms
            or now.mono_ms - self._settled_ms > self._settings.rebalance_timeout_ms
        )


class PollDeadline:
    """The time by which the owner has to poll again, or its member leaves (max.poll.interval.ms).

    at_ms: monotonic; None while the owner need not poll.
    """

    def __init__(self, limit_ms: int | None) -> None:
        """Begin without a deadline. limit_ms: None, and there will never be one."""
        self.at_ms: int | None = None
        self._limit_ms = limit_ms

    def restart(self, now: Instant) -> None:
        """Give the owner the whole interval: it has polled or subscribed."""
        self.at_ms = None if self._limit_ms is None else now.mono_ms + self._limit_ms

    def stop(self) -> None:
        """Have no deadline until the next `restart`."""
        self.at_ms = None
