"""The requests that a member's machine asks for, each sent once; its outcome is the next event.

The requests block, so `GroupMembership` makes them on threads beside the machine's own. Retries are
the machine's: it asks again when its backoff is over.
"""

import logging
from collections.abc import Callable
from typing import Any

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.outage import Outage
from apportion.drive.interrupts import interrupt_program
from apportion.errors import Refused
from apportion.machine import Tick
from apportion.member.leader_queries import answer_query
from apportion.member.membership import (
    Answered,
    CoordinatorFound,
    Event,
    FetchMetadata,
    FindCoordinator,
    MetadataFetched,
    QueryCluster,
    RunAssignor,
    SendToCoordinator,
    Unanswered,
)
from apportion.member.queries import FetchCommitted, ListOffsets
from apportion.member.time_limits import within
from apportion.rules import run_rule

log = logging.getLogger("apportion.session")
Request = FindCoordinator | SendToCoordinator | FetchMetadata | QueryCluster | RunAssignor


class MemberRequests:
    """The requests of one member."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        response_timeout_ms: int,
        before_join: Callable[[CoordinatorFound], Event] | None,
    ) -> None:
        """Keep the group and the client's cluster; send nothing yet.

        before_join: called before a request to join may be sent; see `GroupMembership`.
        """
        self._cluster = cluster
        self._group_id = group_id
        self._response_timeout_ms = response_timeout_ms
        self._before_join = before_join
        self._outage = Outage(log, group_id)

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
                    return _run_assignor(request)
        except Refused as refused:
            return Unanswered(request.request_id, refused.why, refused.code)
        except Disconnected as error:
            return Unanswered(request.request_id, str(error))

    def _find_coordinator(self, request: FindCoordinator) -> Event:
        """Look up the group's coordinator; ask `before_join` what the member gets to know."""
        # The machine asks because the coordinator it knew has moved or does not answer.
        self._cluster.forget_coordinator(request.group_id)
        try:
            self._cluster.find_coordinator(request.group_id, timeout_ms=self._response_timeout_ms)
        except Disconnected as error:
            return self._report_unreachable(request, error)
        self._outage.record_success("a broker answers again")
        found = CoordinatorFound(request.request_id)
        return found if self._before_join is None else self._before_join(found)

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

        def answer(query: Any) -> Any:
            match query:
                case ListOffsets(partitions, timestamp):
                    return self._cluster.list_offsets(partitions, timestamp)
                case FetchCommitted(partitions):
                    return self._cluster.committed_offsets(self._group_id, partitions)
            return self._cluster.answer(query)

        rule = answer_query(action, self._cluster.metadata)
        return run_rule(within(rule, self._cluster.timeout_ms), answer)


def _run_assignor(request: RunAssignor) -> Event:
    """Run an assignor; return its outcome, or an event that changes nothing if it ends the program.

    The member lives on until its owner, whom the signal ends, has left the group.
    """
    try:
        return request.perform()
    except KeyboardInterrupt:
        interrupt_program()
        return Tick()
