"""The transport of a connection that is closed.

A transport of asyncio refers to its connection, and the connection to it. Were that left so, each
closed connection would stay until a full garbage collection, which may be an hour later
(`cli/short_collections.py`).
"""

from typing import Any


class ClosedTransport:
    """A transport that is closed: it takes nothing, and nothing comes of it."""

    __slots__ = ()

    def is_closing(self) -> bool:
        """Return True."""
        return True

    def get_write_buffer_size(self) -> int:
        """Return 0: nothing waits."""
        return 0

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        """Return the default: nothing is known of the socket any more."""
        return default

    def write(self, _data: Any) -> None:
        """Write nothing."""

    def writelines(self, _parts: Any) -> None:
        """Write nothing."""

    def write_eof(self) -> None:
        """Do nothing."""

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: it is closed."""

    def abort(self) -> None:
        """Do nothing: it is closed."""


CLOSED = ClosedTransport()
