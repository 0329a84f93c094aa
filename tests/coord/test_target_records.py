"""Targets that are encoded from arrays: the bytes, and what they say, are those of each record."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.coord import records
from apportion.coord.consumer import target_records
from apportion.coord.consumer.target_records import TargetRecords, encode_targets
from apportion.coord.records import Append, CoordinatorRecord
from apportion.coord.replay import apply_target_assignment, apply_targets
from apportion.topics import Topics
from apportion.wire.record_fields import encode_record
from apportion.wire.records.codec import encode_key, encode_value
from tests.coord.shard_driver import ShardDriver, state_of

IDS = tuple(bytes([number]) * 16 for number in range(1, 5))
# a topic of few partitions, of as many as need two bytes to count, of large numbers
PARTITIONS = st.lists(
    st.integers(0, 3) | st.integers(0, 300) | st.just(2**31 - 1), max_size=150, unique=True
).map(sorted)
TARGETS = st.lists(st.dictionaries(st.integers(0, 3), PARTITIONS), max_size=6)


def targets_of(parts: list[dict[int, list[int]]]) -> TargetRecords:
    """The records of members with these partitions, by the number of their topic."""
    pairs = [
        (index, number << 32 | partition)
        for index, topics in enumerate(parts)
        for number in sorted(topics)
        for partition in topics[number]
    ]
    return encode_targets(
        "g",
        [f"m{index}" for index in range(len(parts))],
        np.array([index for index, _ in pairs], np.int64),
        np.array([unit for _, unit in pairs], np.int64),
        ids=IDS,
    )


def one_by_one(parts: list[dict[int, list[int]]]) -> list[CoordinatorRecord]:
    """The same records, each made by itself."""
    return [
        records.target_assignment(
            "g",
            f"m{index}",
            [(IDS[number], tuple(topics[number])) for number in sorted(topics) if topics[number]],
        )
        for index, topics in enumerate(parts)
    ]


@pytest.mark.parametrize("few", [0, target_records.FEW_BLOCKS], ids=["at-once", "one-by-one"])
@given(parts=TARGETS)
def test_the_records_of_a_target_have_the_bytes_of_each_record(
    few: int, parts: list[dict[int, list[int]]]
) -> None:
    wanted = one_by_one(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(target_records, "FEW_BLOCKS", few)
        made = targets_of(parts)
    assert list(made.records()) == wanted
    assert made.encoded() == [
        encode_record(encode_key(record.key), encode_value(record.value)) for record in wanted
    ]
    assert Append((made,)).encoded() == Append(tuple(wanted)).encoded()
    assert list(Append((made,)).one_by_one()) == wanted


@given(TARGETS)
def test_to_apply_a_target_is_to_apply_each_record(parts: list[dict[int, list[int]]]) -> None:
    at_once, singly = ShardDriver(known=Topics()), ShardDriver(known=Topics())
    for driver in (at_once, singly):
        driver.shard.ledger.groups.clear()
    if parts:
        apply_targets(at_once.shard.ledger, targets_of(parts))
    for record in one_by_one(parts):
        apply_target_assignment(singly.shard.ledger, record.key, record.value)
    assert state_of(at_once.shard) == state_of(singly.shard)


def test_the_records_of_those_who_have_gone_are_left_out_and_others_renamed() -> None:
    parts = [{0: [1, 2]}, {1: [5]}, {}]
    made = targets_of(parts)
    assert made.of_members(["m0", "m1", "m2"]) is made
    left = made.of_members([None, "successor", "m2"])
    _, second, third = one_by_one(parts)
    assert list(left.records()) == [
        second._replace(key=type(second.key)(group_id="g", member_id="successor")),
        third,
    ]
    assert [units.tolist() for units in left.units] == [[1 << 32 | 5], []]


def test_units_that_were_made_by_other_numbers_of_topics_are_not_applied() -> None:
    driver: Any = ShardDriver()
    driver.join("a")
    with pytest.raises(AssertionError, match="other numbers"):
        apply_targets(driver.shard.ledger, targets_of([{0: [1]}]))
