"""A process that sends the queries of its group member, and of the member's assignor."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from apportion.errors import Refused
from apportion.member.cluster_queries.groups import FindCoordinatorQuery
from apportion.member.cluster_queries.offsets import OffsetFetchQuery
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.member.cluster_queries.topics import MetadataQuery
from apportion.member.leader_queries import answer_query
from apportion.member.membership import (
    CoordinatorFound,
    Event,
    FetchMetadata,
    FindCoordinator,
    MetadataFetched,
    QueryCluster,
    Unanswered,
)
from apportion.member.metadata_cache import MetadataCache
from apportion.member.partition_leaders import list_offsets
from apportion.member.queries import FetchCommitted, ListOffsets
from apportion.rules import rule_script
from apportion.sim.actors.requests import answer_request, ask, sending
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, Client
from apportion.sim.kernel.clock import Script, ScriptRunner
from apportion.sim.kernel.network import RequestChannel

ASSIGNOR_QUERY_TIMEOUT_MS = 10_000

V = TypeVar("V")


class MemberClient(Client):
    """A client with a group member, and a connection for each kind of the member's requests."""

    group = ""

    def open_member_channels(self) -> None:
        """Begin without a connection: each kind has its own, as a JoinGroup may wait long."""
        self.heartbeat_channel = RequestChannel(self, self.link, self.broker)
        self.computation_channel = RequestChannel(self, self.link, self.broker)
        self.metadata_channel = RequestChannel(self, self.link, self.broker)
        self._assignor_channel: RequestChannel | None = None
        self._assignor_metadata = MetadataCache()

    @property
    def channels(self) -> tuple[RequestChannel, ...]:
        """The connections that end with the process."""
        return (
            self.heartbeat_channel,
            self.computation_channel,
            self.work_channel,
            self.metadata_channel,
        )

    def step_member(self, event: Any) -> None:
        """Step the member over `event` and perform its actions."""
        raise NotImplementedError

    def fetch_metadata(self, fetch: FetchMetadata) -> None:
        """Send Metadata for the member."""
        self.metadata_channel.abandon_request()
        self._query(
            self.metadata_channel,
            MetadataQuery((*fetch.names, *fetch.ids)),
            fetch.request_id,
            lambda metadata: MetadataFetched(fetch.request_id, metadata.accepted().descriptions),
        )

    def find_coordinator(self, find: FindCoordinator) -> None:
        """Send FindCoordinator for the member, over its connection for heartbeats."""
        self.heartbeat_channel.abandon_request()
        self._query(
            self.heartbeat_channel,
            FindCoordinatorQuery(find.group_id),
            find.request_id,
            lambda _coordinator: CoordinatorFound(find.request_id),
        )

    def query_cluster(self, action: QueryCluster) -> None:
        """Send the query of the member's assignor, in place of an unanswered one."""
        if self._assignor_channel is not None:
            self._assignor_channel.close()
        self._assignor_channel = RequestChannel(self, self.link, self.broker)
        perform = partial(self.perform_on, self._assignor_channel)
        ScriptRunner(self._answer_assignor(action), perform).resume(0)

    def _answer_assignor(self, action: QueryCluster) -> Script:
        """Answer a query of the assignor, by the rule of `member.leader_queries`."""
        until_ms = self.mono_ms() + ASSIGNOR_QUERY_TIMEOUT_MS

        def answer(query: Any) -> Script:
            match query:
                case ListOffsets(partitions, timestamp):
                    rule = list_offsets(self._assignor_metadata, partitions, timestamp)
                    return rule_script(rule, answer)
                case FetchCommitted(partitions):
                    return ask(self, OffsetFetchQuery(self.group, partitions))
            return answer_request(self, query, until_ms)

        event = yield from rule_script(answer_query(action, self._assignor_metadata), answer)
        self.step_member(event)

    def _query(
        self,
        channel: RequestChannel,
        query: BrokerQuery[V],
        request_id: int,
        event: Callable[[V], Event],
    ) -> None:
        """Send a query for the member; give it the event of the result, or of the failure."""

        def receive(answer: Any) -> None:
            if answer is None:
                self.step_member(Unanswered(request_id, "nobody answered"))
                return
            try:
                result = event(query.parse(answer))
            except Refused as refused:
                result = Unanswered(request_id, refused.why, refused.code)
            self.step_member(result)

        send = sending(query)
        channel.send(send.body, send.version, REQUEST_TIMEOUT_MS, receive)
