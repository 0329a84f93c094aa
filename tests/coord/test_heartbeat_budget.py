"""The calendar of heartbeats: who is told to come when, and what it costs to remember that."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.coord.heartbeat_budget import Booking, HeartbeatBudget


def booked(budget: HeartbeatBudget, count: int, now_ms: int = 0, **facts: bool) -> list[int]:
    """When each of `count` heartbeats is due whose interval is 5,000 ms at most."""
    facts = {"is_awaited": True} | facts
    return [budget.book(now_ms, now_ms + 5_000, **facts).due_ms for _ in range(count)]


@pytest.mark.parametrize(
    ("per_second", "due"),
    [
        (0, [5_000] * 4),
        (1, [950, 1_950, 2_950, 3_950]),  # one in the last slot of each second
        (20, [100, 150, 200, 250]),
        (40, [100, 100, 150, 150]),
        (50, [100, 100, 150, 150, 150, 200, 200, 250, 250, 250]),  # 2.5 a slot
        (1_000, [100] * 50 + [150]),
    ],
)
def test_each_slot_takes_its_part_of_the_budget(per_second: int, due: list[int]) -> None:
    assert booked(HeartbeatBudget(per_second), len(due)) == due


@pytest.mark.parametrize(
    ("now_ms", "due_ms"), [(0, 100), (1, 150), (50, 150), (51, 200), (1_000_000, 1_000_100)]
)
def test_no_interval_is_below_100_ms(now_ms: int, due_ms: int) -> None:
    assert booked(HeartbeatBudget(200), 1, now_ms) == [due_ms]


def test_a_full_calendar_makes_nobody_wait_longer_than_the_configured_interval() -> None:
    budget = HeartbeatBudget(20)
    due = booked(budget, 200)
    assert due == [*range(100, 5_000, 50), *[5_000] * 102]
    (late,) = (budget.book(0, 7_000, is_awaited=True).due_ms,)
    assert late == 5_050, "after those that could not wait"


@pytest.mark.parametrize("latest_ms", [1, 49, 50, 99, 100, 149])
def test_a_configured_interval_below_the_next_slot_holds(latest_ms: int) -> None:
    booking = HeartbeatBudget(200).book(0, latest_ms, is_awaited=False)
    assert booking == Booking(min(latest_ms, 100), is_awaited=False)


def test_a_quarter_of_the_budget_is_kept_for_awaited_heartbeats() -> None:
    budget = HeartbeatBudget(200)
    at_rest = booked(budget, 24, is_awaited=False)
    assert Counter(at_rest) == {100: 8, 150: 7, 200: 8, 250: 1}
    assert Counter(booked(budget, 8)) == {100: 2, 150: 3, 200: 2, 250: 1}


def test_the_kept_part_is_there_even_where_the_budget_is_used_up() -> None:
    budget = HeartbeatBudget(200)
    booked(budget, 5_000, is_awaited=False)  # at the configured interval, all of the last ones
    for number in range(9):  # others, whose time is another
        booked(budget, 500, now_ms=10 * number, is_awaited=False)
    assert booked(budget, 4, now_ms=4_900) == [5_000, 5_000, 5_050, 5_050]


def test_awaited_heartbeats_may_have_what_members_at_rest_left() -> None:
    budget = HeartbeatBudget(200)
    assert booked(budget, 11) == [100] * 10 + [150]
    assert booked(budget, 1, is_awaited=False) == [150]


def test_a_heartbeat_from_a_later_time_on_leaves_the_time_before_to_others() -> None:
    budget = HeartbeatBudget(20)
    late = [budget.book(0, 5_000, is_awaited=True, from_ms=430).due_ms for _ in range(2)]
    assert late == [450, 500]
    assert booked(budget, 8) == [100, 150, 200, 250, 300, 350, 400, 550]


def test_a_booking_that_is_given_back_is_free_for_the_next() -> None:
    budget = HeartbeatBudget(20)
    assert booked(budget, 3) == [100, 150, 200]
    budget.cancel(Booking(150, is_awaited=True))
    assert booked(budget, 2) == [150, 250]


def test_the_booking_of_a_slot_that_is_over_cannot_be_given_back() -> None:
    budget = HeartbeatBudget(20)
    booked(budget, 1)
    assert booked(budget, 1, now_ms=5_000) == [5_100]
    budget.cancel(Booking(100, is_awaited=True))
    # The ring has 101 slots: the one that begins at 100 ms has come round.
    assert booked(budget, 3, now_ms=5_000) == [5_150, 5_200, 5_250]


def test_the_calendar_is_as_long_as_the_longest_interval_whatever_happens() -> None:
    budget = HeartbeatBudget(3)
    for now_ms in range(0, 60_000, 7):
        booked(budget, 3, now_ms)
    assert len(budget) == 5_000 // 50 + 1
    budget.book(60_000, 75_000, is_awaited=False)
    assert len(budget) == 15_000 // 50 + 1


class PlainCalendar:
    """The same rules without a ring, and with a search from the first slot each time."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self.booked: Counter[tuple[int, bool]] = Counter()

    def book(self, now_ms: int, latest_ms: int, *, is_awaited: bool, from_ms: int = 0) -> Booking:
        for due_ms in range(0, latest_ms + 1, 50):
            room, kept = (
                (due_ms + 50) * self.per_second // per - due_ms * self.per_second // per
                for per in (1_000, 4_000)
            )
            at_rest, awaited = self.booked[due_ms, False], self.booked[due_ms, True]
            has_room = at_rest + awaited < room and (is_awaited or at_rest < room - kept)
            if due_ms >= max(now_ms + 100, from_ms) and (
                has_room or (is_awaited and awaited < kept)
            ):
                break
        else:
            due_ms = latest_ms
        self.booked[due_ms // 50 * 50, is_awaited] += 1
        return Booking(due_ms, is_awaited)

    def cancel(self, booking: Booking) -> None:
        self.booked[booking.due_ms // 50 * 50, booking.is_awaited] -= 1


@given(
    st.sampled_from([0, 1, 7, 20, 33, 80, 200]),
    st.lists(
        st.tuples(
            st.sampled_from([0, 0, 0, 1, 49, 50, 130, 900]),
            st.sampled_from([100, 330, 1_000]),
            st.booleans(),
            st.integers(0, 12),
            st.sampled_from([0, 0, 90, 170, 400]),
        ),
        max_size=80,
    ),
)
def test_a_ring_books_as_a_calendar_that_searches_every_slot(
    per_second: int, heartbeats: list[tuple[int, int, bool, int, int]]
) -> None:
    budget, plain, now_ms = HeartbeatBudget(per_second), PlainCalendar(per_second), 0
    due: dict[int, Booking] = {}
    for elapsed_ms, interval_ms, is_awaited, member, wait_ms in heartbeats:
        now_ms += elapsed_ms
        if member in due:
            budget.cancel(due[member])
            plain.cancel(due[member])
        from_ms = now_ms + min(wait_ms, interval_ms)
        due[member], expected = (
            each.book(now_ms, now_ms + interval_ms, is_awaited=is_awaited, from_ms=from_ms)
            for each in (budget, plain)
        )
        assert due[member] == expected
        assert 100 <= due[member].due_ms - now_ms <= interval_ms
    assert len(budget) <= 1_000 // 50 + 2


class CountedBudget(HeartbeatBudget):
    """A budget that counts at how many slots it has looked."""

    looks = 0

    def _slot_with_room(self, begin: int, last: int, *, is_awaited: bool) -> int:
        slot = super()._slot_with_room(begin, last, is_awaited=is_awaited)
        self.looks += max(0, min(slot, last) - begin + 1)
        return slot


@pytest.mark.parametrize("per_second", [0, 20, 200])
def test_a_heartbeat_at_its_time_looks_at_few_slots(per_second: int) -> None:
    budget = CountedBudget(per_second)
    bookings = [budget.book(5 * number, 5_000, is_awaited=False) for number in range(1_000)]
    before = budget.looks
    for _ in range(5_000):
        bookings.sort()
        booking = bookings.pop(0)
        budget.cancel(booking)
        bookings.append(budget.book(booking.due_ms, booking.due_ms + 5_000, is_awaited=False))
    assert budget.looks - before < 5_000 * 3
