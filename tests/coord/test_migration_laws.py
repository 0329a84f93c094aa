"""The laws of a group whose members speak both protocols, and that becomes the one kind and the
other while they come and go.
"""

from re import fullmatch
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.records import Append
from apportion.sim.checks.consumer_laws import GROUP_LAWS
from apportion.sim.checks.saved import (
    compact,
    difference_or_none,
    saved_state,
)
from apportion.topics import Topic, Topics
from apportion.wire.group_states import GroupState
from tests.coord.consumer_client import REBALANCE_MS
from tests.coord.mixed_shard_driver import (
    SESSION_MS,
    ClassicClient,
    ConsumerClient,
    MixedShardDriver,
)
from tests.coord.replays import Replays, cleaned_states
from tests.coord.shard_driver import recovered, settings_with, state_of, through_bytes, topic_id

MOST_CLIENTS = 4
WISHES = st.sampled_from([("foo",), ("foo",), ("bar", "foo"), ("bar",), ()])
KINDS = st.sampled_from(
    ["consumer", "consumer", "cooperative", "cooperative", "cooperative", "eager", "old"]
)


class MixedGroupMachine(RuleBasedStateMachine):
    """Clients of both protocols join, work, lose answers, leave, die and come back as the other
    kind, while the shard crashes.
    """

    @initialize(
        policy=st.sampled_from(["bidirectional"] * 5 + ["upgrade", "downgrade", "disabled"]),
        first=st.lists(
            st.tuples(KINDS, st.sampled_from([None, "i1", "i2"])),
            max_size=3,
            unique_by=lambda one: one[1] or object(),
        ),
        rounds=st.integers(0, 8),
        interval_ms=st.sampled_from([0, 0, 1_000]),
        offload_size=st.sampled_from([10_000, 0]),
    )
    def begin(
        self,
        policy: str,
        first: list[tuple[str, str | None]],
        rounds: int,
        *,
        interval_ms: int,
        offload_size: int,
    ) -> None:
        self.sizes = {"bar": 3, "foo": 4}
        self.clients: list[Any] = []
        self.made, self.replays = 0, Replays()
        setting = settings_with(
            group_consumer_session_timeout_ms=SESSION_MS,
            group_min_session_timeout_ms=1_000,
            group_consumer_migration_policy=policy,
            group_consumer_assignment_interval_ms=interval_ms,
            apportion_assignor_offload_size=offload_size,
        )
        self.driver = MixedShardDriver(setting, Topics(self.topics()))
        for kind, instance in first:
            self.start(kind, ("foo",), instance)
        self.everybody_acts(rounds)

    def topics(self) -> list[Topic]:
        return [Topic(name, topic_id(name), size) for name, size in sorted(self.sizes.items())]

    def new_client(self, kind: str, topic_names: tuple[str, ...], instance_id: str | None) -> Any:
        self.made += 1
        name = f"m{self.made}"
        if kind == "consumer":
            return ConsumerClient(self.driver, name, topic_names, instance_id)
        return ClassicClient(
            self.driver,
            name,
            topic_names,
            instance_id,
            is_eager=kind != "cooperative",
            is_old=kind == "old",
        )

    @rule(kind=KINDS, topic_names=WISHES, instance=st.sampled_from([None, None, "i1", "i2"]))
    def start(self, kind: str, topic_names: tuple[str, ...], instance: str | None) -> None:
        if len(self.clients) < MOST_CLIENTS and instance not in [
            client.instance_id for client in self.clients if instance
        ]:
            client = self.new_client(kind, topic_names, instance)
            self.clients.append(client)
            client.act()
            client.act()

    @rule(which=st.integers(0, 3), is_lost=st.sampled_from([False] * 5 + [True]))
    def act(self, which: int, is_lost: bool) -> None:
        if client := self.pick(which):
            client.act(is_lost)

    @rule(times=st.integers(1, 4))
    def everybody_acts(self, times: int) -> None:
        for _ in range(times):
            for client in self.clients:
                client.act()

    @rule(which=st.integers(0, 3))
    def leave(self, which: int) -> None:
        if client := self.pick(which):
            client.leave()
            self.clients.remove(client)

    @rule(which=st.integers(0, 3))
    def die(self, which: int) -> None:
        """Its process is gone, and nobody hears of that."""
        if client := self.pick(which):
            client.lose()
            self.clients.remove(client)

    @rule(which=st.integers(0, 3), kind=KINDS, is_clean=st.booleans(), topic_names=WISHES)
    def restart(self, which: int, kind: str, is_clean: bool, topic_names: tuple[str, ...]) -> None:
        """A process ends and begins again, perhaps in the other protocol; as a static member it has
        its place there.
        """
        if client := self.pick(which):
            if (
                is_clean
                and isinstance(client, ConsumerClient)
                and client.instance_id
                and client.epoch > 0
            ):
                client.leave(-2)
            client.lose()
            index = self.clients.index(client)
            self.clients[index] = self.new_client(kind, topic_names, client.instance_id)
            self.clients[index].act()

    @rule(which=st.integers(0, 3), topic_names=WISHES)
    def subscribe(self, which: int, topic_names: tuple[str, ...]) -> None:
        if client := self.pick(which):
            client.topic_names, client.is_news = topic_names, True
            if client.is_classic and client.next == "beat":
                client.next = "join"

    @rule(which=st.integers(0, 3), expression=st.sampled_from(["", "ba.", "foo|bar"]))
    def subscribe_by_expression(self, which: int, expression: str) -> None:
        client = self.pick(which)
        if isinstance(client, ConsumerClient):
            client.expression, client.is_news = expression, True

    @rule()
    def end_computations(self) -> None:
        """What was begun beside the shard ends, some of it begun before the last crash."""
        self.driver.end_computations()

    @rule(elapsed_ms=st.sampled_from([100, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def wait(self, elapsed_ms: Any) -> None:
        self.driver.advance(elapsed_ms)
        for client in self.clients:
            if self.is_over(client):  # it must stop by itself in real life
                client.lose()

    def is_over(self, client: Any) -> bool:
        """True for a client that cannot but know that it is out: it was silent too long, or came
        too late for a generation.
        """
        if client.is_classic and client.waits is not None:
            return False
        group = self.driver.group()
        if isinstance(group, ConsumerGroup):
            return client.member_id not in group.saved.members
        if group is None or not client.is_classic or client.member_id not in group.live.members:
            return True
        return client.generation != group.live.generation and group.live.state in (
            GroupState.COMPLETING_REBALANCE,
            GroupState.STABLE,
        )

    @rule(name=st.sampled_from(["bar", "foo"]))
    def grow(self, name: str) -> None:
        if self.sizes[name] < 6:
            self.sizes[name] += 1
            self.driver.change_topics(self.topics())

    @rule()
    def crash(self) -> None:
        self.driver.crash()
        for client in self.clients:
            if client.is_classic:
                assert isinstance(client, ClassicClient)
                client.waits = None

    def pick(self, which: int) -> Any:
        return self.clients[which % len(self.clients)] if self.clients else None

    @invariant()
    def no_partition_is_in_two_hands(self) -> None:
        working = [partition for client in self.clients for partition in client.owned]
        assert len(working) == len(set(working)), {
            client.name: sorted(client.owned) for client in self.clients
        }

    @invariant()
    def replay_equals_live(self) -> None:
        log, shard = self.driver.log, self.driver.shard
        [replayed] = self.replays.of(
            log, "whole", lambda: [state_of(recovered(through_bytes(log), shard))]
        )
        assert replayed == state_of(shard)

    @invariant()
    def what_is_saved_survives_the_cleaner(self) -> None:
        log, live = self.driver.log, saved_state(self.driver.shard.ledger)
        for replayed in self.replays.of(log, "cleaned", lambda: cleaned_states(log, (len(log),))):
            assert difference_or_none(live, replayed) is None

    @rule(eighths=st.integers(1, 8), drops_tombstones=st.booleans())
    def clean(self, eighths: int, drops_tombstones: bool) -> None:
        """The log's cleaner passes over a part of it; what it leaves is the log from now on."""
        log = self.driver.log
        self.driver.log = compact(log, len(log) * eighths // 8, drops_tombstones)

    @invariant()
    def the_times_in_states_add_up(self) -> None:
        self.driver.check_metrics()

    @invariant()
    def one_step_writes_once(self) -> None:
        """A migration and what caused it are in the log together or not at all."""
        assert [type(action) for action in self.driver.actions].count(Append) <= 1

    @invariant()
    def every_law_of_a_group_holds(self) -> None:
        group = self.driver.group()
        if isinstance(group, ConsumerGroup):
            laws = {name: law for name, law in GROUP_LAWS.items() if name != "legal-target"}
            assert {
                name: why
                for name, law in laws.items()
                if (why := list(law(group, self.driver.shard.topics)))
            } == {}

    def teardown(self) -> None:
        """Left alone, everybody who can be in the group has its share, all that is wanted is read,
        and nothing is written.

        A classic group does not notice what a static member wants that took another's place, so
        those say it once more.
        """
        for number in range(20):
            self.wait(SESSION_MS // 4)
            for client in self.clients:
                if (
                    number == 4
                    and client.is_classic
                    and client.instance_id
                    and client.next == "beat"
                ):
                    client.next = "join"
                client.act()
            self.driver.end_computations()
        if not self.clients:
            return
        group = self.driver.group()
        policy = self.driver.settings.group_consumer_migration_policy
        join_and_sync = [client for client in self.clients if self.is_seated(client)]
        if policy == "bidirectional":
            assert join_and_sync == self.clients
            has_consumer = any(not client.is_classic for client in join_and_sync)
            assert isinstance(group, ConsumerGroup) == has_consumer
        wanted = {
            (topic, index)
            for client in join_and_sync
            for topic in self.sizes
            if topic in client.topic_names
            or (not client.is_classic and fullmatch(client.expression, topic))
            for index in range(self.sizes[topic])
        }
        assert {partition for client in join_and_sync for partition in client.owned} == wanted
        assert group is not None
        assert group.state == "Stable"
        written = len(self.driver.log)
        for client in join_and_sync:
            client.act()
        assert len(self.driver.log) == written

    def is_seated(self, client: Any) -> bool:
        result: bool = client.next == "beat" if client.is_classic else client.epoch > 0
        return result


MixedGroupMachine.TestCase.settings = settings(
    max_examples=150,
    report_multiple_bugs=False,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_mixed = MixedGroupMachine.TestCase
