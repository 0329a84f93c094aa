"""The two blobs of the classic consumer protocol: a version and then the fields.

A version from the future is read as the newest one known here, and what follows is left alone: later versions may only add fields.
"""

from struct import Struct
from typing import TypeVar

from apportion.errors import DecodeError
from apportion.wire.codec import Buffer, read, write
from apportion.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

T = TypeVar("T", ConsumerProtocolAssignment, ConsumerProtocolSubscription)

NEWEST = 3
_VERSION = Struct(">h")


def encode(value: ConsumerProtocolAssignment | ConsumerProtocolSubscription, version: int = NEWEST) -> bytes:
    """The blob of `value` in that version."""
    return _VERSION.pack(version) + write(value, version)


def decode(cls: type[T], blob: Buffer) -> tuple[int, T]:
    """The version that the blob says and the value in it."""
    if len(blob) < 2:
        raise DecodeError(f"{cls.__name__}: {len(blob)} bytes have no version")
    (version,) = _VERSION.unpack_from(blob)
    if version < 0:
        raise DecodeError(f"{cls.__name__}: {version} is no version")
    value, _ = read(cls, min(version, NEWEST), blob, 2)
    return version, value
