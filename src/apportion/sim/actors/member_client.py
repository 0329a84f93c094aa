"""A process that sends the queries of its group member, and of the member's assignor."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from apportion.errors import Refused
from apportion.member.cluster_queries.groups import FindCoordinatorQuery
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
from apportion.sim.actors.requests import run_requests, sending
from apportion.sim.kernel.client import Client
from apportion.sim.kernel.clock import Script, ScriptRunner
from apportion.sim.kernel.network import RequestChannel

V = TypeVar("V")


class StepMember(NamedTuple):
    """Effect: step the member over the answer to its assignor's query."""

    event: Event


class MemberClient(Client):
    """A client with a group member, and a connection for each kind of the member's requests."""

    group = ""

    def open_member_channels(self) -> None:
        """Begin without a connection: each kind has its own, as a JoinGroup may wait long."""
        self.heartbeat_channel = RequestChannel(self, self.link, self.broker)
        self.computation_channel = RequestChannel(self, self.link, self.broker)
        self.metadata_channel = RequestChannel(self, self.link, self.broker)
        self.assignor_channel = RequestChannel(self, self.link, self.broker)
        self._assignor_runner: ScriptRunner | None = None
        self._assignor_metadata = MetadataCache()

    @property
    def channels(self) -> tuple[RequestChannel, ...]:
        """The connections that end with the process."""
        return (
            self.heartbeat_channel,
            self.computation_channel,
            self.work_channel,
            self.metadata_channel,
            self.assignor_channel,
        )

    def end_incarnation(self) -> None:
        """End this incarnation of the process, and its assignor's query."""
        super().end_incarnation()
        self.cancel_assignor_query()

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
        self.cancel_assignor_query()
        self.assignor_channel.close()
        runner = ScriptRunner(
            self.answer_assignor(action), partial(self.perform_for_assignor, self.assignor_channel)
        )
        self._assignor_runner = runner
        runner.resume(0)

    def cancel_assignor_query(self) -> None:
        """Wait for no answer to the query of the member's assignor any more."""
        runner, self._assignor_runner = self._assignor_runner, None
        if runner is not None:
            runner.cancel()

    def answer_assignor(self, action: QueryCluster) -> Script:
        """Answer a query of the member's assignor, by the rule of `member.leader_queries`."""
        event = yield from run_requests(
            self, answer_query(action, self.group, self._assignor_metadata)
        )
        yield StepMember(event)

    def perform_for_assignor(
        self, channel: RequestChannel, runner: ScriptRunner, effect: Any, turn: int
    ) -> None:
        """Start a request or wait of the script that answers the assignor, or step the member."""
        if type(effect) is StepMember:
            # The script has to stand still: this step may end the process, and the script with it.
            self.step_member(effect.event)
            runner.resume(turn)
        else:
            self.perform_on(channel, runner, effect, turn)

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
        channel.send(send.body, send.version, send.timeout_ms, receive)
