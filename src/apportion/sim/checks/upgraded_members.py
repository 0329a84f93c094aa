"""Remembers what classic members had when their groups were upgraded, and what they cannot know.

A classic member may use a partition that its consumer group has given to another: the classic
protocol has no topic ids, and a static member may miss a generation. Kafka has both weaknesses. The
sink's fences and the coordinator refuse such a member's writes and commits.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.member.membership import View
from apportion.sim.checks.subscriptions import assigned_id_partitions
from apportion.topics import IdPartition, TopicIdPartition, Topics
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import decode


class UpgradeSnapshot(NamedTuple):
    """The epoch and the assignment with which a classic member came into its consumer group.

    contested: the partitions that it and other members said they owned, until it gives them up.
    """

    epoch: int
    assigned: dict[IdPartition, None]
    contested: dict[IdPartition, None]


class HeardAssignment(NamedTuple):
    """The newest generation that a classic member has heard of, and what it was assigned in it.

    epoch: the generation. before: what it was assigned in the generation before, which it goes by
    until it has given up what the newest one does not assign it.
    """

    epoch: int
    assigned: dict[IdPartition, None]
    before: dict[IdPartition, None]


NOTHING_HEARD = HeardAssignment(-1, {}, {})


class UpgradedMembers:
    """The classic members of all consumer groups: as they came into them, and what they heard."""

    def __init__(self) -> None:
        self._members: dict[str, UpgradeSnapshot] = {}
        self._heard: dict[str, HeardAssignment] = {}

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
        self._heard.pop(member_id, None)

    def note_view(self, group: ConsumerGroup, view: View) -> None:
        """Note what a member has given up, and if it is classic, what it has heard of."""
        self._note_owned(view)
        member = group.saved.members.get(view.member_id)
        # At another epoch the answer to its JoinGroup is under way.
        if member is None or not member.is_classic or member.epoch != view.epoch:
            return
        assigned = dict.fromkeys(map(group.saved.units.id_partition, member.units()))
        heard = self._heard.get(view.member_id, NOTHING_HEARD)
        if heard.epoch != view.epoch:
            heard = HeardAssignment(view.epoch, assigned, heard.assigned)
        # It may be assigned more within a generation, as others give up partitions.
        self._heard[view.member_id] = heard._replace(assigned=heard.assigned | assigned)

    def _note_owned(self, view: View) -> None:
        """Have no excuse any more for partitions that the member has given up."""
        member = self._members.get(view.member_id)
        if member is not None and member.contested:
            contested = dict.fromkeys(each for each in view.owned if each in member.contested)
            self._members[view.member_id] = member._replace(contested=contested)

    def assigned(self, member_id: str) -> Mapping[IdPartition, None]:
        """Return the partitions that the member has had since before its group was upgraded."""
        member = self._members.get(member_id)
        return {} if member is None else member.assigned

    def may_use(
        self, group: ConsumerGroup, view: View, partition: TopicIdPartition, topics: Topics
    ) -> bool:
        """Return whether a classic member may use a partition that it is not assigned."""
        member = self._members.get(view.member_id)
        return self._may_mean_deleted_topic(group, view, partition, topics) or (
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

    def _may_mean_deleted_topic(
        self,
        group: ConsumerGroup,
        view: View,
        topic_partition: TopicIdPartition,
        topics: Topics,
    ) -> bool:
        """Return whether a classic member may use a partition that is not its own by mistake.

        The classic protocol names topics without ids, so a member cannot tell a deleted topic from
        one that was created later under its name. It may, if the partition's topic is deleted, if
        nobody owns the partition, or if the member's generation or the one before has assigned it a
        partition of that number of a deleted topic.
        """
        if topics.with_id(topic_partition.topic_id) is None:
            return True
        unit = group.saved.units.unit(topic_partition.topic_id, topic_partition.partition)
        if group.saved.owners.owner_or_none(unit) is None:
            return True
        heard = self._heard.get(view.member_id, NOTHING_HEARD)
        return heard.epoch == view.epoch and any(
            each.partition == topic_partition.partition and topics.with_id(each.topic_id) is None
            for each in (*heard.assigned, *heard.before)
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
