"""Sticky assignors for aiokafka, which tells its own neither the generation (KIP-341) nor what a
member owned (KIP-792).

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
from apportion.member.assignors import builtin
from apportion.member.assignors.checks import partitions_of
from apportion.member.assignors.interface import Given, Subscription, TopicParts
from apportion.member.assignors.serde import encode_subscription
from apportion.member.classic.leader import GroupSubscription, decode_group_subscription
from apportion.wire.messages.join_group import JoinGroupResponseMember

__all__ = ["AIOKafkaConsumer", "AiokafkaCooperativeSticky", "AiokafkaSticky"]


class _AiokafkaAssignor(SingleConsumerAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """One of our assignors, with the interface that aiokafka calls."""

    home = "AIOKafkaConsumer of apportion.adapters.aiokafka"
    owns_between_rebalances = False  # whether the subscription says what the member had

    def __init__(self) -> None:
        super().__init__()
        self._given = Given()
        # of the members in the join under way, decoded whole
        self._group_subscription = GroupSubscription({}, ())

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return the subscription for JoinGroup, in version 3, which aiokafka's own assignors do
        not write.
        """
        if self._bound().generation == NO_GENERATION:
            # it lost its place: others may have what it had
            self._given, self._generation = Given(), NO_GENERATION
            self._assignor.on_assignment(self._given, NO_GENERATION)
        wanted = tuple(sorted(topics))
        owned = self._given.partitions if self.owns_between_rebalances else ()
        return encode_subscription(
            Subscription(wanted, self._assignor.user_data(wanted), owned, self._generation)
        )

    def hears(self, members: Iterable[tuple[Any, ...]]) -> None:
        """Keep the members of a leader's JoinGroup response.

        Aiokafka decodes only the beginning of their metadata.
        """
        rows = (
            JoinGroupResponseMember(
                member_id=name, group_instance_id=(*instance, None)[0], metadata=said
            )
            for name, *instance, said in members
        )
        self._group_subscription = decode_group_subscription(rows)
        for why in self._group_subscription.unreadable:
            log.warning("a member gets nothing: %s", why)

    def assign(
        self, cluster: ForeignCluster, members: Mapping[str, Any]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return what each member gets, by our assignor."""
        given = self._assignor.assign(
            to_cluster(cluster, self._group_subscription.topics),
            self._group_subscription.members,
        )
        return {member: _to_aiokafka(given.get(member, Given())) for member in members}

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Remember the assignment and its generation.

        What was revoked is free for the next rebalance.
        """
        before = partitions_of(self._given.partitions)
        parts = (
            TopicParts(topic, tuple(sorted(numbers))) for topic, numbers in assignment.assignment
        )
        self._given, self._generation = (
            Given(tuple(sorted(parts)), assignment.user_data),
            self._bound().generation,
        )
        self._assignor.on_assignment(self._given, self._generation)
        if self.owns_between_rebalances and before.keys() - partitions_of(self._given.partitions):
            self._bound().request_rejoin()


class AiokafkaSticky(_AiokafkaAssignor):
    """The `sticky` assignor: balanced, with the fewest moves; eager, by claims in user data."""

    kind = builtin.Sticky


class AiokafkaCooperativeSticky(_AiokafkaAssignor):
    """The `cooperative-sticky` assignor, to share a group with Java's and librdkafka's.

    A partition that changes hands does so one rebalance later.
    """

    kind = builtin.CooperativeSticky
    owns_between_rebalances = True


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
        ours = [
            each
            for each in self._partition_assignment_strategy
            if isinstance(each, _AiokafkaAssignor)
        ]
        if coordinator is not None and ours and hasattr(coordinator, "_perform_assignment"):
            for each in ours:
                each.bind(coordinator)
            coordinator._perform_assignment = _listening(coordinator._perform_assignment, ours)


def _as_object(assignor: Any) -> Any:
    """Return an object for a class of ours; aiokafka's own assignors stay classes."""
    return (
        assignor()
        if isinstance(assignor, type) and issubclass(assignor, _AiokafkaAssignor)
        else assignor
    )


def _listening(
    perform: Callable[[Any], Awaitable[Any]], ours: list[_AiokafkaAssignor]
) -> Callable[[Any], Awaitable[Any]]:
    """Wrap `perform` so that our assignors see the whole JoinGroup response first."""

    async def perform_assignment(response: Any) -> Any:
        for each in ours:
            each.hears(response.members)
        return await perform(response)

    return perform_assignment


def _to_aiokafka(given: Given) -> ConsumerProtocolMemberAssignment:
    parts = [(topic, list(numbers)) for topic, numbers in given.partitions]
    return ConsumerProtocolMemberAssignment(0, parts, given.user_data or b"")
