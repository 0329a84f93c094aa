"""The laws of a whole group: whatever members do, no partition is in two hands, and left alone they
all get their target.
"""

from re import fullmatch
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from apportion.coord.consumer.built_in_targets import ComputeBuiltInTarget
from apportion.coord.records import Append
from apportion.errors import Code
from apportion.machine import Reply
from apportion.sim.checks.consumer_laws import GROUP_LAWS
from apportion.sim.checks.saved import (
    compact,
    difference_or_none,
    saved_state,
)
from apportion.topics import Topic, Topics
from tests.coord.consumer_client import FENCING, REBALANCE_MS, Client
from tests.coord.replays import Replays, cleaned_states
from tests.coord.shard_driver import (
    ShardDriver,
    end_of,
    recovered,
    settings_with,
    state_of,
    through_bytes,
    topic_id,
)

SESSION_MS = 45_000
NAMES = ("foo", "bar", "baz")
WISHES = st.sampled_from([("foo",), ("bar", "foo"), ("bar",), (), ("baz", "foo")])

EXPRESSIONS = st.sampled_from(["", "ba.", "foo|bar", ".*", "no"])


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Clients join, stay, lose answers, leave, fall silent and come back, while topics change and
    the shard crashes.
    """

    client_class = Client

    @initialize(
        budget=st.sampled_from([0, 2, 200]),
        interval_ms=st.sampled_from([0, 0, 1_000]),
        offload_size=st.sampled_from([10_000, 0, 6]),
    )
    def begin(self, budget: int, interval_ms: int, offload_size: int) -> None:
        self.lives = dict.fromkeys(NAMES, 0)
        self.sizes = {"foo": 4, "bar": 3}
        self.clients: dict[str, Client] = {}
        self.made, self.replays = 0, Replays()
        setting = settings_with(
            apportion_heartbeat_budget_per_second=budget,
            group_consumer_assignment_interval_ms=interval_ms,
            apportion_assignor_offload_size=offload_size,
            group_consumer_max_size=4,
        )
        self.driver = ShardDriver(setting, Topics(self.topics()))
        # the epoch of the targets, and the topics that they were made of
        self.targeted = (1, self.driver.shard.topics)

    def topics(self) -> list[Topic]:
        return [
            Topic(name, topic_id(name, self.lives[name]), size)
            for name, size in sorted(self.sizes.items())
        ]

    @rule(topic_names=WISHES, is_static=st.booleans())
    def join(self, topic_names: tuple[str, ...], is_static: bool) -> None:
        if len(self.clients) < 4:
            self.made += 1
            instance_id = f"i{self.made % 3}" if is_static else None
            client = self.client_class(self.driver, f"m{self.made}", topic_names, instance_id)
            if self.say(client) not in (Code.GROUP_MAX_SIZE_REACHED, Code.UNRELEASED_INSTANCE_ID):
                self.clients[client.member_id] = client

    @rule(
        which=st.integers(0, 3),
        is_lost=st.booleans(),
        assignor=st.sampled_from([None, "range", "uniform"]),
    )
    def heartbeat(self, which: int, is_lost: bool, assignor: str | None) -> None:
        if client := self.pick(which):
            self.say(client, is_lost, assignor)

    @rule(which=st.integers(0, 3), topic_names=WISHES)
    def subscribe(self, which: int, topic_names: tuple[str, ...]) -> None:
        if client := self.pick(which):
            client.topic_names, client.is_news = topic_names, True

    @rule(which=st.integers(0, 3), expression=EXPRESSIONS)
    def subscribe_by_expression(self, which: int, expression: str) -> None:
        if client := self.pick(which):
            client.expression, client.is_news = expression, True

    @rule()
    def end_computations(self) -> None:
        """What was begun beside the shard ends, some of it begun before the last crash."""
        self.end_each()

    def end_each(self) -> None:
        """Each computation ends; a target is of the topics of which its computation knew."""
        computations, self.driver.computations = self.driver.computations, []
        for computation in computations:
            self.driver.step(end_of(computation))
            self.every_law_of_a_group_holds(computation)

    @rule(which=st.integers(0, 3), is_break=st.booleans())
    def leave(self, which: int, is_break: bool) -> None:
        client = self.pick(which)
        if client and client.epoch > 0:
            answer = client.leave(-2 if client.instance_id and is_break else -1)
            assert answer.error_code in (Code.NONE, *FENCING)
            del self.clients[client.member_id]

    @rule(which=st.integers(0, 3), offset=st.integers(0, 99))
    def commit(self, which: int, offset: int) -> None:
        """Whoever is a member and works on partitions may commit them, even if it missed an
        answer.
        """
        client = self.pick(which)
        if client is None or not client.epoch:
            return
        alive = {topic.id: topic.name for topic in self.topics()}
        offsets = {
            (alive[some], partition): offset for some, partition in client.owned if some in alive
        }
        codes = self.driver.commit(client.epoch, offsets, client.member_id)
        if client.member_id in self.members():
            assert codes == [Code.NONE] * len(offsets)

    @rule(which=st.integers(0, 3))
    def start_again(self, which: int) -> None:
        """A client forgets its epoch but not its id, and gives up what it had."""
        if client := self.pick(which):
            client.lose()

    @rule(which=st.integers(0, 3), instance=st.integers(0, 2))
    def take_place(self, which: int, instance: int) -> None:
        """A client begins again under its id as an instance that may be its own, nobody's, or
        another's.
        """
        if client := self.pick(which):
            client.lose()
            client.instance_id = f"i{instance}"
            self.say(client)

    @rule(elapsed_ms=st.sampled_from([100, REBALANCE_MS, SESSION_MS]))
    def wait(self, elapsed_ms: Any) -> None:
        self.driver.advance(elapsed_ms)
        members = self.members()
        for client in self.clients.values():
            if client.member_id not in members:  # it must stop by itself in real life
                client.lose()

    @rule(name=st.sampled_from(NAMES), size=st.integers(1, 6))
    def change_topic(self, name: str, size: int) -> None:
        old = self.sizes.pop(name, 0)
        if size > old:
            self.sizes[name] = size  # created, or grown
        else:
            self.lives[name] += 1  # deleted
        self.driver.change_topics(self.topics())

    @rule(eighths=st.integers(1, 8), drops_tombstones=st.booleans())
    def clean(self, eighths: int, drops_tombstones: bool) -> None:
        """The log's cleaner passes over a part of it, again and again in a long life; what it
        leaves is the log from now on.
        """
        log = self.driver.log
        self.driver.log = compact(log, len(log) * eighths // 8, drops_tombstones)

    @rule()
    def crash(self) -> None:
        self.driver.crash()

    def work(self) -> None:
        """What was begun beside the shard ends."""
        self.end_each()

    def pick(self, which: int) -> Client | None:
        clients = list(self.clients.values())
        return clients[which % len(clients)] if clients else None

    def say(self, client: Client, is_lost: bool = False, assignor: Any = None) -> int:
        answer = client.act(is_lost, assignor)
        assert answer.error_code != Code.UNKNOWN_SERVER_ERROR
        return answer.error_code

    def members(self) -> Any:
        group: Any = self.driver.shard.ledger.groups.get("g")
        return {} if group is None else group.saved.members

    @invariant()
    def replay_equals_live(self) -> None:
        log, shard = self.driver.log, self.driver.shard
        live = state_of(shard)

        def replay() -> list[Any]:
            cleaned = [compact(log, len(log), drops) for drops in (True, False)]
            return [state_of(recovered(each, shard)) for each in (through_bytes(log), *cleaned)]

        for replayed in self.replays.of(log, "whole", replay):
            assert replayed == live

    @invariant()
    def what_is_saved_survives_the_cleaner(self) -> None:
        log, live = self.driver.log, saved_state(self.driver.shard.ledger)
        for replayed in self.replays.of(
            log, "cleaned", lambda: cleaned_states(log, (len(log) // 2, len(log)))
        ):
            assert difference_or_none(live, replayed) is None

    @invariant()
    def the_times_in_states_add_up(self) -> None:
        self.driver.check_metrics()

    @invariant()
    def a_reply_stands_behind_its_records(self) -> None:
        kinds = [
            type(action) for action in self.driver.actions if isinstance(action, Append | Reply)
        ]
        assert kinds in ([], [Reply], [Append], [Append, Reply])

    @invariant()
    def no_partition_is_in_two_hands(self) -> None:
        hands = [unit for member in self.members().values() for unit in member.units()]
        assert len(hands) == len(set(hands))
        working = [unit for client in self.clients.values() for unit in client.owned]
        assert len(working) == len(set(working))

    @invariant()
    def a_client_works_only_on_what_it_holds(self) -> None:
        for client in self.clients.values():
            member = self.members().get(client.member_id)
            if member is not None:
                group: Any = self.driver.shard.ledger.groups["g"]
                units = group.saved.units
                assert {units.unit(*unit) for unit in client.owned} <= set(member.units())

    @invariant()
    def every_law_of_a_group_holds(self, ended: Any = None) -> None:
        """Every law holds, also after the end of a computation."""
        group: Any = self.driver.shard.ledger.groups.get("g")
        if group is None:
            return
        assert group.saved is not None
        if self.targeted[0] != group.saved.assignment_epoch:
            # One that a crash has left behind ends, too, and is not what was saved meanwhile.
            is_beside = (
                isinstance(ended, ComputeBuiltInTarget)
                and ended.epoch == group.saved.assignment_epoch
            )
            known = Topics(ended.topics) if is_beside else self.driver.shard.topics
            self.targeted = (group.saved.assignment_epoch, known)
        broken = {
            name: why
            for name, law in GROUP_LAWS.items()
            if (why := list(law(group, self.targeted[1])))
        }
        assert broken == {}

    def teardown(self) -> None:
        """Left alone, the clients converge, everything wanted has an owner, and then heartbeats
        write nothing.
        """
        if not self.clients:
            return
        for _ in range(5):  # long enough for the seats of those who forgot theirs to fall free
            self.driver.advance(SESSION_MS // 3)
            for _ in range(2):
                for client in list(self.clients.values()) * 4:
                    self.say(client)
                self.work()
        join_and_sync = [client for client in self.clients.values() if client.epoch > 0]
        group = self.driver.shard.ledger.groups["g"]
        assert group.state == "Stable"
        wanted = {
            (topic.id, partition)
            for topic in self.topics()
            if any(
                topic.name in client.topic_names or fullmatch(client.expression, topic.name)
                for client in join_and_sync
            )
            for partition in range(topic.partitions)
        }
        assert {unit for client in join_and_sync for unit in client.owned} == wanted
        written = len(self.driver.log)
        for client in join_and_sync:
            self.say(client)
        assert len(self.driver.log) == written


ConsumerGroupMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
test_membership = ConsumerGroupMachine.TestCase
