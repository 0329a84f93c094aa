"""Named deadlines: timers as state. Re-arming overwrites, so there is nothing to cancel or to leak.

A binary heap with lazy deletion: `arm` writes to a dict, and a heap entry that the dict contradicts
is dropped or re-inserted when it comes to the top. The heap is rebuilt when most of its entries are
stale.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

Key = tuple[Any, ...]
"""A deadline's name, such as ("session", group, member): comparable with every other key of the
same machine.
"""


class Deadlines:
    """Deadlines by key, handed out in `(time, key)` order."""

    __slots__ = ("_at", "_heap", "_queued")

    def __init__(self) -> None:
        self._at: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}  # key -> the one heap entry of the key that counts
        self._heap: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    @property
    def armed(self) -> Mapping[Key, int]:
        """When each key is due, as of now."""
        return self._at

    def arm(self, key: Key, at_ms: int) -> None:
        """Set the deadline of `key` to `at_ms` (monotonic), whatever it was before."""
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            heappush(self._heap, (at_ms, key))
            # Heartbeats re-arm session timeouts all the time: without this the heap only grows.
            if len(self._heap) > 64 and len(self._heap) > 4 * len(self._at):
                self._rebuild()

    def disarm(self, key: Key) -> None:
        """Remove the deadline of `key`, if there is one."""
        self._at.pop(key, None)

    def next_at(self) -> int | None:
        """Return the earliest deadline; None if there is none."""
        if not self._heap:
            return None
        top_ms, key = self._heap[0]
        # Asked in every step, and most steps move no deadline that is the earliest.
        if self._at.get(key) == top_ms == self._queued.get(key):
            return top_ms
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> Iterator[Key]:
        """Yield the keys due at or before `now_ms` in `(time, key)` order, disarming each.

        Serving one key may postpone or disarm another, which is then not yielded; a key armed
        meanwhile belongs to the next round, even if it is due; keys not yet yielded stay armed if
        serving one raises.
        """
        due = self._pop_due(now_ms)
        # Armed again until yielded, so that an exception in the caller's loop loses no deadline.
        for at_ms, key in due:
            self._at[key] = self._queued[key] = at_ms
            heappush(self._heap, (at_ms, key))
        for at_ms, key in due:
            if self._at.get(key) == at_ms:
                del self._at[key]
                yield key

    def _pop_due(self, now_ms: int) -> list[tuple[int, Key]]:
        """Remove and return the deadlines that are due, in order of their time."""
        due: list[tuple[int, Key]] = []
        while True:
            self._drop_stale()
            if not self._heap or self._heap[0][0] > now_ms:
                return due
            at_ms, key = heappop(self._heap)
            del self._queued[key], self._at[key]
            due.append((at_ms, key))

    def _drop_stale(self) -> None:
        """Drop stale entries until the top of the heap is a true deadline, or the heap is empty."""
        heap, at, queued = self._heap, self._at, self._queued
        while heap:
            top_ms, key = heap[0]
            if queued.get(key) != top_ms:  # an older entry of a key that was re-armed earlier
                heappop(heap)
                continue
            true_ms = at.get(key)
            if true_ms == top_ms:
                return
            if true_ms is None:
                heappop(heap)
                del queued[key]
            else:
                queued[key] = true_ms
                heapreplace(heap, (true_ms, key))

    def _rebuild(self) -> None:
        """Reduce the heap to one entry for each armed key."""
        self._queued = dict(self._at)
        self._heap = [(at_ms, key) for key, at_ms in self._at.items()]
        heapify(self._heap)
