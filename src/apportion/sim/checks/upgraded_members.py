"""Remembers what classic members had when their groups were upgraded, and what they cannot know.

A classic member may use a partition that its consumer group has given to another: the classic
protocol has no topic ids, and a static member may miss a generation. Kafka has both weaknesses. The
sink's fences and the coordinator refuse such a member's writes and commits.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.units import PARTITION, SHIFT
from apportion.member.membership import View
from apportion.sim.checks.subscriptions import assigned_id_partitions
from apportion.topics import IdPartition, TopicIdPartition, Topics
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import decode


class UpgradeSnapshot(NamedTuple):
    """The epoch and the assignment with which a classic member came into its consumer group.

    contested: the partitions that it and other members said they owned.
    """

    epoch: int
    assigned: dict[IdPartition, None]
    contested: dict[IdPartition, None]


class UpgradedMembers:
    """The classic members of all consumer groups, as they were when they came into them."""

    def __init__(self) -> None:
        self._members: dict[str, UpgradeSnapshot] = {}

    def add(self, group: ConsumerGroup, members: Iterable[str], topics: Topics) -> None:
        """Remember the members that have just come into the group, those that are classic.

        A group that is upgraded in the middle of a rebalance takes its members' assignments over as
        they are, also where a member has since joined with other topics.
        """
        classic = [member for name in members if (member := group.saved.members[name]).is_classic]
        claims = {member.member_id: list(claimed_partitions(member, topics)) for member in classic}
        claimants = Counter(partition for claimed in claims.values() for partition in claimed)
        for member in classic:
            contested = [
                partition for partition in claims[member.member_id] if claimants[partition] > 1
            ]
            self._members[member.member_id] = UpgradeSnapshot(
                member.epoch, assigned_id_partitions(group, member), dict.fromkeys(contested)
            )

    def remove(self, member_id: str) -> None:
        """Forget a member that is in its group no more."""
        self._members.pop(member_id, None)

    def assigned(self, member_id: str) -> Mapping[IdPartition, None]:
        """Return the partitions that the member has had since before its group was upgraded."""
        member = self._members.get(member_id)
        return {} if member is None else member.assigned

    def may_use(
        self, group: ConsumerGroup, view: View, partition: TopicIdPartition, topics: Topics
    ) -> bool:
        """Return whether a classic member may use a partition that it is not assigned."""
        member = self._members.get(view.member_id)
        return may_mean_deleted_topic(group, view.member_id, partition, topics) or (
            member is not None
            and (
                # An upgrade finds what has to be revoked by the topics' names in subscriptions. If
                # one member owns a partition of a deleted topic and another one that of its
                # successor, both claim it, and the group can note one of them (decision 33).
                partition.id_partition in member.contested
                # A classic group keeps a static member that does not rejoin (KIP-345), and its
                # leader may assign that one's partitions to others. It learns that when it rejoins.
                or (
                    group.saved.members[view.member_id].metadata.instance_id is not None
                    and view.epoch < member.epoch
                )
            )
        )


def claimed_partitions(member: ConsumerGroupMember, topics: Topics) -> Iterator[IdPartition]:
    """Yield the partitions that a classic member said it owned, in its last JoinGroup."""
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    _, subscription = decode(ConsumerProtocolSubscription, classic.supported_protocols[0].metadata)
    for owned in subscription.owned_partitions:
        if (topic := topics.named(owned.topic)) is not None:
            for partition in owned.partitions:
                yield IdPartition(topic.id, partition)


def may_mean_deleted_topic(
    group: ConsumerGroup, member_id: str, topic_partition: TopicIdPartition, topics: Topics
) -> bool:
    """Return whether a classic member may use a partition that is not its own by mistake.

    The classic protocol names topics without ids, so a member cannot tell a deleted topic from one
    that was created later under its name. It may, if the partition's topic is deleted, if nobody
    owns the partition, or if the member owns a partition of that number of a deleted topic.
    """
    if topics.with_id(topic_partition.topic_id) is None:
        return True
    if (
        group.saved.owners.owner_or_none(
            group.saved.units.unit(topic_partition.topic_id, topic_partition.partition)
        )
        is None
    ):
        return True
    ids = group.saved.units.ids
    owned_units = group.saved.members[member_id].units()
    return any(
        unit & PARTITION == topic_partition.partition and topics.with_id(ids[unit >> SHIFT]) is None
        for unit in owned_units
    )
