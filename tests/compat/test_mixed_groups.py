"""One group of members that different people wrote: cooperative-sticky whoever leads it, and of
both protocols at once.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

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
)
from tests.compat.java.jvm import Jvm, classic, modern
from tests.compat.java.threads import joined, librdkafka, ours

THREADS = {"librdkafka": librdkafka, "apportion": ours}
KINDS = ("java", *THREADS)

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def tested(bootstrap: str, shared_jvm: Jvm) -> GroupUnderTest:
    return GroupUnderTest(bootstrap, shared_jvm, 7)


@pytest.fixture
def join(
    tested: GroupUnderTest, bootstrap: str, shared_jvm: Jvm, tmp_path: Path
) -> Iterator[Callable[..., Actor]]:
    """`join(kind)` is one more member of that kind; all have left at the end."""
    everybody: list[Actor] = []

    def another(kind: str, protocol: str = "classic") -> Actor:
        name = f"{kind} {protocol} {len(everybody)}"
        if kind == "java":
            member = tested.join(
                shared_jvm,
                name,
                modern() if protocol == "consumer" else classic("cooperative-sticky"),
            )
        else:
            member = joined(
                THREADS[kind], name, tmp_path, bootstrap, tested.group, tested.topic, protocol
            )
        everybody.append(member)
        return member

    yield another
    for member in everybody:
        member.leave()


@pytest.mark.parametrize("leads", KINDS)
def test_members_of_all_kinds_share_keep_and_read_everything(
    tested: GroupUnderTest, join: Callable[..., Actor], leads: str
) -> None:
    flow = tested.flow(pause_ms=5)
    present: list[Actor] = []
    # who is first leads as long as it stays
    for kind in sorted(KINDS, key=lambda kind: kind != leads):
        before = owned_by(present)
        present.append(join(kind))
        settled(tested.partitions, *present)
        assert_moved_little(before, owned_by(present))
        until(lambda: present[-1].records, f"the {kind} member reads")
    everybody = list(present)
    tested.grow(10)  # the leader is the one who must notice
    settled(tested.partitions, *present)

    for leaver in (present[1], present[0]):
        before = owned_by(present)
        present.remove(leaver)
        leaver.leave()
        settled(tested.partitions, *present)
        assert_moved_little(before, owned_by(present))
    for kind in KINDS:
        before = owned_by(present)
        present.append(join(kind))
        settled(tested.partitions, *present)
        assert_moved_little(before, owned_by(present))

    everybody += present[-len(KINDS) :]
    all_read(flow.leave().records, everybody)
    assert quarrels(everybody) == []
    assert unexplained_repeats(everybody) == []
    assert [each for each in timeline(everybody) if each["event"] == "lost"] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_members_of_all_kinds_and_both_protocols_come_and_go_at_random(
    tested: GroupUnderTest, join: Callable[..., Actor], seed: int
) -> None:
    chance = random.Random(seed)
    flow = tested.flow(pause_ms=5)
    present: list[Actor]
    everybody: list[Actor]
    protocols: set[ConsumerGroupType]
    present, everybody, protocols = [], [], set()
    for _ in range(20):
        for _ in range(chance.randint(1, 3)):  # faster than the group can settle
            if len(present) > 1 and chance.random() < len(present) / 8:
                present.pop(chance.randrange(len(present))).leave()
            else:
                protocol = chance.choice(("classic", "consumer"))
                present.append(join(chance.choice(KINDS), protocol))
                everybody.append(present[-1])
        settled(tested.partitions, *present)
        protocols.add(tested.described()[0])
    all_read(flow.leave().records, everybody)
    assert quarrels(everybody) == []
    assert unexplained_repeats(everybody) == []
    assert protocols == {ConsumerGroupType.CLASSIC, ConsumerGroupType.CONSUMER}


def owned_by(members: list[Actor]) -> dict[str, set[str]]:
    """{name: partitions} of `members`."""
    return {member.name: set(member.owned) for member in members}


def assert_moved_little(before: dict[str, set[str]], after: dict[str, set[str]]) -> None:
    """Among those who stayed, each has only more than before, or only less: nothing was swapped."""
    assert [
        name
        for name in before.keys() & after.keys()
        if not (before[name] <= after[name] or after[name] <= before[name])
    ] == []
