"""The bytes of the embedded consumer protocol: subscriptions in JoinGroup, assignments in
SyncGroup.
"""

from apportion.member.assignors.interface import Given, Subscription, each_once, from_wire, to_wire
from apportion.wire.codec import Buffer
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)


def encode_subscription(said: Subscription, version: int = consumer_serde.NEWEST) -> bytes:
    """Return a member's ConsumerProtocolSubscription, topics in order.

    Version 1 adds `owned`, 2 `generation`, 3 `rack_id`.
    """
    value = ConsumerProtocolSubscription(
        topics=tuple(sorted(said.topics)),
        user_data=said.user_data,
        owned_partitions=to_wire(each_once(said.owned)),
        generation_id=said.generation,
        rack_id=said.rack_id,
    )
    return consumer_serde.encode(value, version)


def decode_subscription(blob: Buffer, instance_id: str | None = None) -> Subscription:
    """Return the subscription in a member's metadata. Raises DecodeError.

    A generation below -1 counts as none. instance_id: as the coordinator has it, since the bytes
    lack it.
    """
    _, value = consumer_serde.decode(ConsumerProtocolSubscription, blob)
    return Subscription(
        topics=value.topics,
        user_data=None if value.user_data is None else bytes(value.user_data),
        owned=from_wire(value.owned_partitions),
        generation=max(value.generation_id, consumer_serde.NO_GENERATION),
        rack_id=value.rack_id,
        instance_id=instance_id,
    )


def encode_assignment(given: Given, version: int = consumer_serde.NEWEST) -> bytes:
    """Return the ConsumerProtocolAssignment of what a member was given."""
    value = ConsumerProtocolAssignment(
        assigned_partitions=to_wire(given.partitions), user_data=given.user_data
    )
    return consumer_serde.encode(value, version)


def decode_assignment(blob: Buffer) -> Given:
    """Return what a member was given. Raises DecodeError."""
    _, value = consumer_serde.decode(ConsumerProtocolAssignment, blob)
    return Given(
        each_once(from_wire(value.assigned_partitions)),
        None if value.user_data is None else bytes(value.user_data),
    )
