"""A shard with a classic group, and classic members under the names that a script gives them."""

from collections.abc import Sequence
from typing import Any

from apportion.errors import Code
from apportion.machine import Caller
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from tests.coord.shard_driver import HERE, ShardDriver


class ClassicShardDriver(ShardDriver):
    """A shard whose group "g" is a classic one."""

    @property
    def group(self) -> Any:
        return self.shard.ledger.classic_group_or_none("g")


class ScriptedClient:
    """One client: what it is, and the id and generation that it knows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.instance_id: str | None = None
        self.version = 9
        self.protocols: tuple[tuple[str, bytes | memoryview], ...] = (("range", b"range"),)
        self.protocol_type = "consumer"
        self.protocol = "range"  # the one that was chosen
        self.session_ms = 10_000
        self.rebalance_ms = 20_000

    @property
    def caller(self) -> Caller:
        return Caller(self.name, HERE.host)

    def joining(self, group_id: str = "g") -> JoinGroupRequest:
        protocols = tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in self.protocols
        )
        return JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=protocols,
        )

    def syncing(
        self, assignments: Sequence[tuple[str, bytes | memoryview]] = ()
    ) -> SyncGroupRequest:
        given = tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments
        )
        return SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            assignments=given,
        )

    def beating(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def leaving(self) -> LeaveGroupRequest:
        return LeaveGroupRequest(
            group_id="g",
            members=(MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id),),
        )

    def apply_join(self, answer: JoinGroupResponse) -> None:
        """The client knows what a JoinGroupResponse says."""
        if answer.error_code in (Code.NONE, Code.MEMBER_ID_REQUIRED):
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name or self.protocol


TOO_LONG = "x" * 32768


def join_and_sync(
    driver: ClassicShardDriver,
    client: ScriptedClient,
    assignment: bytes | memoryview = b"all",
    version: int = 9,
) -> ScriptedClient:
    """The client is the only member of a stable group."""
    ask(driver, client, client.joining(), version)
    if client.generation < 0 and client.member_id:
        ask(driver, client, client.joining(), version)
    driver.advance(0)
    client.apply_join(driver.responses.pop()[1])
    driver.responses.clear()
    driver.ask(client.syncing([(client.member_id, assignment)]), 5)
    driver.responses.clear()
    return client


def ask(
    driver: ClassicShardDriver,
    client: ScriptedClient,
    request: JoinGroupRequest | SyncGroupRequest,
    version: int = 9,
) -> Any:
    """The answer to the client's request, if it has one."""
    driver.responses.clear()
    driver.ask(request, version, client.caller)
    answers = [answer for _, answer in driver.responses]
    if answers and isinstance(answers[0], JoinGroupResponse):
        client.apply_join(answers[0])
    return answers[0] if answers else None


def commit(driver: ClassicShardDriver, client: ScriptedClient) -> Code:
    """The code of a commit of foo-0 by the client."""
    [code] = driver.commit(
        client.generation,
        {("foo", 0): 1},
        client.member_id,
        group_instance_id=client.instance_id,
    )
    return Code(code)


def subscription(*names: str) -> bytes:
    return consumer_serde.encode(ConsumerProtocolSubscription(topics=names, user_data=None))
