"""The sparse index of a segment by offset and by time, and the seal of a finished segment.

An index returns a position at or before the requested batch; the reader walks on from there, batch
by batch.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from apportion.wire.crc import crc32c

NEVER = -(1 << 63)
"""Before every timestamp."""

MAGIC = int.from_bytes(b"sealed 1", "little")
CLEAN_MAGIC = int.from_bytes(b"cleaned1", "little")
WORD = 8


class Index:
    """The positions of some batches of a segment, in order.

    For each: base offset, position in the file, and the largest timestamp of all batches before it.
    """

    __slots__ = ("ceilings", "offsets", "positions")

    def __init__(
        self, offsets: Sequence[int], positions: Sequence[int], ceilings: Sequence[int]
    ) -> None:
        self.offsets = offsets
        self.positions = positions
        self.ceilings = ceilings

    def at_offset(self, offset: int) -> int:
        """Return a position such that every batch before it ends below `offset`."""
        return self._position(bisect_right(self.offsets, offset))

    def at_time(self, timestamp_ms: int) -> int:
        """Return a position such that every batch before it is older than `timestamp_ms`."""
        return self._position(bisect_left(self.ceilings, timestamp_ms))

    def below(self, offset: int, position: int) -> int:
        """Return a byte position in the log segment up to `position`, for a limited Fetch.

        Every batch before it ends below `offset`.
        """
        return self._position(
            min(bisect_right(self.offsets, offset), bisect_right(self.positions, position))
        )

    def _position(self, entries: int) -> int:
        return self.positions[entries - 1] if entries else 0


class GrowingIndex(Index):
    """The index of a segment without a seal: an entry about every `interval_bytes`."""

    __slots__ = ("_interval_bytes", "_next_at")

    offsets: "array[int]"
    positions: "array[int]"
    ceilings: "array[int]"

    def __init__(self, interval_bytes: int) -> None:
        super().__init__(array("q"), array("q"), array("q"))
        self._interval_bytes = interval_bytes
        self._next_at = 0

    def add(self, offset: int, position: int, ceiling_ms: int) -> None:
        """Add an index entry for the log segment's batch at `position`.

        Does nothing if the last entry is less than `interval_bytes` away.
        """
        if position >= self._next_at:
            self.offsets.append(offset)
            self.positions.append(position)
            self.ceilings.append(ceiling_ms)
            self._next_at = position + self._interval_bytes


class Seal(NamedTuple):
    """The state of a finished segment that was durable when the seal was written (decision 8).

    is_clean: it is what a cleaning has left, so it holds each key once.
    """

    size_bytes: int
    next_offset: int
    max_timestamp_ms: int
    is_clean: bool = False


def encode_seal(seal: Seal, index: Index) -> bytes:
    """Encode the seal of a finished log segment and its index, as a side file with a CRC.

    The file is in the byte order of this machine.
    """
    words = array("q", (CLEAN_MAGIC if seal.is_clean else MAGIC, *seal[:3], len(index.offsets)))
    words.extend(index.offsets)
    words.extend(index.positions)
    words.extend(index.ceilings)
    words.append(crc32c(words.tobytes()))
    return words.tobytes()


def decode_seal_or_none(view: memoryview) -> Seal | None:
    """Return the log segment's seal in `view`; None for anything else, such as a torn one."""
    # A seal is not synced before the broker goes on, so a crash may tear it. Then the segment is
    # read.
    if len(view) < 6 * WORD or len(view) % WORD:
        return None
    words = view.cast("q")
    if (
        words[0] not in (MAGIC, CLEAN_MAGIC)
        or len(words) != 6 + 3 * words[4]
        or words[-1] != crc32c(view[:-WORD])
    ):
        return None
    return Seal(words[1], words[2], words[3], is_clean=words[0] == CLEAN_MAGIC)


def index_beside_seal(view: memoryview) -> Index:
    """Return the log segment's index from its seal file, read in place.

    view: the content of the file, which must hold a seal.
    """
    words = view.cast("q")
    entries = words[4]
    return Index(*(words[5 + entries * i : 5 + entries * (i + 1)] for i in range(3)))
