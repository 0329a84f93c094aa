"""Checks of members' ownership claims, and of answers that must respect them."""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.assign.by_name import Given, Subscription
from apportion.assign.checks import invalid_assignment
from apportion.topics import TopicPartition


class Overlap(NamedTuple):
    """One partition that several members claim to own (KIP-792)."""

    partition: TopicPartition
    claims: tuple[tuple[str, int], ...]
    """(member id, generation) of each, the highest generation first, then by member id."""

    @property
    def rightful_or_none(self) -> str | None:
        """The one member with the highest generation; None if several members share it.

        In that case no member may keep the partition.
        """
        (member, highest), (_, next_highest) = self.claims[:2]
        return member if highest > next_highest else None

    def __str__(self) -> str:
        claims = ", ".join(
            f"{member!r} in generation {generation}" for member, generation in self.claims
        )
        return (
            f"partition {self.partition.partition} of {self.partition.topic!r} is claimed by "
            f"{claims}"
        )


def validate_subscription(members: Mapping[str, Subscription]) -> tuple[Overlap, ...]:
    """Return the partitions that several members claim, in order (KIP-792).

    For custom assignors that build on `owned`: a member's claim may be out of date.
    """
    claims: dict[TopicPartition, dict[str, int]] = {}
    for member, subscription in members.items():
        for topic, numbers in subscription.owned:
            for number in numbers:
                rivals = claims.setdefault(TopicPartition(topic, number), {})
                rivals[member] = subscription.generation
    overlaps = ((partition, rivals) for partition, rivals in claims.items() if len(rivals) > 1)
    return tuple(
        Overlap(partition, tuple(sorted(rivals.items(), key=lambda rival: (-rival[1], rival[0]))))
        for partition, rivals in sorted(overlaps, key=lambda overlap: overlap[0])
    )


def check_cooperative(members: Mapping[str, Subscription], answer: Mapping[str, Given]) -> None:
    """Raise Refused if a partition is assigned to one member while another still owns it.

    KIP-429: a cooperative assignor leaves such a partition out until its owner has revoked it.
    """
    revoked: dict[tuple[str, int], str] = {}  # owned partitions that their owner does not keep
    for member, subscription in members.items():
        kept = partitions_of(answer.get(member, Given()).partitions)
        revoked |= {pair: member for pair in partitions_of(subscription.owned) if pair not in kept}
    for member, given in answer.items():
        owned = partitions_of(members[member].owned)
        for pair in partitions_of(given.partitions):
            # A partition that the new owner claims, too, is no move: one of the claims is stale
            # (KIP-792).
            if pair in revoked and pair not in owned:
                topic, number = pair
                raise invalid_assignment(
                    f"gives partition {number} of {topic!r} to {member!r} while "
                    f"{revoked[pair]!r} still owns it"
                )


def partitions_of(parts: tuple[tuple[str, tuple[int, ...]], ...]) -> dict[tuple[str, int], None]:
    """Return the partitions one by one, as keys in order."""
    return {(topic, number): None for topic, numbers in parts for number in numbers}
