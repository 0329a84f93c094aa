"""What a member that works in batches reads next: the laws, and each rule of the design by
example.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.log_bounds import LogBounds
from apportion.member.batch.plan import (
    BatchPlan,
    Gap,
    PlanInput,
    ReadLimits,
    StartingOffsets,
    plan_batch,
    split_limit,
)
from apportion.member.batch.span import EMPTY_SPAN, sorted_span
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

ID, OTHER_ID = b"i" * 16, b"o" * 16
P0, P1, P2 = (TopicIdPartition("t", ID, number) for number in range(3))
FROM_EARLIEST = StartingOffsets(default=EARLIEST)


def plan_input(logs: dict[TopicIdPartition, tuple[int, int]], **fields: Any) -> PlanInput:
    return PlanInput(
        checkpoint="c",
        logs={partition: LogBounds(*log) for partition, log in logs.items()},
        **fields,
    )


def test_before_anything_is_owned_nothing_changes() -> None:
    assert plan_batch(EMPTY_SPAN, plan_input({})) == BatchPlan(EMPTY_SPAN, {}, ())


def test_an_unknown_partition_starts_by_the_rule_and_commits_its_start_first() -> None:
    logs = {P0: (5, 20), P1: (0, 30), P2: (2, 40)}
    starting = StartingOffsets(default=LATEST, by_partition={("t", 1): EARLIEST, ("t", 2): 17})
    assert plan_batch(EMPTY_SPAN, plan_input(logs, starting_offsets=starting)) == BatchPlan(
        sorted_span("c", {P0: (20, 20), P1: (0, 30), P2: (17, 40)}), {P0: 20, P1: 0, P2: 17}, ()
    )


def test_a_start_may_be_given_as_spark_and_the_wire_number_it() -> None:
    assert (EARLIEST, LATEST) == (-2, -1)
    starting = StartingOffsets(by_partition={("t", 0): -2, ("t", 1): -1})
    logs = {P0: (5, 20), P1: (5, 20), P2: (5, 20)}
    assert plan_batch(EMPTY_SPAN, plan_input(logs, starting_offsets=starting)).commit_first == {
        P0: 5,
        P1: 20,
        P2: 20,
    }


def test_a_partition_born_while_its_topic_was_read_starts_at_its_beginning() -> None:
    assert plan_batch(EMPTY_SPAN, plan_input({P0: (3, 9)}, new_partitions={P0})) == BatchPlan(
        sorted_span("c", {P0: (3, 9)}), {P0: 3}, ()
    )


def test_a_gained_partition_starts_where_the_group_or_the_last_span_is_further() -> None:
    previous = sorted_span("c", {P0: (0, 10), P1: (0, 10)})
    logs = {P0: (0, 50), P1: (0, 50), P2: (0, 50)}
    committed = {P0: 30, P1: 4, P2: 7}
    assert plan_batch(previous, plan_input(logs, committed=committed)) == BatchPlan(
        sorted_span("c", {P0: (30, 50), P1: (10, 50), P2: (7, 50)}), {}, ()
    )


def test_a_partition_of_another_topic_id_does_not_continue_the_old_one() -> None:
    again = TopicIdPartition("t", OTHER_ID, 0)
    assert plan_batch(
        sorted_span("c", {P0: (0, 10)}), plan_input({again: (0, 3)}, starting_offsets=FROM_EARLIEST)
    ) == BatchPlan(sorted_span("c", {again: (0, 3)}), {again: 0}, ())


def test_a_kept_partition_goes_on_where_the_last_span_ended_whatever_the_group_says() -> None:
    previous = sorted_span("c", {P0: (0, 10)})
    assert plan_batch(
        previous, plan_input({P0: (0, 12)}, kept={P0}, committed={P0: 99})
    ) == BatchPlan(sorted_span("c", {P0: (10, 12)}), {}, ())


def test_nothing_new_gives_back_the_very_span() -> None:
    previous = sorted_span("c", {P0: (0, 10), P1: (7, 7)})
    assert (
        plan_batch(previous, plan_input({P0: (0, 10), P1: (0, 7)}, kept={P0, P1})).span is previous
    )


def test_a_new_life_with_the_same_partitions_and_no_news_gives_back_the_very_span() -> None:
    previous = sorted_span("c", {P0: (0, 10)})
    assert plan_batch(previous, plan_input({P0: (0, 10)}, committed={P0: 10})).span is previous


def test_a_change_of_owner_alone_is_a_new_span() -> None:
    previous = sorted_span("c", {P0: (0, 10), P1: (7, 7)})
    assert plan_batch(previous, plan_input({P0: (0, 10)}, kept={P0})).span == sorted_span(
        "c", {P0: (10, 10)}
    )
    assert plan_batch(previous, plan_input({})).span == sorted_span("c", {})


def test_offsets_that_were_deleted_or_cut_off_are_named() -> None:
    previous = sorted_span("c", {P0: (0, 10), P1: (0, 10)})
    answer = plan_batch(previous, plan_input({P0: (25, 40), P1: (0, 8)}, kept={P0, P1}))
    assert answer == BatchPlan(
        sorted_span("c", {P0: (25, 40), P1: (8, 8)}), {}, (Gap(P0, 10, 25), Gap(P1, 10, 8))
    )
    assert [str(gap) for gap in answer.gaps] == [
        "t-0: offsets [10, 25) were deleted",
        "t-1: offsets [8, 10) are no longer in the log",
    ]


def test_caps_end_each_partition_for_good_and_what_has_no_cap_is_not_read() -> None:
    previous = sorted_span("c", {P0: (0, 10), P1: (0, 10), P2: (0, 10)})
    logs = {P0: (0, 99), P1: (0, 99), P2: (0, 99)}
    assert plan_batch(
        previous, plan_input(logs, kept={P0, P1, P2}, limits=ReadLimits(ends={P0: 15, P1: 9}))
    ).span == sorted_span("c", {P0: (10, 15), P1: (10, 10), P2: (10, 10)})


def test_fewer_offsets_than_the_least_are_left_and_ownership_is_planned_all_the_same() -> None:
    previous = sorted_span("c", {P0: (0, 10)})
    kept = plan_input({P0: (0, 14)}, kept={P0}, limits=ReadLimits(least_offsets=5))
    assert plan_batch(previous, kept).span is previous
    enough = plan_input({P0: (0, 15)}, kept={P0}, limits=ReadLimits(least_offsets=5))
    assert plan_batch(previous, enough).span == sorted_span("c", {P0: (10, 15)})
    gained = plan_input(
        {P0: (0, 12), P1: (0, 2)}, kept={P0}, committed={P1: 0}, limits=ReadLimits(least_offsets=5)
    )
    assert plan_batch(previous, gained).span == sorted_span("c", {P0: (10, 10), P1: (0, 0)})


def test_a_limit_is_split_by_lag() -> None:
    previous = sorted_span("c", {P0: (0, 0), P1: (0, 0), P2: (0, 0)})
    logs = {P0: (0, 1000), P1: (0, 100), P2: (0, 1)}
    assert plan_batch(
        previous, plan_input(logs, kept={P0, P1, P2}, limits=ReadLimits(112))
    ).span == sorted_span("c", {P0: (0, 100), P1: (0, 11), P2: (0, 1)})


def test_a_remainder_goes_to_the_largest_fractions_and_among_equals_by_turn() -> None:
    assert split_limit({P0: 8, P1: 5, P2: 3}, 8, rotation=0) == {P0: 4, P1: 2, P2: 2}
    assert split_limit({P0: 4, P1: 4, P2: 4}, 4, rotation=1) == {P0: 1, P1: 2, P2: 1}


partitions = [TopicIdPartition("t", ID, number) for number in range(6)]
lags = st.lists(st.integers(0, 200), min_size=1, max_size=6).map(
    lambda values: dict(zip(partitions, values, strict=False))
)


@settings(deadline=None)
@given(lags, st.integers(1, 300), st.integers(0, 10**6))
def test_a_limit_is_used_up_exactly_and_nobody_gets_more_than_its_lag(
    lags: dict[TopicIdPartition, int], limit: int, turn: int
) -> None:
    shares = split_limit(lags, limit, turn)
    assert sum(shares.values()) == min(limit, sum(lags.values()))
    assert all(0 <= shares[partition] <= lag for partition, lag in lags.items())
    if limit >= sum(1 for lag in lags.values() if lag):
        assert all(shares[partition] >= 1 for partition, lag in lags.items() if lag)


@settings(deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=6), st.integers(1, 8))
def test_every_lagging_partition_is_served_within_a_few_batches(
    ends: list[int], limit: int
) -> None:
    current = sorted_span("c", dict.fromkeys(partitions[: len(ends)], (0, 0)))
    logs = {partition: (0, end) for partition, end in zip(partitions, ends, strict=False)}
    waited = dict.fromkeys(logs, 0)
    while True:
        after = plan_batch(current, plan_input(logs, kept=logs, limits=ReadLimits(limit))).span
        if after is current:
            break
        for partition, (start, to) in after.ranges.items():
            waited[partition] = (
                0 if to > start or to == logs[partition][1] else waited[partition] + 1
            )
            assert waited[partition] <= len(ends)
        current = after
    assert current.end_offsets() == {partition: end for partition, (_, end) in logs.items()}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_owners_that_come_and_go_read_every_offset_and_the_fence_writes_it_once(
    data: st.DataObject,
) -> None:
    """Two checkpoints share partitions; each plans only for what it owns; a takeover starts from
    the group's offset.
    """
    mine = partitions[:3]
    ends = {partition: data.draw(st.integers(0, 30)) for partition in mine}
    logs = {partition: (0, end) for partition, end in ends.items()}
    committed = dict.fromkeys(mine)
    written: dict[TopicIdPartition, list[int]] = {partition: [] for partition in mine}
    spans = {"a": EMPTY_SPAN, "b": EMPTY_SPAN}
    owner = dict.fromkeys(mine, "a")
    kept: dict[str, tuple[TopicIdPartition, ...]] = {"a": (), "b": ()}
    for _ in range(data.draw(st.integers(1, 30))):
        who = data.draw(st.sampled_from(["a", "b"]))
        # its last batch is written, so its end goes to the group
        for partition, to in spans[who].end_offsets().items():
            if owner[partition] == who and (committed[partition] or 0) < to:
                committed[partition] = to
        if data.draw(st.booleans()):  # what it owned passes to the other one
            owner = dict.fromkeys(mine, "b" if who == "a" else "a")
            kept = {"a": (), "b": ()}
        owned = {partition: logs[partition] for partition in mine if owner[partition] == who}
        answer = plan_batch(
            spans[who],
            PlanInput(
                "c",
                {p: LogBounds(*log) for p, log in owned.items()},
                kept[who],
                dict(committed),
                FROM_EARLIEST,
                limits=ReadLimits(5),
            ),
        )
        committed |= answer.commit_first
        for partition, (start, to) in answer.span.ranges.items():
            if answer.span is not spans[who]:
                written[partition] += [
                    offset for offset in range(start, to) if offset not in written[partition]
                ]
                assert start <= len(written[partition])
        spans[who], kept[who] = answer.span, tuple(owned)
        assert not answer.gaps
    assert all(offsets == list(range(len(offsets))) for offsets in written.values())
