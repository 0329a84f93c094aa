"""A group of Java's members goes from the classic to the consumer protocol and back, one member at
a time, while records flow.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ConsumerGroupType

from tests.compat.java.group_under_test import GroupUnderTest
from tests.compat.java.history import (
    Actor,
    all_read,
    quarrels,
    settled,
    timeline,
    unexplained_repeats,
    until,
    vacancies_ms,
)
from tests.compat.java.jvm import Jvm, classic, modern

if TYPE_CHECKING:
    from tests.compat.conftest import Served


SLACK_MS = 1000  # of a machine that does other things too

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Rolling:
    """Three members of a group and everybody who was one; each step waits until all partitions are
    shared again.
    """

    def __init__(self, tested: GroupUnderTest, jvm: Jvm) -> None:
        self.tested, self._jvm = tested, jvm
        self.present: list[Actor]
        self.everybody: list[Actor]
        self.present, self.everybody = [], []

    def join(self, name: str, config: dict[str, int | str]) -> None:
        """One more."""
        member = self.tested.join(self._jvm, name, config)
        self.present.append(member)
        self.everybody.append(member)
        self._settle()

    def leave(self) -> None:
        """The oldest has left."""
        self.present.pop(0).leave()
        self._settle()

    def replace(self, name: str, config: dict[str, int | str]) -> None:
        """The oldest has left and a new one has come, as in a rolling restart."""
        self.present.pop(0).leave()
        self.join(name, config)

    def _settle(self) -> None:
        # Stable too: a classic member that lags behind the epoch when the group becomes a classic
        # one loses what it has.
        settled(self.tested.partitions, *self.present)
        wanted = ("STABLE", len(self.present))
        until(
            lambda: self.tested.described()[1:] == wanted,
            lambda: f"the group is {wanted}: {self.tested.described()}",
        )

    def longest_ms(self, step: Callable[..., None]) -> int:
        """How long the worst partition had no owner because of `step`; everything has an owner
        afterwards.
        """
        since = time.time() * 1000
        step()
        return max(vacancies_ms(self.everybody, since).values(), default=0)


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_a_group_migrates_live_to_the_consumer_protocol_and_back(
    bootstrap: str, shared_jvm: Jvm, assignor: str
) -> None:
    old, new = classic(assignor), modern()
    tested = GroupUnderTest(bootstrap, shared_jvm, 6)
    flow = tested.flow(pause_ms=5)
    group = Rolling(tested, shared_jvm)
    for number in range(3):
        group.join(f"old {number}", old)
    assert tested.described()[0] == ConsumerGroupType.CLASSIC
    ordinary = [group.longest_ms(group.leave), group.longest_ms(lambda: group.join("old 3", old))]

    upgrade = [group.longest_ms(lambda: group.join("new 0", new)), group.longest_ms(group.leave)]
    assert tested.described()[0] == ConsumerGroupType.CONSUMER
    upgrade += [
        group.longest_ms(lambda name=name: group.replace(name, new)) for name in ("new 1", "new 2")
    ]
    assert tested.described()[0] == ConsumerGroupType.CONSUMER
    ordinary += [group.longest_ms(group.leave), group.longest_ms(lambda: group.join("new 3", new))]

    downgrade = [group.longest_ms(lambda: group.join("old 4", old)), group.longest_ms(group.leave)]
    assert tested.described()[0] == ConsumerGroupType.CONSUMER
    downgrade += [
        group.longest_ms(lambda name=name: group.replace(name, old)) for name in ("old 5", "old 6")
    ]
    assert tested.described()[0] == ConsumerGroupType.CLASSIC

    sent = flow.leave().records
    all_read(sent, group.everybody)
    print(
        f"{assignor}: longest vacancies in ms: ordinary {ordinary}, upgrade {upgrade}, "
        f"downgrade {downgrade}; {len(sent)} records"
    )
    assert quarrels(group.everybody) == []
    assert unexplained_repeats(group.everybody) == []
    assert max(*upgrade, *downgrade) <= max(ordinary) + SLACK_MS
    assert [each for each in timeline(group.everybody) if each["event"] == "lost"] == []
    for member in group.present:
        member.leave()


def test_static_members_change_their_protocol_by_a_restart_and_keep_their_partitions(
    bootstrap: str, shared_jvm: Jvm
) -> None:
    tested = GroupUnderTest(bootstrap, shared_jvm, 6)
    old = {
        each: classic("cooperative-sticky", session_timeout_ms=20_000, group_instance_id=each)
        for each in "ab"
    }
    new = {each: modern(group_instance_id=each) for each in "ab"}
    a, b = tested.join(shared_jvm, "a", old["a"]), tested.join(shared_jvm, "b", old["b"])
    settled(tested.partitions, a, b)
    before = a.owned, b.owned
    everybody = [a, b]
    for name, config, kind in (("newer", new, "CONSUMER"), ("older", old, "CLASSIC")):
        a = restarted(tested, shared_jvm, a, f"{name} a", config["a"])
        b = restarted(tested, shared_jvm, b, f"{name} b", config["b"])
        everybody += [a, b]
        assert (a.owned, b.owned) == before
        wanted = (ConsumerGroupType[kind], "STABLE", 2)
        until(lambda wanted=wanted: tested.described() == wanted, f"the group is {wanted}")
        tested.produce(100)
        all_read(tested.sent, everybody)
    assert unexplained_repeats(everybody) == []
    a.leave(), b.leave()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_mixed_group_outlives_its_broker_and_the_crash_of_its_last_consumer_member(
    broker: "Served", shared_jvm: Jvm, killable_jvm: Jvm, assignor: str
) -> None:
    tested = GroupUnderTest(broker.bootstrap, shared_jvm, 6)
    old = classic(assignor, session_timeout_ms=10_000, metadata_recovery_strategy="none")
    first, second = tested.join(shared_jvm, "first", old), tested.join(shared_jvm, "second", old)
    settled(tested.partitions, first, second)
    third = tested.join(killable_jvm, "third", modern(metadata_recovery_strategy="none"))
    everybody = [first, second, third]
    settled(tested.partitions, *everybody)
    tested.produce(90)
    all_read(tested.sent, everybody)
    wanted = (ConsumerGroupType.CONSUMER, "STABLE", 3)
    until(lambda: tested.described() == wanted, f"the group is {wanted}")
    before = [member.owned for member in everybody]

    broker.kill()
    broker.start()
    tested.produce(90)
    all_read(tested.sent, everybody)
    assert [member.owned for member in everybody] == before
    assert tested.described() == wanted

    killable_jvm.crash()
    settled(tested.partitions, first, second)
    assert tested.described()[0] == ConsumerGroupType.CLASSIC
    tested.produce(90)
    all_read(tested.sent, everybody)
    assert quarrels(everybody) == []
    assert unexplained_repeats(everybody) == []
    first.leave(), second.leave()


def restarted(
    tested: GroupUnderTest, jvm: Jvm, member: Actor, name: str, config: dict[str, int | str]
) -> Actor:
    """A new member that has what `member` had, which has closed itself."""
    had = member.owned
    member.leave()
    again = tested.join(jvm, name, config)
    until(lambda: again.owned == had, lambda: f"{name} has {had}: {again.owned}")
    return again
