"""The room that is left in one Arrow batch."""

from typing import NamedTuple

SHARED_BUFFER_BYTES = 16 << 20
"""How many bytes of records share a buffer.

A single Kafka batch may be larger, and is still far below the 2 GiB that 32-bit ends allow.
"""


class OffsetRange(NamedTuple):
    """Offsets from `start` up to, not including, `end`."""

    start: int
    end: int


class Room:
    """The rows and bytes that still fit into an Arrow batch."""

    def __init__(self, rows: int) -> None:
        self._free_rows, self._free_bytes = rows, SHARED_BUFFER_BYTES

    def reserve(self, rows: int, size_bytes: int) -> bool:
        """Reserve room for a Kafka batch's rows and bytes; return False if there is too little.

        An empty buffer takes any number of bytes: else a large batch would fit nowhere.
        """
        is_empty = self._free_bytes == SHARED_BUFFER_BYTES
        if rows > self._free_rows or (size_bytes > self._free_bytes and not is_empty):
            return False
        self._free_rows, self._free_bytes = self._free_rows - rows, self._free_bytes - size_bytes
        return True
