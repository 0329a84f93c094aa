"""Named deadlines: timers as state. Re-arming is overwriting, and there is nothing to cancel or leak."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

Key = tuple[Any, ...]
"""A deadline's name, such as ("session", group, member): comparable with every other key of the same machine."""


class Deadlines:
    """What is due when, handed out in `(time, key)` order.

    Arming a key again costs one dict write: the heap keeps one entry a key, which moves only when it comes to the top.
    """

    __slots__ = ("_at", "_heap", "_queued")

    def __init__(self) -> None:
        self._at: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}  # key -> the one heap entry of the key that counts
        self._heap: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def arm(self, key: Key, at_ms: int) -> None:
        """`key` is due at `at_ms` (monotonic), whatever it was before."""
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            heappush(self._heap, (at_ms, key))
            if len(self._heap) > 64 and len(self._heap) > 4 * len(self._at):
                self._rebuild()

    def disarm(self, key: Key) -> None:
        """`key` is never due, unless it is armed again."""
        self._at.pop(key, None)

    def at_or_none(self, key: Key) -> int | None:
        """When `key` is due; None if it is not armed."""
        return self._at.get(key)

    def next_at(self) -> int | None:
        """When the earliest deadline is due; None if there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> Iterator[Key]:
        """The keys due at or before `now_ms` in `(time, key)` order, each disarmed when its turn comes.

        What serving one puts off or ends is not due any more; a key that is armed meanwhile is not of this round, even if it is
        due; and those whose turn has not come stay armed if serving one fails.
        """
        due = self._popped(now_ms)
        for at_ms, key in due:
            self._at[key] = self._queued[key] = at_ms
            heappush(self._heap, (at_ms, key))
        for at_ms, key in due:
            if self._at.get(key) == at_ms:
                del self._at[key]
                yield key

    def _popped(self, now_ms: int) -> list[tuple[int, Key]]:
        due: list[tuple[int, Key]] = []
        while True:
            self._settle()
            if not self._heap or self._heap[0][0] > now_ms:
                return due
            at_ms, key = heappop(self._heap)
            del self._queued[key], self._at[key]
            due.append((at_ms, key))

    def _settle(self) -> None:
        """The top of the heap is a true deadline (or the heap is empty)."""
        heap, at, queued = self._heap, self._at, self._queued
        while heap:
            top_ms, key = heap[0]
            if queued.get(key) != top_ms:  # an older entry of a key that was re-armed earlier
                heappop(heap)
                continue
            true_ms = at.get(key)
            if true_ms == top_ms:
                return
            heappop(heap)
            if true_ms is None:
                del queued[key]
            else:
                queued[key] = true_ms
                heappush(heap, (true_ms, key))

    def _rebuild(self) -> None:
        """The heap holds one entry for each armed key and nothing else."""
        self._queued = dict(self._at)
        self._heap = [(at_ms, key) for key, at_ms in self._at.items()]
        heapify(self._heap)
