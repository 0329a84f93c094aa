"""Java's consumers and producers: members that come, go, die and return, with each assignor of the
classic protocol.
"""

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ConsumerGroupType

from tests.compat.java.group_under_test import GroupUnderTest
from tests.compat.java.history import all_read, quarrels, settled, unexplained_repeats, until
from tests.compat.java.jvm import Jvm, classic, modern

if TYPE_CHECKING:
    from tests.compat.conftest import Served


ASSIGNORS = ("range", "sticky", "cooperative-sticky")
SESSION_SECONDS = 4  # as in jvm.QUICK

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("protocol", [*ASSIGNORS, "consumer"])
def test_three_members_share_leave_and_die_and_every_record_is_read(
    bootstrap: str, shared_jvm: Jvm, killable_jvm: Jvm, protocol: str
) -> None:
    config = modern() if protocol == "consumer" else classic(protocol)
    kind = ConsumerGroupType.CONSUMER if protocol == "consumer" else ConsumerGroupType.CLASSIC
    tested = GroupUnderTest(bootstrap, shared_jvm, 6)
    tested.produce(300)
    first = tested.join(shared_jvm, "first", config)
    settled(tested.partitions, first)
    second, third = (
        tested.join(shared_jvm, "second", config),
        tested.join(killable_jvm, "third", config),
    )
    settled(tested.partitions, first, second, third)
    everybody = [first, second, third]
    tested.produce(300)
    all_read(tested.sent, everybody)
    assert tested.described() == (kind, "STABLE", 3)

    before = set(first.owned), set(third.owned)
    second.leave()
    took = settled(tested.partitions, first, third)
    assert took < SESSION_SECONDS, "a leave is not found out by a timeout"
    if protocol != "range":
        assert before[0] < set(first.owned), "who stays keeps what it has"
        assert before[1] < set(third.owned), "who stays keeps what it has"
    killable_jvm.crash()
    tested.produce(300)
    settled(tested.partitions, first)
    all_read(tested.sent, everybody)
    assert quarrels(everybody) == []
    assert unexplained_repeats(everybody) == []
    first.leave()

    tested.produce(30)
    later = tested.join(shared_jvm, "later", config)
    all_read(tested.sent, [*everybody, later])
    assert sorted(later.records) == sorted(tested.sent[-30:]), (
        "it resumes where the group has committed"
    )
    later.leave()
    assert tested.described() == (kind, "EMPTY", 0)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_static_members_return_without_rebalance_and_the_leader_still_watches_topics(
    bootstrap: str, shared_jvm: Jvm, killable_jvm: Jvm, assignor: str
) -> None:
    a, b, c = (
        classic(assignor, session_timeout_ms=20_000, group_instance_id=each) for each in "abc"
    )
    tested = GroupUnderTest(bootstrap, shared_jvm, 6)
    leader = tested.join(killable_jvm, "leader", a)
    settled(tested.partitions, leader)
    second = tested.join(shared_jvm, "second", b)
    third = tested.join(shared_jvm, "third", c)
    settled(tested.partitions, leader, second, third)
    until(
        lambda: leader.generation == second.generation == third.generation,
        "everybody has the last generation",
    )
    before = [(member.generation, member.owned) for member in (leader, second, third)]

    second.leave()
    again = tested.join(shared_jvm, "second again", b)
    settled(tested.partitions, leader, again, third)
    assert [(member.generation, member.owned) for member in (leader, again, third)] == before

    killable_jvm.crash()
    leader_again = tested.join(shared_jvm, "leader again", a)
    settled(tested.partitions, leader_again, again, third)
    everybody = [leader_again, again, third]
    assert [(member.generation, member.owned) for member in everybody] == before
    tested.produce(60)
    all_read(tested.sent, everybody)

    tested.grow(9)
    settled(tested.partitions, *everybody)
    tested.produce(90)
    all_read(tested.sent, everybody)
    assert unexplained_repeats([leader, second, *everybody]) == []
    for member in everybody:
        member.leave()


def test_a_second_member_with_the_same_instance_id_fences_the_first(
    bootstrap: str, shared_jvm: Jvm
) -> None:
    tested = GroupUnderTest(bootstrap, shared_jvm, 3)
    config = classic("cooperative-sticky", group_instance_id="a")
    first = tested.join(shared_jvm, "first", config)
    settled(tested.partitions, first)
    second = tested.join(shared_jvm, "second", config)
    assert "FencedInstanceId" in first.fails()
    settled(tested.partitions, second)
    second.leave()


def test_an_admin_removes_a_static_member_that_has_gone(bootstrap: str, shared_jvm: Jvm) -> None:
    tested = GroupUnderTest(bootstrap, shared_jvm, 4)
    one, two = (
        tested.join(
            shared_jvm, each, classic("range", session_timeout_ms=60_000, group_instance_id=each)
        )
        for each in ("a", "b")
    )
    settled(tested.partitions, one, two)
    two.leave()
    assert tested.described() == (ConsumerGroupType.CLASSIC, "STABLE", 2), "its place is kept"
    tested.remove("b")
    settled(tested.partitions, one)
    one.leave()
    tested.remove("a")
    assert tested.described() == (ConsumerGroupType.CLASSIC, "EMPTY", 0)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_members_go_on_in_their_generation_after_the_broker_was_killed(
    broker: "Served", shared_jvm: Jvm, assignor: str
) -> None:
    tested = GroupUnderTest(broker.bootstrap, shared_jvm, 4)
    # else the leader forgets the topic
    config = classic(assignor, session_timeout_ms=10_000, metadata_recovery_strategy="none")
    both = [tested.join(shared_jvm, name, config) for name in ("one", "two")]
    settled(tested.partitions, *both)
    tested.produce(60)
    all_read(tested.sent, both)
    before = [(member.generation, member.owned) for member in both]
    broker.kill()
    broker.start()
    tested.produce(60)
    all_read(tested.sent, both)
    assert [(member.generation, member.owned) for member in both] == before
    assert unexplained_repeats(both) == []
    for member in both:
        member.leave()
