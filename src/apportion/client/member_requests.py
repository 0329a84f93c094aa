"""The requests that a member's machine asks for, each sent once; its outcome is the next event.

The requests block, so `GroupMembership` makes them on threads beside the machine's own. Retries are
the machine's: it asks again when its backoff is over.
"""

import logging
from collections.abc import Callable
from typing import Any

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.network_client import RetryTimer
from apportion.client.outage import Outage
from apportion.errors import Refused
from apportion.member.group_claims import AnotherSink
from apportion.member.leader_queries import answer_query
from apportion.member.membership import (
    Answered,
    CoordinatorFound,
    Event,
    FetchMetadata,
    FindCoordinator,
    Leave,
    MetadataFetched,
    QueryCluster,
    RunAssignor,
    SendToCoordinator,
    Unanswered,
)
from apportion.member.queries import FetchCommitted, ListOffsets
from apportion.member.reactions import is_permanent
from apportion.rules import run_rule

log = logging.getLogger("apportion.session")
Request = FindCoordinator | SendToCoordinator | FetchMetadata | QueryCluster | RunAssignor


class MemberRequests:
    """The requests of one member. refusal: the error with which `before_join` kept it out."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        response_timeout_ms: int,
        before_join: Callable[[], None] | None,
    ) -> None:
        """Keep the group and the client's cluster; send nothing yet.

        before_join: called before a request to join is sent; see `GroupMembership`.
        """
        self._cluster = cluster
        self._group_id = group_id
        self._response_timeout_ms = response_timeout_ms
        self._before_join = before_join
        self._outage = Outage(log, group_id)
        self.refusal: AnotherSink | None = None

    def send(self, request: Request) -> Event:
        """Send a member's request, wait for its response, and return the event for the machine."""
        try:
            match request:
                case FindCoordinator():
                    return self._find_coordinator(request)
                case SendToCoordinator():
                    response = self._cluster.call(
                        request.request, coordinator=self._group_id, timeout_ms=request.timeout_ms
                    )
                    return Answered(request.request_id, response)
                case FetchMetadata():
                    return self._fetch_metadata(request)
                case QueryCluster():
                    return self._query_cluster(request)
                case RunAssignor():
                    return request.perform()
        except Refused as refused:
            return Unanswered(request.request_id, refused.why, refused.code)
        except Disconnected as error:
            return Unanswered(request.request_id, str(error))

    def _find_coordinator(self, request: FindCoordinator) -> Event:
        """Look up the group's coordinator; before a join also check the group's sink."""
        # The machine asks because the coordinator it knew has moved or does not answer.
        self._cluster.forget_coordinator(request.group_id)
        try:
            self._cluster.find_coordinator(request.group_id, timeout_ms=self._response_timeout_ms)
        except Disconnected as error:
            return self._report_unreachable(request, error)
        self._outage.record_success("a broker answers again")
        if self._before_join is not None:
            return self._check_before_join(self._before_join, request)
        return CoordinatorFound(request.request_id)

    def _report_unreachable(self, request: FindCoordinator, error: Disconnected) -> Event:
        """Return the event that no broker answers; the machine logs its text, with the remedy."""
        self._outage.begin()
        servers = self._cluster.bootstrap_servers
        listens = (
            f"one of {servers} listens" if "," in servers else f"a broker listens at {servers}"
        )
        return Unanswered(
            request.request_id,
            f"{error}; the member tries again until a broker answers or it is closed: see that "
            f"{listens} and can be reached from this host, or give other bootstrap servers",
        )

    def _check_before_join(self, check: Callable[[], None], request: FindCoordinator) -> Event:
        """Call `before_join` until it has had an answer; the member joins only after that."""
        try:
            check()
        except AnotherSink as refusal:
            self.refusal = refusal
            return Leave()
        except Disconnected as error:
            return Unanswered(request.request_id, str(error))
        except Refused as refused:
            if not is_permanent(refused):
                return Unanswered(request.request_id, refused.why)
            # An error that no retry mends does not keep the member out: the join will meet it.
        self._before_join = None
        return CoordinatorFound(request.request_id)

    def _fetch_metadata(self, request: FetchMetadata) -> Event:
        """Fetch topic metadata; a failure is an event without an error code."""
        try:
            return MetadataFetched(
                request.request_id, self._cluster.look_up(request.names, request.ids)
            )
        except (Disconnected, Refused) as error:
            # Without the code: an error of a topic's metadata must not end the membership.
            return Unanswered(request.request_id, str(error))

    def _query_cluster(self, action: QueryCluster) -> Event:
        """Answer a query of an assignor, by the rule of `member.leader_queries`."""
        retry_timer = RetryTimer(self._cluster.timeout_ms)

        def answer(query: Any) -> Any:
            match query:
                case ListOffsets(partitions, timestamp):
                    return self._cluster.list_offsets(partitions, timestamp)
                case FetchCommitted(partitions):
                    return self._cluster.committed_offsets(self._group_id, partitions)
            return self._cluster.answer(query, retry_timer)

        return run_rule(answer_query(action, self._cluster.metadata), answer)
