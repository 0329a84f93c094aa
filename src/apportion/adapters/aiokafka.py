"""Sticky assignors for aiokafka: with the generation (KIP-341) and owned partitions (KIP-792).

aiokafka passes neither of the two to its own assignors.

    from apportion.adapters.aiokafka import AIOKafkaConsumer, AiokafkaCooperativeSticky

    consumer = AIOKafkaConsumer(
        "flights", group_id="g", partition_assignment_strategy=[AiokafkaCooperativeSticky()]
    )

The consumer is aiokafka's; this one only shows its coordinator to the assignors. aiokafka gives
everything back before it joins again, whatever the assignor, so `AiokafkaCooperativeSticky` lets it
into a cooperative group and keeps its partitions with it, but does not spare it the pause. Written
for aiokafka 0.14.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor, log
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

from apportion.adapters.foreign import (
    NO_GENERATION,
    ForeignCluster,
    SingleConsumerAssignor,
    to_cluster,
)
from apportion.assign.by_name import Given, Subscription, TopicParts
from apportion.member.assignors import builtin
from apportion.member.assignors.checks import partitions_of
from apportion.member.assignors.serde import encode_subscription
from apportion.member.classic.leader import GroupSubscription, decode_group_subscription
from apportion.wire.messages.join_group import JoinGroupResponseMember

__all__ = ["AIOKafkaConsumer", "AiokafkaCooperativeSticky", "AiokafkaSticky"]


class _AiokafkaAssignor(SingleConsumerAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """One of our assignors, with the interface that aiokafka calls."""

    home = "AIOKafkaConsumer of apportion.adapters.aiokafka"
    sends_owned_partitions = False  # whether the subscription carries them (cooperative)

    def __init__(self) -> None:
        super().__init__()
        self._given = Given()
        # of the members in the join under way, decoded whole
        self._group_subscription = GroupSubscription({}, ())

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return the subscription for JoinGroup: aiokafka's hook before it joins.

        In version 3, with the generation; aiokafka's own assignors write older versions.
        """
        if self._bound().generation == NO_GENERATION:
            # The member has left its generation: others may own its former partitions.
            self._given, self._generation = Given(), NO_GENERATION
            self._assignor.on_assignment(self._given, NO_GENERATION)
        subscribed = tuple(sorted(topics))
        owned = self._given.partitions if self.sends_owned_partitions else ()
        return encode_subscription(
            Subscription(subscribed, self._assignor.user_data(subscribed), owned, self._generation)
        )

    def set_members(self, members: Iterable[tuple[Any, ...]]) -> None:
        """Decode the members of a leader's JoinGroup response, for the next `assign`.

        The aiokafka library decodes only the beginning of their metadata.
        """
        rows = (
            JoinGroupResponseMember(
                member_id=name, group_instance_id=(*instance, None)[0], metadata=metadata
            )
            for name, *instance, metadata in members
        )
        self._group_subscription = decode_group_subscription(rows)
        for why in self._group_subscription.unreadable:
            log.warning("a member gets no partitions: %s", why)

    def assign(
        self, cluster: ForeignCluster, members: Mapping[str, Any]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return each member's assignment by our assignor: aiokafka's hook on the leader."""
        assignments = self._assignor.assign(
            to_cluster(cluster, self._group_subscription.topics),
            self._group_subscription.members,
        )
        return {member: _to_aiokafka(assignments.get(member, Given())) for member in members}

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Remember the assignment and its generation: aiokafka's hook after SyncGroup.

        A cooperative member that has revoked partitions rejoins at once, so that they can be
        assigned (KIP-429).
        """
        before = partitions_of(self._given.partitions)
        parts = (
            TopicParts(topic, tuple(sorted(numbers))) for topic, numbers in assignment.assignment
        )
        self._given = Given(tuple(sorted(parts)), assignment.user_data)
        self._generation = self._bound().generation
        self._assignor.on_assignment(self._given, self._generation)
        if self.sends_owned_partitions and before.keys() - partitions_of(self._given.partitions):
            self._bound().request_rejoin()


class AiokafkaSticky(_AiokafkaAssignor):
    """The `sticky` assignor: balanced, with the fewest moves; eager, by claims in user data."""

    kind = builtin.Sticky


class AiokafkaCooperativeSticky(_AiokafkaAssignor):
    """The `cooperative-sticky` assignor, to share a group with Java's and librdkafka's.

    A partition that changes hands does so one rebalance later.
    """

    kind = builtin.CooperativeSticky
    sends_owned_partitions = True


class AIOKafkaConsumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
    """aiokafka's consumer, which passes its coordinator to the assignors of this module."""

    _partition_assignment_strategy: tuple[Any, ...]

    def __init__(self, *topics: str, **options: Any) -> None:
        """Take aiokafka's options.

        `partition_assignment_strategy` may name our assignors as classes or objects.
        """
        super().__init__(*topics, **options)
        self._partition_assignment_strategy = tuple(
            map(_as_object, self._partition_assignment_strategy)
        )

    @property
    def _coordinator(self) -> Any:
        return self.__dict__.get("_coordinator")

    @_coordinator.setter
    def _coordinator(self, coordinator: Any) -> None:
        self.__dict__["_coordinator"] = coordinator
        assignors = [
            each
            for each in self._partition_assignment_strategy
            if isinstance(each, _AiokafkaAssignor)
        ]
        if coordinator is not None and assignors and hasattr(coordinator, "_perform_assignment"):
            for each in assignors:
                each.bind(coordinator)
            coordinator._perform_assignment = _with_members(
                coordinator._perform_assignment, assignors
            )


def _as_object(assignor: Any) -> Any:
    """Return an object for a class of our assignors; aiokafka's own assignors stay classes."""
    return (
        assignor()
        if isinstance(assignor, type) and issubclass(assignor, _AiokafkaAssignor)
        else assignor
    )


def _with_members(
    perform: Callable[[Any], Awaitable[Any]], assignors: list[_AiokafkaAssignor]
) -> Callable[[Any], Awaitable[Any]]:
    """Wrap aiokafka's `perform` so that our assignors see the whole JoinGroup response first.

    aiokafka calls `perform` in the group's leader.
    """

    async def perform_assignment(response: Any) -> Any:
        for each in assignors:
            each.set_members(response.members)
        return await perform(response)

    return perform_assignment


def _to_aiokafka(given: Given) -> ConsumerProtocolMemberAssignment:
    parts = [(topic, list(numbers)) for topic, numbers in given.partitions]
    return ConsumerProtocolMemberAssignment(0, parts, given.user_data or b"")
