"""Random ids: 16 bytes that no other request has (`Arrived.fresh`)."""

import os

FRESH_ID_BYTES = 16
IDS_AT_ONCE = 256


class FreshIds:
    """Random ids, taken from the system in blocks: a call for each request would be slow."""

    __slots__ = ("_block", "_used")

    def __init__(self) -> None:
        self._block, self._used = b"", 0

    def take(self) -> bytes:
        """Return 16 random bytes, for the ids that a request may need."""
        start = self._used
        if start == len(self._block):
            self._block, start = os.urandom(IDS_AT_ONCE * FRESH_ID_BYTES), 0
        self._used = start + FRESH_ID_BYTES
        return self._block[start : self._used]
