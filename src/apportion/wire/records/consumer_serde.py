"""The blobs of the classic consumer protocol: two that begin with a version, and the user data of
the sticky assignors.

A version from the future is read as the newest one known here, and what follows is left alone:
later versions may only add fields.
"""

from struct import Struct
from typing import TypeVar

from apportion.errors import DecodeError
from apportion.wire.codec import Buffer, read, write
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    CooperativeStickyUserData,
    StickyUserData,
)

T = TypeVar("T", ConsumerProtocolAssignment, ConsumerProtocolSubscription)

NEWEST = 3
NO_GENERATION = -1
_VERSION = Struct(">h")


def encode(
    value: ConsumerProtocolAssignment | ConsumerProtocolSubscription, version: int = NEWEST
) -> bytes:
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


def encode_sticky(partitions: tuple[ConsumerProtocolTopicPartition, ...], generation: int) -> bytes:
    """What `sticky` says of an assignment, in version 1. Readers of version 0 take no notice of the
    generation.
    """
    return write(StickyUserData(topic_partitions=partitions, generation=generation), 1)


def decode_sticky(user_data: Buffer | None) -> StickyUserData:
    """The assignment that `sticky` said, in version 1 or else 0; nothing where the bytes are
    neither.
    """
    for version in (1, 0):
        try:
            return read(StickyUserData, version, user_data or b"")[0]
        except DecodeError:
            continue
    return StickyUserData()


def encode_cooperative(generation: int) -> bytes:
    """What `cooperative-sticky` says beside a subscription."""
    return write(CooperativeStickyUserData(generation=generation), 0)


def decode_cooperative(user_data: Buffer | None) -> int:
    """The generation that `cooperative-sticky` said; NO_GENERATION where the bytes say none."""
    try:
        return read(CooperativeStickyUserData, 0, user_data or b"")[0].generation
    except DecodeError:
        return NO_GENERATION
