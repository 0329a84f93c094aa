"""The calendar of the heartbeats to come: when the next one of a member is due.

The problem. A member learns what the group wants of it in the response to a heartbeat, so short
intervals make short rebalances. But each heartbeat costs the broker and the member something, and
a broker may have ten members or a hundred thousand. A fixed interval is too long for the ten or too
short for the others.

The method is a rate limit laid out in time, a calendar. Time is cut into slots of 50 ms, and each
slot has room for its part of the budget. Each response books the next heartbeat of its member in
the earliest slot with room that begins 100 ms from now or later. If there is none up to the
configured interval, the heartbeat is booked at the configured interval all the same. A member that
heartbeats before its time, or leaves for good, gives its booking back.

A quarter of the budget is kept for heartbeats that are awaited: those of members on which a
rebalance depends. So members at rest, however many, do not slow down a group that rebalances. One
that is awaited from a later time on, because nothing can come of it before, is booked from then on.

Why it holds. Members at rest are asked for three quarters of the budget; for more only where the
configured interval alone demands it, and then for no more than that. Members that are awaited are
asked for what is left of the budget, or for its quarter if nothing is left, again unless the
configured interval demands more. Nobody waits longer than that interval, whatever others do: a
member has one booking, however often it heartbeats. The calendar depends on nothing but the order
and the times of its calls. It is not saved: after a restart it begins empty, and fills with the
first heartbeats.

The cost. The slots are two rings of counters that reach one configured interval ahead, so their
size depends neither on members nor on groups. Two positions remember before which slot there is no
room, for awaited heartbeats and for the others. They move back only to a slot of which a booking
was given back, so a heartbeat at its time costs a constant number of operations on average; one
before its time, or one that is awaited from a later time on, costs a pass over the ring at worst.

Example: a budget of 40 a second is 2 a slot, one of them kept in every other slot. Three members at
rest heartbeat at 0 ms. Two are told 100, which is the slot from 100 to 150 ms; the slot at 150 has
one place left for them, which the third gets. A fourth would be told 200. If the fourth is awaited
instead, it gets the kept place at 150.
"""

from typing import NamedTuple

SLOT_MS = 50
SLOTS_PER_SECOND = 1_000 // SLOT_MS
SHORTEST_MS = 100
"""The shortest interval. A client may wait no longer than about an interval for a response."""
KEPT_PART = 4
"""One in so many heartbeats of the budget is kept for those that are awaited."""
KEPT_SLOTS = SLOTS_PER_SECOND * KEPT_PART


class Booking(NamedTuple):
    """A heartbeat to come. due_ms: monotonic. is_awaited: a rebalance depends on it."""

    due_ms: int
    is_awaited: bool


class HeartbeatBudget:
    """The heartbeats to come of all consumer groups of a broker, booked in slots."""

    __slots__ = (
        "_at_rest",
        "_awaited",
        "_current",
        "_first",
        "_open_at_rest",
        "_open_awaited",
        "_parts",
        "bookings",
        "per_second",
    )

    def __init__(self, per_second: int) -> None:
        """Begin with an empty calendar. per_second: heartbeats; 0 for none below the interval."""
        self.per_second = per_second
        self.bookings = 0  # so far
        # What each slot of `KEPT_PART` seconds has of the budget, and of the part that is kept: the
        # same in each such time.
        self._parts = tuple(
            zip(
                _parts(per_second, SLOTS_PER_SECOND) * KEPT_PART,
                _parts(per_second, KEPT_SLOTS),
                strict=True,
            )
        )
        self._current = 0  # the slot of the last call; those before it are over
        self._first = 0  # the earliest slot that the last call could book
        # Two rings: the heartbeats booked in slot s are at s modulo their length.
        self._at_rest = [0]
        self._awaited = [0]
        # The slots before which there is no room for a heartbeat at rest, and for an awaited one.
        self._open_at_rest = 0
        self._open_awaited = 0

    def __len__(self) -> int:
        """Return how many slots the calendar has."""
        return len(self._awaited)

    def book(self, now_ms: int, latest_ms: int, *, is_awaited: bool, from_ms: int = 0) -> Booking:
        """Book a member's next heartbeat in 100 ms at the earliest, at `latest_ms` at the latest.

        All times are monotonic. from_ms: the heartbeat is not to come before; up to `latest_ms`.
        """
        last = latest_ms // SLOT_MS
        current = now_ms // SLOT_MS
        if current > self._current or last - self._current >= len(self._awaited):
            self._move_to(current, last)
        # Rounded up: a slot that has begun by then would be too soon.
        self._first = first = -((now_ms + SHORTEST_MS) // -SLOT_MS)
        opened = self._open_awaited if is_awaited else self._open_at_rest
        earliest = first if first > opened else opened
        begin = max(earliest, -(from_ms // -SLOT_MS)) if from_ms else earliest
        slot = self._slot_with_room(begin, last, is_awaited=is_awaited)
        # Slots before the first are too soon for every later call, too. Those before a later time
        # were not looked at.
        if begin == earliest:
            if is_awaited:
                self._open_awaited = slot
            else:
                self._open_at_rest = slot
        # The latest time is always allowed, with room or without.
        due_ms = slot * SLOT_MS
        if due_ms > latest_ms:
            due_ms, slot = latest_ms, last
        ring = self._awaited if is_awaited else self._at_rest
        ring[slot % len(ring)] += 1
        self.bookings += 1
        return Booking(due_ms, is_awaited)

    def cancel(self, booking: Booking) -> None:
        """Give back the booking of a heartbeat that is not to come, or has come already."""
        due_ms, is_awaited = booking
        slot = due_ms // SLOT_MS
        if slot < self._current:
            return  # the slot is over
        ring = self._awaited if is_awaited else self._at_rest
        ring[slot % len(ring)] -= 1
        # The booking of a heartbeat that comes at its time: nobody can have its slot any more.
        if slot < self._first:
            return
        if slot < self._open_at_rest:
            self._open_at_rest = slot
        if slot < self._open_awaited:
            self._open_awaited = slot

    def _slot_with_room(self, begin: int, last: int, *, is_awaited: bool) -> int:
        """Return the first slot from `begin` on with room for one more heartbeat.

        That is in its part of the budget; `last` + 1, or `begin` if that is later, where none has.
        """
        at_rest, awaited, parts = self._at_rest, self._awaited, self._parts
        size = len(awaited)
        slot = begin
        while slot <= last:
            index = slot % size
            whole, kept = parts[slot % KEPT_SLOTS]
            resting = at_rest[index]
            booked = resting + awaited[index]
            if is_awaited:
                # Members at rest may have taken all: those whose configured interval ends here.
                if booked < whole or booked - resting < kept:
                    break
            elif booked < whole and resting < whole - kept:
                break
            slot += 1
        return slot

    def _move_to(self, current: int, last: int) -> None:
        """Forget the slots before `current`; make room for slots up to `last`."""
        size = len(self)
        for slot in range(self._current, min(current, self._current + size)):
            self._at_rest[slot % size] = self._awaited[slot % size] = 0
        self._current = max(self._current, current)
        needed = last - self._current + 1
        if needed > size:
            self._at_rest = self._longer(self._at_rest, needed)
            self._awaited = self._longer(self._awaited, needed)

    def _longer(self, ring: list[int], size: int) -> list[int]:
        """Return a ring of that many slots with the bookings of a shorter one."""
        longer = [0] * size
        for slot in range(self._current, self._current + len(ring)):
            longer[slot % size] = ring[slot % len(ring)]
        return longer


def _parts(budget: int, slots: int) -> tuple[int, ...]:
    """Return what each of the slots has of the budget: whole numbers whose sum is the budget."""
    return tuple((slot + 1) * budget // slots - slot * budget // slots for slot in range(slots))
