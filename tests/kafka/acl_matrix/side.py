"""One broker of the matrix: its users and their ACLs, and its answers as plain values."""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from apportion.client.connection import BrokerConnection, Disconnected
from apportion.errors import Code
from apportion.security.acls import AclBinding
from apportion.security.client_security import PasswordLogin
from apportion.wire.table import decode_response, encode_request
from tests.kafka.acl_cluster import connection_to
from tests.kafka.acl_matrix.group_requests import SESSION_MS, beat, commit, join
from tests.kafka.acl_matrix.values import (
    ALL,
    CLASSIC,
    GROUP,
    HERE,
    MINE,
    NO_ID,
    OTHER,
    OTHERS,
    STRANGE_ID,
    Case,
    Grant,
)
from tests.kafka.conftest import until
from tests.messages import request
from tests.node.acl_requests import EVERY_ACL, creating, deleted, deleting
from tests.node.config_requests import incremental

Plain = Any
PATIENCE_MS = 30_000
SUPER = "alice"
MARKER, MARKER_USER = "marker-of-acls", "bob"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OWN = (
    *("throttle_time_ms", "cluster_id", "controller_id", "node_id", "host", "port", "producer_id"),
    *("brokers", "node_endpoints", "finalized_features_epoch", "heartbeat_interval_ms"),
)
"""Fields that say who answers, or what this broker happens to have."""
EVERY_SHARD = 400
"""So many groups meet every partition of the offsets topic."""
AT_ONCE = 1_000
"""ACLs in one request."""


class Users:
    """Which user has which grants: the same on both brokers."""

    def __init__(self) -> None:
        """Know nobody yet."""
        self.by_grants: dict[tuple[Grant, ...], str] = {}

    def having(self, grants: tuple[Grant, ...]) -> str:
        """The user who has just these."""
        return self.by_grants.setdefault(grants, f"u{len(self.by_grants)}")


@dataclass(slots=True)
class AclSide:
    """A broker with a listener where users log in by PLAIN."""

    name: str
    bootstrap: str
    password: str
    token: str = ""
    ids: dict[str, bytes] = field(default_factory=dict)
    connections: dict[str, BrokerConnection] = field(default_factory=dict)
    strangers: frozenset[str] = frozenset()
    """The topics and groups of other tests, which are not shown."""

    def call(
        self,
        asked: Any,
        version: int | None = None,
        user: str = SUPER,
        *,
        timeout_ms: int = PATIENCE_MS,
    ) -> Any:
        """The answer that the user gets."""
        connection = self.connections.get(user)
        if connection is None:
            login = PasswordLogin("PLAIN", user, self.password)
            connection = self.connections[user] = connection_to(self.bootstrap, login)
        try:
            return connection.call(asked, timeout_ms=timeout_ms, version=version)
        except Disconnected:
            del self.connections[user]
            raise

    def post(self, asked: Any, version: int, user: str) -> Callable[[], Any]:
        """Send a request on a connection that is there; what reads its answer, if it has one."""
        connection = self.connections[user]
        connection._socket.sendall(encode_request(asked, version, 0, "matrix"))
        return lambda: decode_response(type(asked), version, connection._read_frame())[1]

    def close(self) -> None:
        """The connections are closed."""
        for connection in self.connections.values():
            connection.close()
        self.connections = {}

    def note_strangers(self) -> None:
        """What is there now is of other tests."""
        every = request("Metadata", topics=None, allow_auto_topic_creation=False)
        topics, groups = self.call(every).topics, self.call(request("ListGroups")).groups
        self.strangers = frozenset(each.name for each in topics) | frozenset(
            each.group_id for each in groups
        )

    def topic_id(self, name: str) -> bytes:
        """The id of a topic; one that no topic has for a name that is not there."""
        return self.ids.get(name, STRANGE_ID)

    def make_topics(self, names: Iterable[str], partitions: int = 2) -> None:
        """These topics are there, and their ids are known."""
        wanted = list(names)
        sizes = {"num_partitions": partitions, "replication_factor": 1}
        topics = [{"name": name} | sizes for name in wanted]
        made = self.call(request("CreateTopics", topics=topics, timeout_ms=PATIENCE_MS))
        assert {each.error_code for each in made.topics} <= {0, 36}, made
        self.learn(wanted)

    def learn(self, names: Iterable[str]) -> None:
        """Wait until the broker shows these topics with leaders."""
        wanted = [{"name": name} for name in names]
        asked = request("Metadata", topics=wanted, allow_auto_topic_creation=False)

        def have_leaders() -> bool:
            topics = self.call(asked, 12).topics
            self.ids |= {topic.name: bytes(topic.topic_id) for topic in topics}
            return all(
                not topic.error_code and all(each.leader_id >= 0 for each in topic.partitions)
                for topic in topics
            )

        until(have_leaders)

    def make_groups(self) -> None:
        """The lasting groups have members, which need no heartbeat for ten minutes, and offsets."""
        self.wait_for_coordinator()
        self.lengthen_sessions(MINE, OTHERS)
        self.token = ""
        for group, names in ((MINE, (HERE, OTHER)), (OTHERS, (HERE,))):
            joined = self.call(beat(group, 0, subscribed_topic_names=names)(self), 1)
            assert joined.error_code == 0, joined
            epoch = {"generation_id_or_member_epoch": joined.member_epoch}
            self.call(commit(group, 9, names, member_id=joined.member_id, **epoch)(self), 9)
        static = join(CLASSIC, "", group_instance_id="one")(self)
        generation = self.call(static, 5)
        assert generation.error_code == 0, generation
        synced = request(
            "SyncGroup",
            group_id=CLASSIC,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id="one",
            assignments=(),
        )
        assert self.call(synced, 4).error_code == 0

    def lengthen_sessions(self, *groups: str) -> None:
        """The members of these groups need no heartbeat for ten minutes."""
        long = (("consumer.session.timeout.ms", "=", str(SESSION_MS)),)
        altered = self.call(incremental(*(("group", group, long) for group in groups)))
        assert {each.error_code for each in altered.responses} == {0}, altered

    def wait_for_producer_ids(self) -> None:
        """The broker has producer ids to give away."""
        asked = request("InitProducerId", transactional_id=None, transaction_timeout_ms=1_000)
        until(lambda: not self.call(asked).error_code)

    def remove_groups(self) -> None:
        """No group has a member any more, or is there."""
        for group in (MINE, OTHERS):
            self.token = ""
            self.call(beat(group, -1)(self), 1)
        static = {"member_id": "", "group_instance_id": "one"}
        self.call(request("LeaveGroup", group_id=CLASSIC, members=[static]), 4)
        listed = self.call(request("ListGroups"), 4).groups
        self.call(request("DeleteGroups", groups_names=[each.group_id for each in listed]), 2)

    def wait_for_coordinator(self) -> None:
        """Groups have a coordinator that has read its log."""
        unread = [f"no-group-{number}" for number in range(EVERY_SHARD)]

        def have_read() -> bool:
            while unread:
                found = self.call(request("FindCoordinator", coordinator_keys=unread[-1:]), 6)
                described = self.call(request("DescribeGroups", groups=unread[-1:]), 5).groups[0]
                if found.coordinators[0].error_code or described.error_code:
                    return False
                unread.pop()
            return True

        until(have_read, limit_s=60)

    def grant(self, users: Users) -> None:
        """Give each user what is his, and wait until the broker goes by it."""
        self.revoke_all()
        self.add_acls(
            [each.of(user) for grants, user in users.by_grants.items() for each in grants]
        )

    def add_acls(self, acls: list[AclBinding]) -> None:
        """Add these, and wait until the broker goes by them."""
        marker = f"{MARKER}-{time.time_ns()}"
        everything = [*acls, Grant(GROUP, marker, ALL).of(MARKER_USER)]
        for start in range(0, len(everything), AT_ONCE):
            results = self.call(creating(*everything[start : start + AT_ONCE])).results
            assert {each.error_code for each in results} == {0}, results
        until(lambda: self.may_describe(marker, MARKER_USER))

    def may_describe(self, group: str, user: str) -> bool:
        """Whether the broker shows the user a group."""
        (shown,) = self.call(request("DescribeGroups", groups=(group,)), 5, user).groups
        return int(shown.error_code) != Code.GROUP_AUTHORIZATION_FAILED

    def state(self, group: str) -> str:
        """The state of a group, as the super user is told it."""
        (shown,) = self.call(request("DescribeGroups", groups=(group,)), 5).groups
        said: str = shown.group_state
        return said

    def revoke_all(self) -> None:
        """Nobody has any ACL."""
        deleted(self.call(deleting(EVERY_ACL)))

    def play(self, case: Case, user: str) -> Plain:
        """What the user is answered."""
        try:
            answer = shown(self, self.call(case.request(self), case.version, user))
        except Disconnected as error:
            return f"no answer: {str(error).rpartition(':')[2].strip()}"
        if case.after is not None:
            self.call(case.after(self))
        return answer


def shown(side: AclSide, value: Any, name: str = "") -> Plain:
    """An answer as plain values: ids as names, records as their size, lists in order of content."""
    if hasattr(value, "__fields__"):
        return {
            each.name: shown(side, getattr(value, each.name), each.name)
            for each in value.__fields__
            if each.name not in OWN
        }
    if name in ("topic_id", "topic_ids"):
        known = {topic_id: topic for topic, topic_id in side.ids.items()}
        return {NO_ID: "-", STRANGE_ID: "strange"}.get(
            bytes(value), known.get(bytes(value), "some id")
        )
    if name in ("api_keys", "supported_features", "finalized_features"):
        return f"{'some' if value else 'no'} {name}"
    if name in ("configs", "aborted_transactions"):
        return f"{'some' if value else 'no'} {name}"
    if isinstance(value, tuple):
        kept = [each for each in value if not is_strange(side, each)]
        return sorted((shown(side, each, name) for each in kept), key=repr)
    if isinstance(value, bytes | memoryview):
        return f"{len(value)} bytes"
    return UUID.sub("?", value) if isinstance(value, str) else value


def is_strange(side: AclSide, value: Any) -> bool:
    """Whether it is about a topic of Kafka's own, or a topic or group of another test."""
    names = (getattr(value, each, "") for each in ("name", "group_id", "resource_name"))
    return any(str(name).startswith("__") or name in side.strangers for name in names)
