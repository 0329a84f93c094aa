"""Which heartbeat interval a response tells: short where the budget allows it, and never too long
for the session.
"""

from heapq import heappop, heappush
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coord.client_side import install, join, prepare, with_one, with_two
from tests.coord.shard_driver import ShardDriver, settings_with, topics
from tests.coord.toy_assignor import Toy, raises, with_toy


def with_budget(per_second: int, **others: Any) -> ShardDriver:
    """A shard of that budget, and a topic of 12 partitions."""
    configured = settings_with(apportion_heartbeat_budget_per_second=per_second, **others)
    return ShardDriver(configured, topics(foo=12))


def crowd(driver: ShardDriver, count: int) -> None:
    """So many groups of one member each, all at rest."""
    for number in range(count):
        driver.join("m", group_id=f"group-{number}")


def fill(driver: ShardDriver, count: int = 150) -> None:
    """So many members at rest of other shards, which have all that such may have of a second.

    Time passes first, so the places that the driver's own members had are over.
    """
    driver.advance(200)
    for _ in range(count):
        driver.heartbeats.book(driver.mono_ms, driver.mono_ms + 5_000, is_awaited=False)


class Members:
    """Clients of one group that heartbeat when they are told to, and give up at once."""

    def __init__(self, driver: ShardDriver, group_id: str = "g") -> None:
        self.driver, self.group_id = driver, group_id
        self.due: list[tuple[int, str]] = []
        self.epochs: dict[str, int] = {}
        self.sent = 0

    def join(self, *member_ids: str) -> None:
        for member_id in member_ids:
            self.epochs[member_id] = 0
            heappush(self.due, (self.driver.mono_ms, member_id))

    def run(self, until_ms: int) -> None:
        """Send every heartbeat that is due until then."""
        while self.due and self.due[0][0] <= until_ms:
            at_ms, member_id = heappop(self.due)
            self.driver.advance(at_ms - self.driver.mono_ms)
            answer = self._beat(member_id)
            # What is revoked was given up before the response could be read: it is confirmed by a
            # second heartbeat at once.
            if answer.assignment is not None:
                answer = self._beat(member_id, answer.assignment.topic_partitions)
            heappush(self.due, (at_ms + answer.heartbeat_interval_ms, member_id))
        self.driver.advance(until_ms - self.driver.mono_ms)

    def _beat(self, member_id: str, owned: Any = None) -> Any:
        self.sent += 1
        if self.epochs[member_id] == 0:
            answer = self.driver.join(member_id, group_id=self.group_id)
        else:
            answer = self.driver.beat(
                member_id, self.epochs[member_id], group_id=self.group_id, topic_partitions=owned
            )
        assert answer.error_code == 0, answer
        self.epochs[member_id] = answer.member_epoch
        return answer


def test_a_member_at_rest_is_told_100_ms_while_the_budget_allows_it() -> None:
    driver = with_budget(200)
    assert driver.join("a").heartbeat_interval_ms == 100
    assert [driver.beat("a", 2).heartbeat_interval_ms for _ in range(30)] == [100] * 30


def test_without_a_budget_every_interval_is_the_configured_one() -> None:
    driver = with_budget(0, group_consumer_heartbeat_interval_ms=700)
    told = [
        driver.join("a"),
        driver.join("b"),
        driver.beat("a", 2),
        driver.beat("a", 2, owned={"foo": list(range(6))}),
        driver.beat("b", 3),
    ]
    assert [answer.heartbeat_interval_ms for answer in told] == [700] * 5


def test_no_interval_is_longer_than_the_configured_one() -> None:
    driver = with_budget(200, group_consumer_heartbeat_interval_ms=120)
    crowd(driver, 100)
    assert driver.join("a").heartbeat_interval_ms == 120


def test_a_full_broker_tells_members_at_rest_the_configured_interval() -> None:
    driver = with_budget(20)
    crowd(driver, 200)
    assert driver.join("a").heartbeat_interval_ms == 5_000


def test_members_on_which_a_rebalance_depends_go_before_members_at_rest() -> None:
    driver = with_budget(200)
    crowd(driver, 150)  # they have all that members at rest may have of the next second
    told = [
        driver.join("a"),
        driver.join("b"),  # waits for what a has
        driver.beat("a", 2),  # must revoke
        driver.beat("a", 2, owned={"foo": list(range(6))}),  # is at its target
    ]
    assert [answer.heartbeat_interval_ms for answer in told] == [1_100, 100, 100, 1_100]


def test_a_member_that_waits_for_a_target_is_asked_when_it_is_due() -> None:
    driver = with_budget(200, group_consumer_assignment_interval_ms=1_000)
    driver.join("a")
    driver.advance(70)
    fill(driver)
    told = [driver.join("b"), driver.join("c"), driver.beat("a", 2)]
    # a has a target to follow; b or c makes the next one.
    assert [answer.heartbeat_interval_ms for answer in told] == [730, 730, 1_130]
    driver.advance(730)
    answer = driver.beat("c", 2)
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (4, 100)


def test_one_member_is_asked_for_the_target_that_a_leaving_one_needs() -> None:
    driver = with_budget(200, group_consumer_assignment_interval_ms=1_000)
    for name in "abc":
        driver.join(name)
    driver.advance(1_000)
    for name in "abc":  # the last two have nothing to give up
        driver.beat(name, 2)
    driver.advance(300)
    fill(driver)
    driver.beat("a", -1)
    told = [driver.beat(name, 4) for name in "bcb"]
    assert [answer.heartbeat_interval_ms for answer in told] == [500, 1_100, 500]
    # It leaves, too, so another one is asked.
    driver.beat("b", -1)
    driver.advance(200)
    assert driver.beat("c", 4).heartbeat_interval_ms == 300


def test_a_member_that_is_late_to_make_the_target_is_replaced() -> None:
    driver = with_budget(200, group_consumer_assignment_interval_ms=3_000)
    for name in "abc":
        driver.join(name)
    driver.advance(3_000)
    for name in "abc":
        driver.beat(name, 2)
    driver.beat("a", -1)
    assert driver.beat("b", 4).heartbeat_interval_ms == 3_000
    fill(driver)
    # The target is due later than was known to b, which does not come.
    driver.shard.settings = settings_with(
        apportion_heartbeat_budget_per_second=200, group_consumer_assignment_interval_ms=4_000
    )
    driver.advance(2_900)
    assert driver.beat("c", 4).heartbeat_interval_ms == 900


def test_a_target_later_than_the_configured_interval_hurries_nobody() -> None:
    driver = with_budget(200, group_consumer_assignment_interval_ms=15_000)
    driver.join("a")
    fill(driver)
    told = [driver.join("b"), driver.beat("a", 2)]
    assert [answer.heartbeat_interval_ms for answer in told] == [1_100, 1_100]
    driver.advance(10_000)
    assert driver.beat("b", 2).heartbeat_interval_ms == 4_800


def test_a_custom_assignor_that_is_slow_is_looked_for_less_and_less_often() -> None:
    driver = with_toy(Toy())
    fill(driver)
    told = [driver.join(name) for name in "ab"]
    assert [answer.heartbeat_interval_ms for answer in told] == [100, 100]
    intervals = []
    for _ in range(6):
        driver.advance(told[-1].heartbeat_interval_ms)
        told.append(driver.beat("b", 1))
        intervals.append(told[-1].heartbeat_interval_ms)
    assert intervals == [100, 200, 400, 800, 1_600, 3_200]


def test_a_target_that_a_member_computes_is_looked_for_less_and_less_often() -> None:
    driver = with_one(with_budget(200, group_consumer_assignment_interval_ms=0))
    fill(driver)
    told = [join(driver, "b")]
    assert told[0].should_compute_assignment
    intervals = [told[0].heartbeat_interval_ms]
    for _ in range(4):
        driver.advance(told[-1].heartbeat_interval_ms)
        told.append(driver.beat("b", 2))
        intervals.append(told[-1].heartbeat_interval_ms)
    assert intervals == [100, 100, 200, 400, 800]


def test_a_member_that_failed_is_not_awaited_for_the_next_try_but_another_is() -> None:
    driver = with_budget(200, group_consumer_assignment_interval_ms=0)
    with_two(driver)
    driver.advance(9_800)
    fill(driver)
    assert ["has not installed" in note for note in driver.notes] == [False, True]
    told = [driver.beat("b", 2), driver.beat("a", 2)]
    # A second after the failure "a" computes. "b" has no target, and waits for that of "a".
    assert [answer.heartbeat_interval_ms for answer in told] == [1_000, 1_000]
    driver.advance(1_000)
    assert driver.beat("a", 2).should_compute_assignment


def test_a_member_with_a_target_that_failed_is_at_rest() -> None:
    driver = with_budget(200, group_consumer_assignment_interval_ms=0)
    with_two(driver)
    prepare(driver, "b", 2)
    targets = {"a": {"foo": list(range(6))}, "b": {"foo": list(range(6, 12))}}
    install(driver, "b", (2, 3), targets)
    driver.beat("a", 2)
    driver.beat("a", 2, owned={"foo": [0, 1, 2]})
    assert driver.beat("b", 2).member_epoch == 3
    driver.change_topics(topics(foo=13))
    assert driver.beat("b", 3).should_compute_assignment
    driver.advance(9_800)
    fill(driver)
    told = [driver.beat(name, 3) for name in "ba"]
    assert [answer.heartbeat_interval_ms for answer in told] == [1_100, 1_000]


def test_a_member_with_a_target_does_not_wait_for_a_custom_assignor() -> None:
    driver = with_toy(Toy())
    driver.join("a")
    driver.end_computations()
    driver.beat("a", 1)
    fill(driver)
    told = [driver.join("b"), driver.beat("a", 2)]
    assert [answer.heartbeat_interval_ms for answer in told] == [100, 1_100]


def test_an_assignor_that_failed_is_looked_for_after_its_pause() -> None:
    driver = with_toy(Toy(raises))
    driver.join("a")
    driver.end_computations()
    driver.advance(100)
    fill(driver)
    assert driver.beat("a", 1).heartbeat_interval_ms == 700


def test_an_expression_is_looked_for_when_it_may_be_resolved() -> None:
    driver = with_budget(200, group_consumer_assignment_interval_ms=0)
    driver.join("a", topics=(), subscribed_topic_regex="fo+")
    driver.end_computations()
    driver.beat("a", 1)
    fill(driver)
    told = [driver.join("b", topics=(), subscribed_topic_regex="f.o"), driver.beat("a", 2)]
    # Ten seconds after the last time, which is later than the configured interval.
    assert [answer.heartbeat_interval_ms for answer in told] == [1_100, 1_100]
    driver.advance(8_600)
    fill(driver)
    told = [driver.beat("b", 2), driver.beat("a", 2)]
    assert [answer.heartbeat_interval_ms for answer in told] == [1_050, 1_100]
    driver.advance(1_050)
    fill(driver)
    told = [driver.beat("b", 2), driver.beat("a", 2)]  # it is being resolved
    assert [answer.heartbeat_interval_ms for answer in told] == [100, 1_100]


def test_a_member_that_heartbeats_too_often_takes_no_more_than_one_place() -> None:
    driver = with_budget(20)
    driver.join("a")
    for _ in range(1_000):
        driver.beat("a", 2)
    assert [driver.join(name, group_id=name).heartbeat_interval_ms for name in "xyz"] == [
        200,  # the slot at 150 ms is kept for awaited heartbeats
        250,
        300,
    ]


def test_members_that_leave_or_are_removed_give_their_places_back() -> None:
    driver = with_budget(20)
    driver.join("a")
    driver.beat("a", -1)
    driver.join("s", instance_id="i", group_id="static")
    driver.beat("s", -2, instance_id="i", group_id="static")
    # in the place of s, and of a, who is gone
    assert driver.join("t", instance_id="i", group_id="static").heartbeat_interval_ms == 100
    assert driver.join("b").heartbeat_interval_ms == 200


def test_thousands_of_groups_that_come_and_go_leave_nothing_behind() -> None:
    driver = with_budget(20)
    for number in range(3_000):
        driver.join("m", group_id=f"group-{number}")
        driver.beat("m", -1, group_id=f"group-{number}")
    assert len(driver.heartbeats) == 5_000 // 50 + 1
    assert driver.join("a").heartbeat_interval_ms == 100


def test_peers_that_fill_the_calendar_delay_nobody_beyond_the_interval() -> None:
    driver = with_budget(20)
    kept = Members(driver)
    kept.join("a", "b")
    kept.run(1_000)
    crowd(driver, 2_000)
    kept.run(61_000)
    group: Any = driver.shard.ledger.groups["g"]
    assert sorted(group.saved.members) == ["a", "b"]
    assert kept.sent >= 2 * 60_000 // 5_000


@settings(deadline=None, max_examples=30)
@given(
    session_ms=st.sampled_from([1_000, 3_000, 45_000]),
    budgets=st.lists(st.sampled_from([0, 1, 20, 200]), min_size=1, max_size=4),
    members=st.integers(1, 25),
)
def test_members_that_obey_keep_their_sessions_when_budgets_change(
    session_ms: int, budgets: list[int], members: int
) -> None:
    driver = with_budget(budgets[0], group_consumer_session_timeout_ms=session_ms)
    group = Members(driver)
    group.join(*(f"m{number}" for number in range(members)))
    for budget in budgets:
        # A broker restarts with another budget: its calendar is empty, and its members come back
        # when the one before has told them to.
        driver.shard.settings = settings_with(
            apportion_heartbeat_budget_per_second=budget,
            group_consumer_session_timeout_ms=session_ms,
        )
        driver.crash()
        group.run(driver.mono_ms + 2 * session_ms)
    saved: Any = driver.shard.ledger.groups["g"]
    assert (sorted(saved.saved.members), driver.notes) == (sorted(group.epochs), [])
    assert saved.state == "Stable"


@pytest.mark.parametrize(("budget", "at_most"), [(200, 200), (0, 10 / 5)])
def test_ten_members_at_rest_cost_no_more_than_the_budget(budget: int, at_most: float) -> None:
    driver = with_budget(budget)
    group = Members(driver)
    group.join(*(f"m{number}" for number in range(10)))
    group.run(20_000)
    before = group.sent
    group.run(80_000)
    assert (group.sent - before) / 60 <= at_most
