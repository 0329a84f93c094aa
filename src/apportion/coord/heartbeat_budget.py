"""The calendar of the heartbeats to come: when the next one of a member may be due.

The problem. A member learns what the group wants of it in the response to a heartbeat, so short
intervals make short rebalances. But each heartbeat costs the broker and the member something, and
a broker may have ten members or a hundred thousand. A fixed interval is too long for the ten or too
short for the others.

The method is a token budget laid out in time, a calendar. Time is cut into slots of 50 ms, and each
slot has room for its part of the budget. Each response books the next heartbeat of its member in
the earliest slot with room that begins 100 ms from now or later. If there is none up to the
configured interval, the heartbeat is booked at the configured interval all the same. A member that
heartbeats before its time, or leaves, gives its booking back.

A quarter of each slot (rounded down) is kept for heartbeats that are awaited: those of members that
have not reached their target assignment. So a large group at rest takes nothing from a small one
that rebalances beside it.

Why it holds. A slot takes more than its room only from heartbeats at their configured interval. So
the broker asks for at most the budget, or, if its members are too many for that, for what the
configured interval alone would ask. Nobody waits longer than that interval, whatever others do: a
member has one booking at a time, however often it heartbeats. The calendar depends on nothing but
the order and the times of its calls. It is not saved: after a restart it begins empty, and fills
with the first heartbeats.

The cost. The slots are a ring of counters that reaches one configured interval ahead, so its size
depends neither on members nor on groups. Two positions remember before which slot there is no room,
for awaited heartbeats and for all others. They move back only to a slot whose booking was given
back, so a heartbeat at its time costs a constant number of operations on average; one before its
time costs a pass over the ring at worst.

Example: a budget of 40 a second is 2 a slot, and three members heartbeat at 0 ms. Two are told 100,
which is the slot from 100 to 150 ms; the third is told 150. If the first leaves at 20 ms, the slot
at 100 has room again, but only for heartbeats that were answered at 0 ms: it is less than 100 ms
away.
"""

SLOT_MS = 50
SLOTS_PER_SECOND = 1_000 // SLOT_MS
SHORTEST_MS = 100
"""The shortest interval. Clients wait no longer than about one interval for a response."""
KEPT_PARTS = 4
"""One part of so many of a slot's room is kept for heartbeats that are awaited."""


class HeartbeatBudget:
    """The heartbeats to come of all consumer groups of a broker, booked in slots."""

    __slots__ = ("_booked", "_current", "_open_slot", "_per_second")

    def __init__(self, per_second: int) -> None:
        """Begin with an empty calendar. per_second: heartbeats; 0 for none below the interval."""
        self._per_second = per_second
        self._booked = [0]  # a ring: the heartbeats booked in slot s are at s modulo its length
        self._current = 0  # the slot of the last call; those before it count no more
        # is_awaited -> the slot before which there is no room for such heartbeats
        self._open_slot = {False: 0, True: 0}

    def __len__(self) -> int:
        """Return how many slots the calendar has."""
        return len(self._booked)

    def book(self, now_ms: int, latest_ms: int, *, is_awaited: bool) -> int:
        """Book a member's next heartbeat; return when it is due (monotonic ms).

        That is 100 ms from now at the earliest, and `latest_ms` at the latest.
        """
        last = latest_ms // SLOT_MS
        self._move_to(now_ms // SLOT_MS, last)
        # Rounded up: a slot that has begun would be too soon.
        first = -((now_ms + SHORTEST_MS) // -SLOT_MS)
        slot = max(first, self._open_slot[is_awaited])
        while slot <= last and not self._has_room(slot, is_awaited=is_awaited):
            slot += 1
        # Slots before `first` are too soon for every later call, too.
        self._open_slot[is_awaited] = slot
        # Always allowed, with room or without.
        due_ms = min(slot * SLOT_MS, latest_ms)
        self._booked[due_ms // SLOT_MS % len(self._booked)] += 1
        return due_ms

    def cancel(self, due_ms: int) -> None:
        """Give back the booking of a heartbeat that was due at `due_ms` and is not to come."""
        slot = due_ms // SLOT_MS
        if slot < self._current:
            return  # its slot is over
        self._booked[slot % len(self._booked)] -= 1
        for is_awaited, open_slot in self._open_slot.items():
            self._open_slot[is_awaited] = min(open_slot, slot)

    def _has_room(self, slot: int, *, is_awaited: bool) -> bool:
        """Return whether one more heartbeat fits into the slot's part of the budget."""
        # Whole numbers whose sum over a second is the budget, whatever it is.
        room = (slot + 1) * self._per_second // SLOTS_PER_SECOND
        room -= slot * self._per_second // SLOTS_PER_SECOND
        if not is_awaited:
            room -= room // KEPT_PARTS
        return self._booked[slot % len(self._booked)] < room

    def _move_to(self, current: int, last: int) -> None:
        """Forget the slots before `current`; make room for slots up to `last`."""
        size = len(self._booked)
        for slot in range(self._current, min(current, self._current + size)):
            self._booked[slot % size] = 0
        self._current = max(self._current, current)
        needed = last - self._current + 1
        if needed > size:
            longer = [0] * needed
            for slot in range(self._current, self._current + size):
                longer[slot % needed] = self._booked[slot % size]
            self._booked = longer
