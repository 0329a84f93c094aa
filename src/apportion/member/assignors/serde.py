"""The consumer protocol's bytes: subscriptions in JoinGroup, assignments in SyncGroup.

They come from clients of any library. Some leave the user data out where they have none, instead of
a length of -1; that is read as none, since everything else is there (Kafka's Java client refuses
it).
"""

from typing import TypeVar

from apportion.assign.by_name import Given, Subscription, each_once
from apportion.errors import DecodeError
from apportion.member.assignors.interface import from_named_parts, to_named_parts
from apportion.wire.codec import Buffer
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

T = TypeVar("T", ConsumerProtocolAssignment, ConsumerProtocolSubscription)

NO_USER_DATA = b"\xff\xff\xff\xff"


def encode_subscription(subscription: Subscription, version: int = consumer_serde.NEWEST) -> bytes:
    """Return the bytes of a ConsumerProtocolSubscription, topics in order.

    Version 1 adds `owned` (KIP-429), 2 `generation` (KIP-792), 3 `rack_id` (KIP-881).
    """
    value = ConsumerProtocolSubscription(
        topics=tuple(sorted(subscription.topics)),
        user_data=subscription.user_data,
        owned_partitions=to_named_parts(each_once(subscription.owned)),
        generation_id=subscription.generation,
        rack_id=subscription.rack_id,
    )
    return consumer_serde.encode(value, version)


def decode_subscription(blob: Buffer, instance_id: str | None = None) -> Subscription:
    """Return the subscription in a member's JoinGroup metadata. Raises DecodeError.

    A generation below -1 counts as none. instance_id: from the coordinator, as the bytes lack it.
    """
    value = _decode(ConsumerProtocolSubscription, blob)
    return Subscription(
        topics=value.topics,
        user_data=None if value.user_data is None else bytes(value.user_data),
        owned=from_named_parts(value.owned_partitions),
        generation=max(value.generation_id, consumer_serde.NO_GENERATION),
        rack_id=value.rack_id,
        instance_id=instance_id,
    )


def encode_assignment(given: Given, version: int = consumer_serde.NEWEST) -> bytes:
    """Return the bytes of a ConsumerProtocolAssignment, for SyncGroup."""
    value = ConsumerProtocolAssignment(
        assigned_partitions=to_named_parts(given.partitions), user_data=given.user_data
    )
    return consumer_serde.encode(value, version)


def decode_assignment(blob: Buffer) -> Given:
    """Return the assignment in a SyncGroup response. Raises DecodeError."""
    value = _decode(ConsumerProtocolAssignment, blob)
    return Given(
        each_once(from_named_parts(value.assigned_partitions)),
        None if value.user_data is None else bytes(value.user_data),
    )


def _decode(cls: type[T], blob: Buffer) -> T:
    """Return the value of these bytes, which may end before the user data. Raises DecodeError."""
    try:
        return consumer_serde.decode(cls, blob)[1]
    except DecodeError as error:
        try:
            value = consumer_serde.decode(cls, bytes(blob) + NO_USER_DATA)[1]
        except DecodeError:
            raise error from None
        # Else the bytes ended within user data, which took up what was appended.
        if value.user_data is not None:
            raise
        return value
