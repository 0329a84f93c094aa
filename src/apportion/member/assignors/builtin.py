"""Kafka's client-side assignors for classic groups.

How to write one: docs/assignors.md.
"""

from collections.abc import Mapping

from apportion.assign.by_name import ClusterTopics, Given, Subscription, TopicParts
from apportion.assign.racks import range_by_rack
from apportion.assign.range import range_assignment
from apportion.assign.roundrobin import roundrobin_assignment
from apportion.assign.sticky import cooperative_sticky, sticky
from apportion.member.assignors.interface import (
    Assignor,
    Rebalance,
    from_named_parts,
    to_named_parts,
)
from apportion.member.assignors.numbering import Numbering, OwnershipClaim
from apportion.wire.records.consumer_serde import (
    NO_GENERATION,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)


class Range(Assignor):
    """Kafka's RangeAssignor: of each topic, contiguous ranges of equal size.

    Topics with equal partition counts and subscribers are divided alike (co-partitioning).
    """

    name = "range"

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        """Assign Kafka's ranges; in the same sizes by rack where racks are known (KIP-881)."""
        group = Numbering(cluster, members)
        racks = group.racks_or_none(cluster)
        # KIP-881: racks matter only if a member has one
        if racks is None:
            return group.to_given(range_assignment(group.starts, group.subscriptions))
        return group.to_given(range_by_rack(group.starts, group.subscriptions, racks))


class RoundRobin(Assignor):
    """Kafka's RoundRobinAssignor: all partitions of all topics to the members in turn."""

    name = "roundrobin"

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        """Assign the partitions in order of topic and number, skipping unsubscribed members."""
        group = Numbering(cluster, members)
        return group.to_given(roundrobin_assignment(group.starts, group.subscriptions))


class Sticky(Assignor):
    """Kafka's StickyAssignor, for the eager protocol: balanced, with the fewest moves.

    The members report their last assignments in user data.
    """

    name = "sticky"

    def __init__(self) -> None:
        self._given: tuple[TopicParts, ...] | None = None
        self._generation = NO_GENERATION

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """Return the last assignment and its generation (KIP-341); None before the first."""
        return (
            None
            if self._given is None
            else encode_sticky(to_named_parts(self._given), self._generation)
        )

    def on_assignment(self, given: Given, generation: int) -> None:
        """Remember the assignment for the next `user_data`."""
        self._given, self._generation = given.partitions, generation

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        """Assign as `apportion.assign.sticky` does, by the claims in user data alone."""
        group = Numbering(cluster, members)
        return group.to_given(
            sticky(group.claims(claim_from_user_data), group.starts, group.subscriptions)
        )


class CooperativeSticky(Assignor):
    """Kafka's CooperativeStickyAssignor: balanced, with the fewest moves.

    A revoked partition is assigned to its new owner in the next rebalance (KIP-429).
    """

    name = "cooperative-sticky"
    rebalances = (Rebalance.COOPERATIVE, Rebalance.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """Return the last generation, for leaders that do not read it in the subscription."""
        return encode_cooperative(self._generation)

    def on_assignment(self, given: Given, generation: int) -> None:
        """Remember the generation for the next `user_data`."""
        self._generation = generation

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        """Assign as `apportion.assign.sticky` does, without partitions that others still own."""
        group = Numbering(cluster, members)
        return group.to_given(
            cooperative_sticky(
                group.claims(claim_from_subscription), group.starts, group.subscriptions
            )
        )


def claim_from_user_data(subscription: Subscription) -> OwnershipClaim:
    """Return the claim of a `sticky` member; user data that cannot be decoded claim nothing."""
    # KIP-341: with the generation a leader can tell a stale claim from the newest one
    claim = decode_sticky(subscription.user_data)
    return from_named_parts(claim.topic_partitions), max(claim.generation, NO_GENERATION)


def claim_from_subscription(subscription: Subscription) -> OwnershipClaim:
    """Return the claim of a `cooperative-sticky` member.

    The generation is in user data if the subscription has none (before version 2, KIP-792).
    """
    generation = subscription.generation
    if generation < 0:
        generation = decode_cooperative(subscription.user_data)
    return subscription.owned, max(generation, NO_GENERATION)


CLIENT_ASSIGNORS: dict[str, type[Assignor]] = {
    assignor.name: assignor for assignor in (Range, RoundRobin, Sticky, CooperativeSticky)
}
"""Kafka's assignors by the names that members vote for."""
