"""A member's link to its coordinator, and the deadline by which its owner has to poll.

A member has one request to its coordinator in flight. Before the first one, and after an error that
says so, it looks the coordinator up (FindCoordinator). Failed requests are repeated with
exponential backoff. The contents of requests, and the effects of responses, are the protocol's.
"""

from apportion.member.backoff import Backoff
from apportion.member.membership import (
    Answered,
    CoordinatorFound,
    FindCoordinator,
    MembershipRequest,
    SendToCoordinator,
    Unanswered,
)
from apportion.member.settings import MemberSettings


class CoordinatorLink:
    """The request in flight of one member, and when the next one is due.

    is_known: the coordinator was looked up, and no error has said since that it is another one.
    heartbeat_at_ms: when the next heartbeat is due. sent_at_ms: when the last request was sent
    (both monotonic).
    """

    def __init__(self, settings: MemberSettings) -> None:
        """Begin without a known coordinator."""
        self.in_flight: FindCoordinator | SendToCoordinator | None = None
        self.is_known = False
        self.backoff = Backoff(
            settings.backoff_ms, settings.backoff_limit_ms, settings.wait_limit_ms
        )
        self.heartbeat_at_ms = self.sent_at_ms = 0
        self._group_id = settings.group_id
        self._last_request_id = 0

    def next_request_id(self) -> int:
        """Return a new id: it tells a late response to an earlier attempt from this one's."""
        self._last_request_id += 1
        return self._last_request_id

    def due_at(self, *, sends_at_once: bool) -> int:
        """Return when the next request may be sent (monotonic ms).

        sends_at_once: it does not wait for the heartbeat interval.
        """
        # The backoff holds even for requests that do not wait for the interval, or a refused join
        # would be repeated without a pause.
        not_before_ms = self.backoff.not_before_ms
        return not_before_ms if sends_at_once else max(self.heartbeat_at_ms, not_before_ms)

    def find_coordinator(self) -> FindCoordinator:
        """Look the coordinator up, which is the request in flight then."""
        self.in_flight = lookup = FindCoordinator(self.next_request_id(), self._group_id)
        return lookup

    def send(
        self, request: MembershipRequest, timeout_ms: int, *, now_ms: int, interval_ms: int
    ) -> SendToCoordinator:
        """Send a request, which is in flight then; the next heartbeat is due in `interval_ms`."""
        self.sent_at_ms, self.heartbeat_at_ms = now_ms, now_ms + interval_ms
        self.in_flight = sent = SendToCoordinator(self.next_request_id(), request, timeout_ms)
        return sent

    def take_answered(
        self, event: CoordinatorFound | Answered | Unanswered
    ) -> FindCoordinator | SendToCoordinator | None:
        """Return the request in flight if `event` answers it, and have none in flight then.

        None: the event answers an earlier request, so it must not change anything.
        """
        answered = self.in_flight
        if answered is None or event.request_id != answered.request_id:
            return None
        self.in_flight = None
        return answered


class PollDeadline:
    """The time by which the owner has to poll again, or its member leaves (max.poll.interval.ms).

    at_ms: monotonic; None while the owner need not poll.
    """

    def __init__(self, limit_ms: int | None) -> None:
        """Begin without a deadline. limit_ms: None, and there will never be one."""
        self.at_ms: int | None = None
        self._limit_ms = limit_ms

    def restart(self, now_ms: int) -> None:
        """Give the owner the whole interval: it has polled or subscribed."""
        self.at_ms = None if self._limit_ms is None else now_ms + self._limit_ms

    def stop(self) -> None:
        """Have no deadline until the next `restart`."""
        self.at_ms = None

    def is_over(self, now_ms: int) -> bool:
        """Return whether the owner has exceeded max.poll.interval.ms."""
        return self.at_ms is not None and now_ms >= self.at_ms
