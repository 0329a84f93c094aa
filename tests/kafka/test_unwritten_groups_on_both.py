"""Groups that a refused commit was the first to name, on our broker and on a real Kafka."""

from tests.kafka.differential.classic_play import answered, exchange
from tests.kafka.differential.classic_steps import RANGE, DescribeClassic, Join, Sync
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import Commit, Offset

ALIKE = {"group.initial.rebalance.delay.ms": 0}
METADATA_TOO_LARGE = 12


def states(sides: tuple[Side, Side], group: str) -> list[str]:
    """What state the group has on each broker."""
    return [each["answer"][group]["state"] for each in exchange(sides, DescribeClassic((group,)))]


def test_kafka_describes_a_group_that_a_refused_commit_named_once_it_is_synced(
    sides: tuple[Side, Side], group: str
) -> None:
    refused = Offset("three", 0, 1, note=4097)
    codes = [
        each["answer"]["three-0"] for each in exchange(sides, Commit(group, "", -1, (refused,)))
    ]
    assert codes == [METADATA_TOO_LARGE] * 2
    assert states(sides, group) == ["Dead", "Dead"]
    joined = answered(sides, Join(group, "a", ((RANGE, b""),), version=3))
    assert [each["code"] for each in joined] == [0, 0]
    assert states(sides, group) == ["CompletingRebalance", "Dead"]
    assert [each["code"] for each in answered(sides, Sync(group, "a", 1, version=3))] == [0, 0]
    assert states(sides, group) == ["Stable", "Stable"]
