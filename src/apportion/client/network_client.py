"""Requests to the brokers of a cluster: connections, metadata, leaders and coordinators.

All of these are fetched on demand, cached, and forgotten when a response shows that they are wrong.
`call` sends a request once and never retries; the rules that `run` runs decide that, by
`member/reactions.py` and `member/time_limits.py`. Thread-safe: each call has a connection to
itself, taken from a pool.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from apportion.client.bootstrap import addresses
from apportion.client.connection import BrokerConnection, Disconnected, Misrouted
from apportion.client.connection_security import ConnectionSecurity
from apportion.drive.clocks import now
from apportion.member.broker_order import BrokerOrder, HostAndPort, SendToAddress
from apportion.member.cluster_queries.groups import FindCoordinatorQuery
from apportion.member.cluster_queries.query import GroupQuery
from apportion.member.cluster_queries.retries import RecordInterruption, Send
from apportion.member.cluster_queries.topics import Leader, TopicDescription
from apportion.member.fresh_connection import WantedBroker
from apportion.member.metadata_cache import MetadataCache
from apportion.member.partition_leaders import SendToLeader
from apportion.member.settings import CLIENT_ID, REQUEST_TIMEOUT_MS
from apportion.member.time_limits import (
    Pause,
    ReadClock,
    RetryDeadline,
    metadata_limit_ms,
    within,
)
from apportion.rules import Rule, run_rule
from apportion.security.client_security import PLAINTEXT, ClientSecurity
from apportion.topics import TopicId, TopicIdPartition, Topics

# A task of Spark's reads without a membership.
if TYPE_CHECKING:
    from apportion.member.membership import MemberAssignment

CONNECT_TIMEOUT_MS = 5_000
V = TypeVar("V")


class NetworkClient:
    """The brokers of one cluster, the idle connections to them, and cached metadata."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = CLIENT_ID.default,
        timeout_ms: int = REQUEST_TIMEOUT_MS.default,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Keep the bootstrap addresses; connect to nothing yet.

        timeout_ms: the default for one request, and for an operation with its retries.
        Raises ValueError for certificates and keys that cannot be loaded.
        """
        self.timeout_ms = timeout_ms
        self._security = ConnectionSecurity(security)
        self._bootstrap = addresses(bootstrap)
        self._client_id = client_id
        self._lock = threading.Lock()
        self._idle: dict[HostAndPort, list[BrokerConnection]] = {}
        self._coordinators: dict[str, int] = {}
        self.metadata = MetadataCache()
        self._order = BrokerOrder()
        self._closed = False
        self._interruptions = 0

    @property
    def bootstrap_servers(self) -> str:
        """The brokers that the client was given, as in "a:9092,b:9092"."""
        return ",".join(f"{host}:{port}" for host, port in self._bootstrap)

    @property
    def interruptions(self) -> int:
        """Return how often a coordinator may have started again: see `MembershipSnapshot`."""
        return self._interruptions

    def close(self) -> None:
        """Close every idle connection; one in use is closed by its user."""
        with self._lock:
            self._closed = True
            # The lock guards the table alone; closing a socket may block, so it comes after.
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def call(
        self,
        request: Any,
        *,
        node: int | None = None,
        coordinator: str | None = None,
        timeout_ms: int | None = None,
        version: int | None = None,
    ) -> Any:
        """Send one request to a node, a group's coordinator or any broker; return the response.

        Raises Disconnected if there is none. Error codes in the response are for the caller.
        version: the newest to use, where the broker has it; None for its newest.
        """
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        if coordinator is not None:
            node = self.find_coordinator(coordinator, timeout_ms=timeout_ms)
        # Metadata, FindCoordinator and ApiVersions may go to any broker (KIP-35).
        if node is None:
            return self._send_to_any(request, timeout_ms, version)
        if (address := self.metadata.nodes.get(node)) is None:
            # The group has moved if its broker is gone: the next call finds where.
            if coordinator is not None:
                self._record_interruption(coordinator, has_moved=True)
            raise Disconnected(f"broker {node} is not in the cluster's metadata")
        return self._send(address, request, timeout_ms, version)

    def run(self, rule: Rule[V], *, node: int | None = None, timeout_ms: int | None = None) -> V:
        """Run a rule that sends queries, with retries for `timeout_ms`; return its result.

        node: where to send them; None: to each group's coordinator, the others to any broker.
        """
        limit_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        return run_rule(within(rule, limit_ms), lambda query: self.answer(query, node))

    def answer(
        self,
        query: Send | SendToLeader | ReadClock | Pause | RecordInterruption,
        node: int | None = None,
    ) -> Any:
        """Answer one query of a rule that has its time from `member/time_limits.py`."""
        match query:
            case ReadClock():
                return now().mono_ms
            case Pause(pause_ms):
                return time.sleep(pause_ms / 1000)
            case RecordInterruption(group_id, has_moved):
                return self._record_interruption(group_id, has_moved=has_moved)
            case SendToLeader(leader, asked, timeout_ms):
                response = self.call(asked.request(), node=leader, timeout_ms=timeout_ms)
                return asked.results(response)
        sent = query.query
        response = self.call(
            sent.request(),
            node=node,
            coordinator=sent.group_id if isinstance(sent, GroupQuery) else None,
            timeout_ms=query.timeout_ms,
            version=sent.version,
        )
        return sent.parse(response)

    # connections

    def _send(
        self, address: HostAndPort, request: Any, timeout_ms: int, version: int | None
    ) -> Any:
        """Send one request on an idle connection to the broker, or on a new one.

        A connection whose call has failed is closed; any other one is kept for the next request.
        """
        with self._lock:
            idle = self._idle.setdefault(address, [])
            # The most recently used one: the others may have been closed by the broker's
            # connections.max.idle.ms.
            connection = idle.pop() if idle else None
        wanted = self._wanted_at(address) if connection is None else None
        try:
            if connection is None:
                connection = BrokerConnection(
                    *address,
                    self._client_id,
                    min(timeout_ms, CONNECT_TIMEOUT_MS),
                    security=self._security,
                    wanted=wanted,
                )
            if version is not None:
                version = min(version, connection.version_of(type(request).__key__))
            response = connection.call(request, timeout_ms=timeout_ms, version=version)
        except Disconnected as error:
            self._forget_broker(address)
            # Unless another thread that met it, too, has begun again since, and knows better.
            if isinstance(error, Misrouted) and self._wanted_at(address) == wanted:
                self._rebootstrap()
            raise
        # Also KeyboardInterrupt: a response that is still under way would answer the next request
        # on this connection.
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        self._order.record_success(address)
        with self._lock:
            if not self._closed:
                self._idle.setdefault(address, []).append(connection)
                return response
        # `close` was called meanwhile: nobody will use this connection again.
        connection.close()
        return response

    def _wanted_at(self, address: HostAndPort) -> WantedBroker | None:
        """Return the broker that metadata name at this address; None if any broker will do."""
        cluster_id = self.metadata.cluster_id
        nodes = self.metadata.nodes.items()
        node = next((node for node, known in nodes if known == address), None)
        return None if cluster_id is None or node is None else WantedBroker(cluster_id, node)

    def _forget_broker(self, address: HostAndPort) -> None:
        """Close the idle connections to a broker that has not answered; forget what it coordinates.

        Another broker is asked first from now on.

        The other connections are likely broken. Its groups may have moved if it went down, and if
        it is back, it has given their members whole sessions: also where only a request for
        metadata meets the broken connection, and the next one to the coordinator a new one.
        """
        self._order.record_failure(address)
        with self._lock:
            idle = self._idle.pop(address, [])
            groups = [
                group_id
                for group_id, node in self._coordinators.items()
                if self.metadata.nodes.get(node) == address
            ]
        for connection in idle:
            connection.close()
        for group_id in groups:
            self._record_interruption(group_id, has_moved=True)

    def _rebootstrap(self) -> None:
        """Forget every broker but the bootstrap servers: the known addresses are outdated.

        All of them may be: the rollout that gave one address to another broker goes on.
        """
        self.metadata.forget_brokers()
        with self._lock:
            idle, self._idle = self._idle, {}
            groups = tuple(self._coordinators)
        for connections in idle.values():
            for connection in connections:
                connection.close()
        for group_id in groups:
            self._record_interruption(group_id, has_moved=True)

    def _send_to_any(self, request: Any, timeout_ms: int, version: int | None) -> Any:
        """Send the request to the first broker that answers; `timeout_ms` is for all of them."""
        # The bootstrap servers last: they help when every broker of the metadata has moved.
        rule = self._order.send_to_any(
            [*self.metadata.nodes.values(), *self._bootstrap], timeout_ms
        )

        def answer(query: SendToAddress | ReadClock) -> Any:
            match query:
                case SendToAddress(address, limit_ms):
                    deadline = RetryDeadline(now().mono_ms, limit_ms)
                    try:
                        return self._send(address, request, limit_ms, version)
                    except Misrouted:
                        if address not in self._bootstrap:
                            raise
                    # The broker that was known there has left, and as a bootstrap server any does.
                    return self._send(address, request, deadline.left_ms(now().mono_ms), version)
            return self.answer(query)

        return run_rule(rule, answer)

    # coordinators

    def find_coordinator(self, group_id: str, *, timeout_ms: int | None = None) -> int:
        """Return the node id of the group's coordinator, by FindCoordinator if it is unknown.

        Called before every request to a coordinator; `forget_coordinator` drops the cached id after
        NOT_COORDINATOR. Raises Refused or Disconnected.
        """
        # Kept until a response says NOT_COORDINATOR or the connection breaks; FindCoordinator for
        # every commit would double the requests.
        known = self._coordinators.get(group_id)
        if known is not None:
            return known
        query = FindCoordinatorQuery(group_id)
        coordinator = query.parse(self.call(query.request(), timeout_ms=timeout_ms))
        with self._lock:
            # The coordinator may be a broker that no Metadata response has named yet.
            self.metadata.nodes[coordinator.node_id] = (coordinator.host, coordinator.port)
            self._coordinators[group_id] = coordinator.node_id
        return coordinator.node_id

    def forget_coordinator(self, group_id: str) -> None:
        """Forget the group's coordinator, so that the next call finds it anew."""
        with self._lock:
            self._coordinators.pop(group_id, None)

    def _record_interruption(self, group_id: str, *, has_moved: bool) -> None:
        """Count that a group's coordinator may have started again, and forget one that has moved.

        See `MembershipSnapshot`.
        """
        with self._lock:
            self._interruptions += 1
        if has_moved:
            self.forget_coordinator(group_id)

    # metadata

    def topics(
        self, names: Iterable[str], *, fresh: bool = False, timeout_ms: int | None = None
    ) -> Topics:
        """Return the named topics that exist, by Metadata if one is unknown or if `fresh`.

        Never creates a topic. Raises Refused for an error other than absence, Disconnected if no
        broker answers.
        """
        return self._run_metadata(self.metadata.topics(names, fresh=fresh), timeout_ms)

    def resolve_names(
        self, partitions: "MemberAssignment", timeout_ms: int | None = None
    ) -> tuple[TopicIdPartition, ...]:
        """Return an assignment's partitions with their topics' names, in order.

        For the owner of a membership (`Consumer`, or a Spark query): KIP-848 assigns partitions by
        topic id. Those of topics that the cluster does not know are left out. Asks the cluster only
        for ids that it has not seen.
        """
        return self._run_metadata(self.metadata.resolve_names(partitions), timeout_ms)

    def leader(self, partition: TopicIdPartition, *, timeout_ms: int | None = None) -> Leader:
        """Return the partition's leader. Raises as `MetadataCache.find_leader` does."""
        return self._run_metadata(self.metadata.find_leader(partition), timeout_ms)

    def nodes(self) -> dict[int, HostAndPort]:
        """Fetch and return the addresses of the brokers by node id."""
        self._run_metadata(self.metadata.fetch(()))
        return dict(self.metadata.nodes)

    def look_up(
        self, names: Iterable[str], ids: Iterable[TopicId] = ()
    ) -> tuple[TopicDescription, ...]:
        """Fetch metadata of the topics of these names or ids, with their replicas' racks.

        For members with assignors: partition counts and racks for the leader's, names for one that
        is told of its assignment.
        """
        requested: tuple[str | TopicId, ...] = (*sorted(set(names)), *sorted(set(ids)))
        return self._run_metadata(self.metadata.fetch(requested)).descriptions

    def _run_metadata(self, rule: Rule[V], timeout_ms: int | None = None) -> V:
        """Run a rule that sends Metadata alone, which any broker answers soon."""
        default_ms = metadata_limit_ms(self.timeout_ms)
        return self.run(rule, timeout_ms=default_ms if timeout_ms is None else timeout_ms)
