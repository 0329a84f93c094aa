"""What classic members of type "consumer" send through the coordinator: subscription and assignment
(KIP-429, KIP-792, KIP-881).
"""

from apportion.wire.fields import array, int32, message, octets, string


@message()
class ConsumerProtocolTopicPartition:
    """Partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(int32())


@message(versions=range(4))
class ConsumerProtocolSubscription:
    """What a member wants, and from version 1 what it owned when it said so, in which
    generation.
    """

    topics: tuple[str, ...] = array(string())
    user_data: bytes | memoryview | None = octets(nullable=0, default=None)
    owned_partitions: tuple[ConsumerProtocolTopicPartition, ...] = array(
        ConsumerProtocolTopicPartition, since=1, ignorable=True
    )
    generation_id: int = int32(since=2, default=-1, ignorable=True)
    rack_id: str | None = string(since=3, nullable=3, default=None, ignorable=True)


@message(versions=range(4))
class ConsumerProtocolAssignment:
    """What the leader gives a member. All versions look the same."""

    assigned_partitions: tuple[ConsumerProtocolTopicPartition, ...] = array(
        ConsumerProtocolTopicPartition
    )
    user_data: bytes | memoryview | None = octets(nullable=0, default=None)


@message(versions=range(2))
class StickyUserData:
    """What the assignor `sticky` tells the next leader: what the member was given last, and from
    version 1 when (KIP-341).

    The bytes do not say their version.
    """

    topic_partitions: tuple[ConsumerProtocolTopicPartition, ...] = array(
        ConsumerProtocolTopicPartition
    )
    generation: int = int32(since=1, default=-1, ignorable=True)


@message()
class CooperativeStickyUserData:
    """What the assignor `cooperative-sticky` tells the next leader, for those that do not read it
    in the subscription (KIP-792).
    """

    generation: int = int32()
