"""Encode and decode the classic consumer protocol: subscription, assignment and user data.

Subscription and assignment begin with a version; the user data of the sticky assignors does not.
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
    """Return a subscription or an assignment of the classic consumer protocol as bytes."""
    return _VERSION.pack(version) + write(value, version)


def decode(cls: type[T], data: Buffer) -> tuple[int, T]:
    """Return version and value of a classic consumer's subscription or assignment."""
    if len(data) < 2:
        raise DecodeError(f"{cls.__name__}: {len(data)} bytes have no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"{cls.__name__}: {version} is no version")
    # KIP-429: later versions only add fields at the end, so an unknown one is read as the newest
    value, _ = read(cls, min(version, NEWEST), data, 2)
    return version, value


def encode_sticky(partitions: tuple[ConsumerProtocolTopicPartition, ...], generation: int) -> bytes:
    """Return the user data of the assignor `sticky` for an assignment, in version 1.

    Readers of version 0 take no notice of the generation.
    """
    return write(StickyUserData(topic_partitions=partitions, generation=generation), 1)


def decode_sticky(user_data: Buffer | None) -> StickyUserData:
    """Return the assignment in the user data of `sticky`, version 1 or else 0; empty if neither."""
    # Version 1 first: a reader of version 0 accepts its bytes too, and loses the generation
    # (KIP-341).
    for version in (1, 0):
        try:
            return read(StickyUserData, version, user_data or b"")[0]
        except DecodeError:
            continue
    return StickyUserData()


def encode_cooperative(generation: int) -> bytes:
    """Return the user data that `cooperative-sticky` sends with a subscription."""
    return write(CooperativeStickyUserData(generation=generation), 0)


def decode_cooperative(user_data: Buffer | None) -> int:
    """Return the generation in the user data of `cooperative-sticky`; NO_GENERATION without one."""
    try:
        return read(CooperativeStickyUserData, 0, user_data or b"")[0].generation
    except DecodeError:
        return NO_GENERATION
