"""Java's consumers and producers: members that come, go, die and return, with each assignor of the
classic protocol.
"""

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ConsumerGroupType

from tests.compat.java.history import all_read, quarrels, settled, unexplained_repeats, until
from tests.compat.java.jvm import Jvm, classic, modern
from tests.compat.java.stage import Stage

if TYPE_CHECKING:
    from tests.compat.conftest import Served


ASSIGNORS = ("range", "sticky", "cooperative-sticky")
SESSION_SECONDS = 4  # as in jvm.QUICK

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("protocol", [*ASSIGNORS, "consumer"])
def test_three_members_share_leave_and_die_and_every_record_is_read(
    bootstrap: str, resident: Jvm, mortal: Jvm, protocol: str
) -> None:
    config = modern() if protocol == "consumer" else classic(protocol)
    kind = ConsumerGroupType.CONSUMER if protocol == "consumer" else ConsumerGroupType.CLASSIC
    stage = Stage(bootstrap, resident, 6)
    stage.produce(300)
    first = stage.join(resident, "first", config)
    settled(stage.partitions, first)
    second, third = stage.join(resident, "second", config), stage.join(mortal, "third", config)
    settled(stage.partitions, first, second, third)
    everybody = [first, second, third]
    stage.produce(300)
    all_read(stage.sent, everybody)
    assert stage.described() == (kind, "STABLE", 3)

    before = set(first.owned), set(third.owned)
    second.leave()
    took = settled(stage.partitions, first, third)
    assert took < SESSION_SECONDS, "a leave is not found out by a timeout"
    if protocol != "range":
        assert before[0] < set(first.owned), "who stays keeps what it has"
        assert before[1] < set(third.owned), "who stays keeps what it has"
    mortal.crash()
    stage.produce(300)
    settled(stage.partitions, first)
    all_read(stage.sent, everybody)
    assert quarrels(everybody) == []
    assert unexplained_repeats(everybody) == []
    first.leave()

    stage.produce(30)
    later = stage.join(resident, "later", config)
    all_read(stage.sent, [*everybody, later])
    assert sorted(later.records) == sorted(stage.sent[-30:]), (
        "it resumes where the group has committed"
    )
    later.leave()
    assert stage.described() == (kind, "EMPTY", 0)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_static_members_return_without_rebalance_and_the_leader_still_watches_topics(
    bootstrap: str, resident: Jvm, mortal: Jvm, assignor: str
) -> None:
    a, b, c = (
        classic(assignor, session_timeout_ms=20_000, group_instance_id=each) for each in "abc"
    )
    stage = Stage(bootstrap, resident, 6)
    leader = stage.join(mortal, "leader", a)
    settled(stage.partitions, leader)
    second = stage.join(resident, "second", b)
    third = stage.join(resident, "third", c)
    settled(stage.partitions, leader, second, third)
    until(
        lambda: leader.generation == second.generation == third.generation,
        "everybody has the last generation",
    )
    before = [(member.generation, member.owned) for member in (leader, second, third)]

    second.leave()
    again = stage.join(resident, "second again", b)
    settled(stage.partitions, leader, again, third)
    assert [(member.generation, member.owned) for member in (leader, again, third)] == before

    mortal.crash()
    leader_again = stage.join(resident, "leader again", a)
    settled(stage.partitions, leader_again, again, third)
    everybody = [leader_again, again, third]
    assert [(member.generation, member.owned) for member in everybody] == before
    stage.produce(60)
    all_read(stage.sent, everybody)

    stage.grow(9)
    settled(stage.partitions, *everybody)
    stage.produce(90)
    all_read(stage.sent, everybody)
    assert unexplained_repeats([leader, second, *everybody]) == []
    for member in everybody:
        member.leave()


def test_a_second_member_with_the_same_instance_id_fences_the_first(
    bootstrap: str, resident: Jvm
) -> None:
    stage = Stage(bootstrap, resident, 3)
    config = classic("cooperative-sticky", group_instance_id="a")
    first = stage.join(resident, "first", config)
    settled(stage.partitions, first)
    second = stage.join(resident, "second", config)
    assert "FencedInstanceId" in first.fails()
    settled(stage.partitions, second)
    second.leave()


def test_an_admin_removes_a_static_member_that_has_gone(bootstrap: str, resident: Jvm) -> None:
    stage = Stage(bootstrap, resident, 4)
    one, two = (
        stage.join(
            resident, each, classic("range", session_timeout_ms=60_000, group_instance_id=each)
        )
        for each in ("a", "b")
    )
    settled(stage.partitions, one, two)
    two.leave()
    assert stage.described() == (ConsumerGroupType.CLASSIC, "STABLE", 2), "its place is kept"
    stage.remove("b")
    settled(stage.partitions, one)
    one.leave()
    stage.remove("a")
    assert stage.described() == (ConsumerGroupType.CLASSIC, "EMPTY", 0)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_members_go_on_in_their_generation_after_the_broker_was_killed(
    broker: "Served", resident: Jvm, assignor: str
) -> None:
    stage = Stage(broker.bootstrap, resident, 4)
    # else the leader forgets the topic
    config = classic(assignor, session_timeout_ms=10_000, metadata_recovery_strategy="none")
    both = [stage.join(resident, name, config) for name in ("one", "two")]
    settled(stage.partitions, *both)
    stage.produce(60)
    all_read(stage.sent, both)
    before = [(member.generation, member.owned) for member in both]
    broker.kill()
    broker.start()
    stage.produce(60)
    all_read(stage.sent, both)
    assert [(member.generation, member.owned) for member in both] == before
    assert unexplained_repeats(both) == []
    for member in both:
        member.leave()
