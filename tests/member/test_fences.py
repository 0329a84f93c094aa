"""The fence of a sink, which admits each offset of a batch once."""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.member.batch.fences import LostOffsets, RangeAdmission, admit, admit_range, advance
from apportion.member.batch.span import Span, sorted_span
from tests.member.test_span import P, spans

if TYPE_CHECKING:
    from apportion.topics import TopicIdPartition


def test_an_absent_fence_admits_everything_and_is_set_to_the_end() -> None:
    assert admit_range(P, (900, 1200), None) == RangeAdmission(900, 1200, 1200)
    assert admit_range(P, (900, 900), None) == RangeAdmission(
        900, 900, 900
    )  # or nobody could tell that a later range leaves some out


def test_a_batch_that_follows_others_is_admitted_by_a_fence_alone() -> None:
    following = sorted_span("", {P: (900, 1200)})._replace(sinks=("/t",))
    with pytest.raises(
        LostOffsets,
        match="t-0: the sink has nothing of it, but the batch starts at 900, above records",
    ):
        admit(following, {})
    assert admit(following, {}, fail_on_data_loss=False) == {P: RangeAdmission(900, 1200, 1200)}
    assert admit(following, {P: 900}) == {P: RangeAdmission(900, 1200, 1200)}
    assert admit(following, {P: 1200}) == {P: RangeAdmission(1200, 1200, None)}
    with pytest.raises(LostOffsets, match="200 lost"):
        admit(following, {P: 700})


def test_a_batch_with_which_the_sink_begins_needs_no_fence() -> None:
    starting = sorted_span("", {P: (900, 1200)})._replace(sinks=("/t",), starting=(P,))
    assert admit(starting, {}) == {P: RangeAdmission(900, 1200, 1200)}
    whole = sorted_span("", {P: (0, 1200)})._replace(sinks=("/t",))
    assert admit(whole, {}) == {P: RangeAdmission(0, 1200, 1200)}
    # a span of an older format does not say which it is
    assert admit(sorted_span("", {P: (900, 1200)}), {}) == {P: RangeAdmission(900, 1200, 1200)}


def test_a_fence_admits_what_is_above_it_and_never_moves_back() -> None:
    assert admit_range(P, (900, 1200), 900) == RangeAdmission(900, 1200, 1200)
    assert admit_range(P, (900, 1200), 1000) == RangeAdmission(1000, 1200, 1200)
    assert admit_range(P, (900, 1200), 1200) == RangeAdmission(1200, 1200, None)
    assert admit_range(P, (900, 1200), 5000) == RangeAdmission(1200, 1200, None)


def test_a_span_above_the_fence_is_lost_data_unless_that_is_allowed() -> None:
    with pytest.raises(
        LostOffsets,
        match=(
            "t-0: the sink has everything below offset 700, but the batch starts at 900: 200 lost"
        ),
    ):
        admit_range(P, (900, 1200), 700)
    assert admit_range(P, (900, 1200), 700, fail_on_data_loss=False) == RangeAdmission(
        900, 1200, 1200
    )
    with pytest.raises(LostOffsets):
        admit(sorted_span("", {P: (900, 900)}), {P: 700})


@given(spans)
def test_a_replay_is_admitted_nothing(batch: Span) -> None:
    fences = advance({}, admit(batch, {}, fail_on_data_loss=False))
    again = admit(batch, fences)
    assert all(
        admission.lower == admission.to and admission.fence is None for admission in again.values()
    )
    assert advance(fences, again) == fences


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_each_offset_is_written_once_whoever_writes_in_whatever_order(data: st.DataObject) -> None:
    """Owners take over from what the group has, which is never above the fence; zombies may write
    anything planned before.
    """
    written: list[int] = []
    fences: dict[TopicIdPartition, int] = {}
    committed = 0
    planned: list[Span] = []
    for _ in range(data.draw(st.integers(1, 25))):
        move = data.draw(st.sampled_from(["plan", "write", "commit"]))
        if move == "plan":
            start = committed
            planned.append(sorted_span("", {P: (start, start + data.draw(st.integers(0, 9)))}))
        elif move == "write" and planned:
            batch = data.draw(st.sampled_from(planned))
            admission = admit(batch, fences)[P]
            written += range(admission.lower, admission.to)
            fences = advance(fences, {P: admission})
        elif move == "commit":
            done = [
                batch.ranges[P][1] for batch in planned if batch.ranges[P][1] <= fences.get(P, 0)
            ]
            committed = max([committed, *done])
    assert written == list(range(fences.get(P, 0)))
