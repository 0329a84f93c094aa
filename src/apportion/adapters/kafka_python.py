"""Sticky assignors for kafka-python, which send the generation with owned partitions (KIP-792).

kafka-python's own cooperative assignor never sends it.

    from apportion.adapters.kafka_python import KafkaPythonCooperativeSticky, KafkaConsumer

    consumer = KafkaConsumer(
        "flights", group_id="g", partition_assignment_strategy=[KafkaPythonCooperativeSticky]
    )

The consumer is kafka-python's; this one only shows its coordinator to the assignors, so that they
say what the consumer owns and not what it once did. Written for kafka-python 3.0.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

import kafka
from apportion.adapters.foreign import (
    NO_GENERATION,
    ForeignCluster,
    SingleConsumerAssignor,
    to_cluster,
)
from apportion.assign.by_name import Given, Subscription, TopicParts
from apportion.member.assignors import builtin
from apportion.member.assignors.interface import Rebalance

__all__ = ["KafkaConsumer", "KafkaPythonCooperativeSticky", "KafkaPythonSticky"]

VERSION = 3


class _KafkaPythonAssignor(SingleConsumerAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """One of our assignors, with the interface that kafka-python calls."""

    home = "KafkaConsumer of apportion.adapters.kafka_python"

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return COOPERATIVE if members keep their partitions while they rejoin, else EAGER."""
        cooperates = Rebalance.COOPERATIVE in self.kind.rebalances
        return [RebalanceProtocol.COOPERATIVE if cooperates else RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return the subscription for JoinGroup: kafka-python's hook before it joins.

        Version 3, with the owned partitions and the generation in which they were assigned
        (KIP-792).
        """
        if self._bound()._generation.generation_id == NO_GENERATION:
            # The member has left its generation: others may own its former partitions.
            self._generation = NO_GENERATION
            self._assignor.on_assignment(Given(), NO_GENERATION)
        subscribed = tuple(sorted(topics))
        owned = [
            ConsumerProtocolSubscription.TopicPartition(
                topic=topic, partitions=[each.partition for each in of_topic]
            )
            for topic, of_topic in groupby(
                sorted(self._bound()._subscription.assigned_partitions()), lambda each: each.topic
            )
        ]
        return ConsumerProtocolSubscription(
            version=VERSION,
            topics=list(subscribed),
            user_data=self._assignor.user_data(subscribed) or b"",
            owned_partitions=owned if self._generation != NO_GENERATION else [],
            generation_id=self._generation,
            rack_id=None,
        )

    def assign(
        self, cluster: ForeignCluster, members: Iterable[Any]
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's assignment by our assignor: kafka-python's hook on the leader."""
        subscriptions = {
            each.member_id: _to_subscription(
                each.metadata, getattr(each, "group_instance_id", None)
            )
            for each in members
        }
        topics = (topic for each in subscriptions.values() for topic in each.topics)
        assignments = self._assignor.assign(to_cluster(cluster, topics), subscriptions)
        return {
            member: _to_kafka_python(assignments.get(member, Given())) for member in subscriptions
        }

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Remember the assignment and its generation: kafka-python's hook after SyncGroup."""
        self._generation = generation
        parts = (
            TopicParts(each.topic, tuple(sorted(each.partitions)))
            for each in assignment.assigned_partitions
        )
        self._assignor.on_assignment(Given(tuple(sorted(parts)), assignment.user_data), generation)


class KafkaPythonSticky(_KafkaPythonAssignor):
    """The `sticky` assignor: balanced, with the fewest moves; eager, by claims in user data."""

    kind = builtin.Sticky


class KafkaPythonCooperativeSticky(_KafkaPythonAssignor):
    """The `cooperative-sticky` assignor: members keep what stays with them during a rebalance.

    A partition that changes hands does so one rebalance later.
    """

    kind = builtin.CooperativeSticky


class KafkaConsumer(kafka.KafkaConsumer):  # type: ignore[misc]
    """kafka-python's consumer, which passes its coordinator to the assignors of this module."""

    def __init__(self, *topics: str, **configs: Any) -> None:
        """Take kafka-python's options.

        `partition_assignment_strategy` may name our assignors as classes or objects.
        """
        super().__init__(*topics, **configs)
        for each in self._coordinator._assignors.values():
            if isinstance(each, _KafkaPythonAssignor):
                each.bind(self._coordinator)


def _to_subscription(foreign: Any, instance_id: str | None) -> Subscription:
    """Convert a member's subscription from kafka-python's class, in any protocol version, to ours.

    Called when kafka-python's group leader runs an assignor of apportion. instance_id: comes from
    the JoinGroup response, as the subscription does not have it.
    """
    owned = tuple(
        TopicParts(each.topic, tuple(each.partitions))
        for each in getattr(foreign, "owned_partitions", None) or ()
    )
    generation = getattr(foreign, "generation_id", None)
    return Subscription(
        tuple(foreign.topics),
        foreign.user_data,
        owned,
        NO_GENERATION if generation is None else generation,
        getattr(foreign, "rack_id", None),
        instance_id,
    )


def _to_kafka_python(given: Given) -> ConsumerProtocolAssignment:
    """Return a member's assignment as kafka-python's own type."""
    parts = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=list(numbers))
        for topic, numbers in given.partitions
    ]
    return ConsumerProtocolAssignment(
        version=0, assigned_partitions=parts, user_data=given.user_data or b""
    )
