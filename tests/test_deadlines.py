"""Deadlines against the plainest thing that could do the same: a dict that is sorted each time."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apportion.deadlines import Deadlines

KEYS = st.tuples(st.sampled_from(["fetch", "session"]), st.integers(0, 5))
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), KEYS, st.integers(0, 50)),
        st.tuples(st.just("disarm"), KEYS, st.none()),
        st.tuples(st.just("pop"), st.none(), st.integers(0, 50)),
    ),
    max_size=200,
)


def due_in(plain: dict[Any, Any], now_ms: Any) -> list[tuple[str, int]]:
    """What of a dict key -> time is due, in the order that is promised."""
    return [
        key
        for at_ms, key in sorted((at_ms, key) for key, at_ms in plain.items())
        if at_ms <= now_ms
    ]


@given(DEEDS)
def test_deadlines_are_a_dict_in_the_order_of_time_and_key(
    steps: list[tuple[str, tuple[str, int] | None, int | None]],
) -> None:
    deadlines, plain = Deadlines(), {}
    for step, key, at_ms in steps:
        if step == "arm":
            assert at_ms is not None
            assert key is not None
            deadlines.arm(key, at_ms)
            plain[key] = at_ms
        elif step == "disarm":
            assert key is not None
            deadlines.disarm(key)
            plain.pop(key, None)
        else:
            due = due_in(plain, at_ms)
            assert at_ms is not None
            assert list(deadlines.take_due(at_ms)) == due
            for each in due:
                del plain[each]
        assert deadlines.next_at() == min(plain.values(), default=None)
        assert len(deadlines) == len(plain)
        assert all(each in deadlines for each in plain)
    for at_ms in sorted({*plain.values()}):
        due = due_in(plain, at_ms)
        assert list(deadlines.take_due(at_ms)) == due
        for each in due:
            del plain[each]
    assert not len(deadlines)


def test_a_thousand_times_armed_is_one_deadline() -> None:
    deadlines = Deadlines()
    for at_ms in [*range(1000, 2000), *reversed(range(1000))]:
        deadlines.arm(("session", "a"), at_ms)
    assert list(deadlines.take_due(5000)) == [("session", "a")]
    assert (deadlines.next_at(), len(deadlines)) == (None, 0)


def test_deadlines_moved_or_ended_by_another_one_are_not_due() -> None:
    deadlines = Deadlines()
    for at_ms, name in enumerate("abcd"):
        deadlines.arm((name,), at_ms)
    served = []
    for key in deadlines.take_due(10):
        served.append(key)
        if key == ("a",):
            deadlines.arm(("b",), 20)
            deadlines.disarm(("c",))
    assert (served, list(deadlines.take_due(20))) == ([("a",), ("d",)], [("b",)])


def test_a_key_that_is_armed_for_now_while_it_is_served_waits_for_the_next_time() -> None:
    deadlines = Deadlines()
    deadlines.arm(("a",), 1)
    deadlines.arm(("b",), 2)
    served = []
    for key in deadlines.take_due(5):
        served.append(key)
        deadlines.arm(("a",), 5)
    assert served == [("a",), ("b",)]
    assert list(deadlines.take_due(5)) == [("a",)]
