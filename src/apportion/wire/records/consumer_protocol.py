"""Bytes that classic consumers exchange through the coordinator: subscription and assignment.

Source: KIP-429, KIP-792, KIP-881.
"""

from apportion.wire.fields import array, int32, message, octets, string


@message()
class ConsumerProtocolTopicPartition:
    """Partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(int32())


@message(versions=range(4))
class ConsumerProtocolSubscription:
    """The topics that a member subscribes to.

    From version 1 on also what it owned when it sent that, and later in which generation.
    """

    topics: tuple[str, ...] = array(string())
    user_data: bytes | memoryview | None = octets(nullable=0, default=None)
    # KIP-429: a cooperative member goes on using these while it rejoins.
    owned_partitions: tuple[ConsumerProtocolTopicPartition, ...] = array(
        ConsumerProtocolTopicPartition, since=1, ignorable=True
    )
    # KIP-792: without it a leader cannot tell which of two claims is out of date.
    generation_id: int = int32(since=2, default=-1, ignorable=True)
    # KIP-881, for assignors that prefer a replica nearby.
    rack_id: str | None = string(since=3, nullable=3, default=None, ignorable=True)


@message(versions=range(4))
class ConsumerProtocolAssignment:
    """Assignment that the leader gives a member. All versions look the same."""

    assigned_partitions: tuple[ConsumerProtocolTopicPartition, ...] = array(
        ConsumerProtocolTopicPartition
    )
    user_data: bytes | memoryview | None = octets(nullable=0, default=None)


@message(versions=range(2))
class StickyUserData:
    """User data of the assignor `sticky` for the next leader: the member's last assignment.

    From version 1 on with its generation (KIP-341). The bytes do not say their version.
    """

    topic_partitions: tuple[ConsumerProtocolTopicPartition, ...] = array(
        ConsumerProtocolTopicPartition
    )
    generation: int = int32(since=1, default=-1, ignorable=True)


@message()
class CooperativeStickyUserData:
    """User data of the assignor `cooperative-sticky` for the next leader: the generation.

    For leaders that do not read it in the subscription (KIP-792).
    """

    generation: int = int32()
