"""The assignors by weight: what they ask, what they measure, and who gets what."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.assign.checks import check_given
from apportion.errors import Code, Refused, Unanswerable
from apportion.member.assignors.interface import FollowUp, MeasuringAssignor
from apportion.member.assignors.strategy import local_assignors, strategy
from apportion.member.assignors.weighted import BytesWeighted, LagWeighted
from apportion.rules import run_rule
from apportion.streams.queries import (
    FetchCommittedOffsets,
    ListEndOffsets,
    ListStartOffsets,
)
from apportion.topics import TopicPartition

FOUR = {"t": TopicShape(4)}
PARTITIONS = tuple(TopicPartition("t", number) for number in range(4))
TWO = {"a": Subscription(("t",)), "b": Subscription(("t",))}


def parts(*numbers: int) -> Given:
    return Given(by_topic([("t", number) for number in numbers]))


def assign_by_lag(
    answers: Mapping[Any, Any], members: Mapping[str, Subscription] = TWO, least: int = 1
) -> Any:
    """What the assignor gives, if the cluster answers its queries so."""

    def answer(query: Any) -> Any:
        assert query.partitions == PARTITIONS
        found = answers[type(query)]
        if isinstance(found, Exception):
            raise found
        return dict(zip(PARTITIONS, found, strict=True))

    return run_rule(LagWeighted(least).assign(FOUR, members), answer)


def test_members_get_about_the_same_lag() -> None:
    offsets = {
        ListEndOffsets: (900, 300, 700, 400),
        ListStartOffsets: (0, 0, 400, 0),
        # Nothing is committed of partition 2, which has lost its first 400 records.
        FetchCommittedOffsets: (0, 0, 0, 100),
    }
    assert assign_by_lag(offsets) == {"a": parts(0), "b": parts(1, 2, 3)}


def test_a_small_lag_moves_nothing() -> None:
    offsets = {
        ListEndOffsets: (900, 0, 0, 0),
        ListStartOffsets: (0, 0, 0, 0),
        FetchCommittedOffsets: (0, 0, 0, 0),
    }
    members = {
        "a": Subscription(("t",), owned=by_topic([("t", 0), ("t", 1)])),
        "b": Subscription(("t",), owned=by_topic([("t", 2), ("t", 3)])),
    }
    assert assign_by_lag(offsets, members, least=1_000) == {"a": parts(0, 1), "b": parts(2, 3)}


@pytest.mark.parametrize("error", [Unanswerable("no"), Refused(Code.UNKNOWN_TOPIC_OR_PARTITION)])
def test_numbers_count_where_the_cluster_does_not_say_the_lag(error: Exception) -> None:
    assert assign_by_lag({ListEndOffsets: error}) == {"a": parts(0, 2), "b": parts(1, 3)}


def test_a_consumer_measures_its_bytes_per_second() -> None:
    assignor = BytesWeighted(measure_ms=1_000)
    for at_ms, sizes in ((0, (500, 0)), (400, (700, 0)), (2_000, (800, 30))):
        assert assignor.user_data(("t",)) is None
        assignor.record_fetched(dict(zip(PARTITIONS, sizes, strict=False)), at_ms)
    assert assignor.user_data(("t",)) == b'{"t":{"0":1000,"1":15}}'


def test_a_measure_is_of_the_newest_partitions_alone() -> None:
    assignor = BytesWeighted(measure_ms=1_000)
    assignor.record_fetched({PARTITIONS[0]: 10}, 0)
    assignor.record_fetched({PARTITIONS[0]: 990}, 1_000)
    assignor.record_fetched({PARTITIONS[1]: 3_000}, 3_000)
    assert assignor.user_data(("t",)) == b'{"t":{"1":1500}}'


def test_a_heartbeat_carries_the_highest_rates() -> None:
    assignor = BytesWeighted(measure_ms=1_000)
    fetched = {TopicPartition("t", number): 1_000 + number for number in range(9_000)}
    assignor.record_fetched(fetched, 0)
    assignor.record_fetched({}, 1_000)
    sent = assignor.user_data(("t",)) or b""
    rates = json.loads(sent)["t"]
    assert 59_900 < len(sent) <= 60_000
    assert sorted(map(int, rates)) == list(range(9_000 - len(rates), 9_000))


def asks(after_ms: int) -> FollowUp:
    return FollowUp(0, "partitions are measured", after_ms=after_ms)


def test_new_partitions_are_measured_before_they_are_assigned_again() -> None:
    assignor = BytesWeighted(measure_ms=1_000)
    assert assignor.on_assignment(parts(0), 1) == asks(2_000)
    assignor.record_fetched({PARTITIONS[0]: 10}, 70_000)
    assignor.record_fetched({PARTITIONS[0]: 10}, 71_500)
    # The group has rebalanced before it was asked: the rest of the time counts on.
    assert assignor.on_assignment(parts(0), 2) == asks(500)
    assignor.record_fetched({PARTITIONS[0]: 10}, 72_000)
    # What follows is the answer, and no reason to ask again.
    assert assignor.on_assignment(parts(0, 1), 3) is None
    assignor.record_fetched({PARTITIONS[0]: 10}, 74_000)
    assert assignor.on_assignment(parts(0), 4) is None
    assert assignor.on_assignment(parts(0, 1), 5) == asks(2_000)


def measuring(owned: tuple[int, ...], user_data: bytes | None) -> Subscription:
    return Subscription(("t",), user_data, by_topic([("t", number) for number in owned]))


def test_members_get_about_the_same_bytes_per_second() -> None:
    members = {
        # What the owner has measured counts, not what an earlier owner has.
        "a": measuring((0, 1), b'{"t":{"0":9000,"1":3000,"2":90000}}'),
        "b": measuring((2, 3), b'{"t":{"2":3000,"3":3000}}'),
    }
    assert BytesWeighted().assign(FOUR, members) == {"a": parts(0), "b": parts(1, 2, 3)}


def test_a_partition_that_nobody_has_measured_weighs_the_mean() -> None:
    members = {"a": measuring((), b'{"t":{"0":9000,"1":3000}}'), "b": measuring((), None)}
    assert BytesWeighted().assign(FOUR, members) == {"a": parts(0, 1), "b": parts(2, 3)}


@given(st.binary() | st.sampled_from([b"[]", b'{"t":7}', b'{"t":{"x":1}}', b'{"t":{"0":1e999}}']))
def test_user_data_of_any_client_raise_nothing(user_data: bytes) -> None:
    members = {"a": measuring((0,), user_data), "b": measuring((1,), None)}
    check_given(FOUR, members, BytesWeighted().assign(FOUR, members))


def test_of_two_claims_the_newer_one_counts() -> None:
    members = {
        "a": Subscription(("t",), owned=by_topic([("t", 0), ("t", 1)]), generation=2),
        "b": Subscription(("t",), owned=by_topic([("t", 1), ("t", 2), ("t", 9)]), generation=3),
        "c": Subscription((), owned=by_topic([("t", 3)]), generation=4),
    }
    given = BytesWeighted().assign(FOUR, members)
    assert given == {"a": parts(0, 3), "b": parts(1, 2), "c": parts()}


def test_both_have_names_for_either_protocol() -> None:
    names = ("lag-weighted", "bytes-weighted")
    kinds = [LagWeighted, BytesWeighted]
    assert [type(each) for each in strategy(names)] == kinds
    assert [type(each) for each in local_assignors(names)] == kinds
    assert [isinstance(each, MeasuringAssignor) for each in strategy(names)] == [False, True]
