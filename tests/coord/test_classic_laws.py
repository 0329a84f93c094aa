"""The laws of a classic group: whatever clients do, honest or not, nobody is told twice, nothing is
forgotten, nothing hangs.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from apportion.coord.config import GroupSettings
from apportion.errors import Code
from apportion.machine import Ticket
from apportion.wire.group_states import GroupState
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.coord.classic_shard_driver import ClassicShardDriver, ScriptedClient, commit
from tests.coord.replays import Replays
from tests.coord.shard_driver import compacted, recovered, state_of, through_bytes, topics

PLAYERS = st.integers(0, 4)
SPOKEN = st.sampled_from(
    [
        ("range",),
        ("range", "sticky"),
        ("sticky", "range"),
        ("roundrobin", "range", "sticky"),
        ("sticky",),
    ]
)
ASKED = {Code.NONE, Code.MEMBER_ID_REQUIRED}


class ClassicGroupMachine(RuleBasedStateMachine):
    """Clients join, sync, beat, leave, hang up, start again and lie; time passes, the shard
    crashes, the log is cleaned.
    """

    @initialize(
        delay_ms=st.sampled_from([0, 100]),
        limit=st.sampled_from([100, 100, 100, 3]),
        rebalance_ms=st.sampled_from([20_000, 20_000, 0]),
    )
    def begin(self, delay_ms: int, limit: int, rebalance_ms: int) -> None:
        self.driver = ClassicShardDriver(
            GroupSettings(group_initial_rebalance_delay_ms=delay_ms, group_max_size=limit),
            topics(foo=3),
        )
        self.clients = [ScriptedClient(f"p{number}") for number in range(5)]
        for number in (0, 1, 2):
            self.clients[number].instance_id = f"i{number}"
        for client in self.clients:
            client.rebalance_ms = rebalance_ms
        self.waiting: dict[Ticket, ScriptedClient] = {}  # ticket -> client
        # ticket -> what it asked: who lies since is not meant by the answer
        self.requests: dict[int, Any] = {}
        self.spent: set[int] = set()
        self.replays = Replays()
        self.given: dict[tuple[int, str], bytes] = {}  # (generation, member id) -> assignment
        self.assignments = 0

    @rule(
        which=PLAYERS,
        version=st.sampled_from([3, 5, 8, 9]),
        names=SPOKEN,
        rebalance_ms=st.sampled_from([-1, 0, 6_000, 20_000]),
    )
    def join(self, which: int, version: int, names: tuple[str, ...], rebalance_ms: int) -> None:
        client = self.clients[which]
        client.rebalance_ms, client.version = rebalance_ms, version
        client.protocols = tuple((name, f"{client.name} {name}".encode()) for name in names)
        self.ask(client, client.joining(), version)

    @rule(which=PLAYERS, is_half=st.booleans())
    def sync(self, which: int, is_half: bool) -> None:
        client, group = self.clients[which], self.driver.group
        self.assignments += 1
        members = [] if group is None else list(group.live.members)
        given = [
            (member_id, f"{self.assignments}".encode())
            for member_id in members[:: 2 if is_half else 1]
        ]
        self.ask(client, client.syncing(given), 5)

    @rule(which=st.lists(PLAYERS, min_size=1, max_size=5, unique=True), rounds=st.integers(1, 4))
    def obey(self, which: list[int], rounds: int) -> None:
        """These do what an honest client does next, several times: they join until they are in a
        generation, and sync.
        """
        for client in [self.clients[number] for number in which] * rounds:
            group = self.driver.group
            known = None if group is None else group.live.members.get(client.member_id)
            if client in self.waiting.values():
                continue
            if known is None:
                client.member_id = ""
            if (
                known is None
                or group.live.generation != client.generation
                or group.live.state is GroupState.PREPARING_REBALANCE
            ):
                self.ask(client, client.joining(), client.version)
                # it was given an id
                if (
                    client.member_id
                    and client not in self.waiting.values()
                    and client.generation < 0
                ):
                    self.ask(client, client.joining(), client.version)
            else:
                self.sync(self.clients.index(client), False)
            self.wait(100)

    @rule(which=PLAYERS)
    def beat(self, which: int) -> None:
        self.ask(self.clients[which], self.clients[which].beating(), 4)

    @rule(which=PLAYERS)
    def leave(self, which: int) -> None:
        self.ask(self.clients[which], self.clients[which].leaving(), 5)

    @rule(instances=st.lists(st.sampled_from(["i0", "i1", "i2"]), min_size=1, max_size=3))
    def send_away(self, instances: list[str]) -> None:
        members = tuple(
            MemberIdentity(member_id="", group_instance_id=instance) for instance in instances
        )
        self.ask(self.clients[0], LeaveGroupRequest(group_id="g", members=members), 5)

    @rule(which=PLAYERS, joins=st.booleans())
    def start_again(self, which: int, joins: bool) -> None:
        client = self.clients[which]
        client.member_id, client.generation = "", -1
        if joins:
            self.ask(client, client.joining(), client.version)

    @rule(which=PLAYERS, other=PLAYERS)
    def lie(self, which: int, other: int) -> None:
        """The one speaks as the other from now on."""
        self.clients[which].member_id, self.clients[which].generation = (
            self.clients[other].member_id,
            self.clients[other].generation,
        )

    @rule(which=PLAYERS)
    def commit(self, which: int) -> None:
        commit(self.driver, self.clients[which])

    @rule(which=PLAYERS)
    def hang_up(self, which: int) -> None:
        gone = [ticket for ticket, client in self.waiting.items() if client is self.clients[which]]
        self.driver.hang_up(*gone)
        self.drop(gone)

    @rule(elapsed_ms=st.sampled_from([1, 100, 6_000, 10_000, 20_000, 300_000]))
    def wait(self, elapsed_ms: Any) -> None:
        self.driver.advance(elapsed_ms)
        self.listen()

    @rule(limit=st.sampled_from([100, 100, 100, 2]))
    def crash(self, limit: int) -> None:
        """All connections are lost; the next life may have another limit."""
        self.drop(list(self.waiting))
        self.driver.shard.settings = GroupSettings(group_max_size=limit)
        self.driver.crash()
        self.listen()

    @rule(keeps_tombstones=st.booleans())
    def clean(self, keeps_tombstones: bool) -> None:
        self.driver.log = compacted(self.driver.log, keeps_tombstones)

    def ask(self, client: ScriptedClient, request: Any, version: int) -> None:
        ticket = self.driver.ask(request, version, client.caller)
        self.waiting[ticket], self.requests[ticket] = client, request
        self.listen()

    def drop(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            del self.waiting[ticket]
            self.spent.add(ticket)

    def listen(self) -> None:
        """Everybody takes what it was told."""
        responses, self.driver.responses = self.driver.responses, []
        for ticket, answer in responses:
            assert ticket not in self.spent, "it was told twice, or nobody listens"
            client = self.waiting.pop(ticket)
            self.spent.add(ticket)
            code = getattr(answer, "error_code", 0)
            # a static member with a dynamic id
            assert code != Code.UNKNOWN_SERVER_ERROR or isinstance(answer, JoinGroupResponse)
            if isinstance(answer, JoinGroupResponse) and code in ASKED:
                client.apply_join(answer)
            elif isinstance(answer, SyncGroupResponse) and not code:
                key = (self.requests[ticket].generation_id, self.requests[ticket].member_id)
                assert self.given.setdefault(key, bytes(answer.assignment)) == answer.assignment

    @invariant()
    def replay_equals_saved(self) -> None:
        log, shard = self.driver.log, self.driver.shard
        live = state_of(shard)

        def replay() -> list[Any]:
            logs = (through_bytes(log), compacted(log, True), compacted(log, False))
            return [state_of(recovered(each, shard)) for each in logs]

        for replayed in self.replays.of(log, "whole", replay):
            assert replayed == live

    @invariant()
    def a_settled_group_is_saved_as_it_is(self) -> None:
        group = self.driver.group
        if group is not None and group.live.state in (
            GroupState.STABLE,
            GroupState.EMPTY,
        ):
            assert group.to_record().value == group.saved

    @invariant()
    def the_times_in_states_add_up(self) -> None:
        self.driver.check_metrics()

    @invariant()
    def the_counters_are_true(self) -> None:
        group = self.driver.group
        if group is None:
            return
        live = group.live
        members = list(live.members.values())
        spoken = [name for member in members for name, _ in member.protocols]
        assert live.protocol_counts == {name: spoken.count(name) for name in spoken}
        assert not set(live.parked) - set(live.members)
        assert live.instances == {
            member.instance_id: member.member_id
            for member in members
            if member.instance_id is not None
        }
        assert not members or (
            live.leader in live.members and len(members) in live.protocol_counts.values()
        )

    @invariant()
    def who_waits_waits_for_something(self) -> None:
        group = self.driver.group
        if group is None:
            assert self.waiting == {}
            return
        live = group.live
        waits_for = {
            JoinGroupRequest: GroupState.PREPARING_REBALANCE,
            SyncGroupRequest: GroupState.COMPLETING_REBALANCE,
        }
        parked = list(live.parked.values())
        assert {waits_for[type(self.requests[ticket])] for ticket in parked} <= {live.state}
        assert len(parked) == len(set(parked))
        assert set(self.waiting) <= set(parked)

    def teardown(self) -> None:
        """Where all fall silent, everybody is answered, the group is empty, and nothing is left to
        wait for.
        """
        if not hasattr(self, "driver"):
            return
        self.driver.advance(4_000_000)
        self.listen()
        group = self.driver.group
        assert self.waiting == {}
        assert group is None or (group.live.state, group.live.pending_joins) == (
            GroupState.EMPTY,
            {},
        )
        self.driver.hang_up(*(Ticket(number) for number in self.spent))


ClassicGroupMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
test_classic_group = ClassicGroupMachine.TestCase
