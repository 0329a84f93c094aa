"""Checks committed offsets: who commits, that they never go back, nor beyond the sink's fences."""

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.node.node import Node
from apportion.sim.actors.sink import Sink
from apportion.sim.checks.subscriptions import assigned_partitions
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition, Topics
from apportion.wire.group_states import GroupState
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest
from apportion.wire.messages.produce import ProduceRequest
from apportion.wire.records.groups import OffsetCommitValue

GroupPartition = tuple[str, bytes, int]
"""Group id, topic id, partition."""
ByTopic = dict[str, dict[int, OffsetCommitValue]]


class OffsetChecker:
    """The committed offsets of all groups, and those that stood in a reply.

    first: the offset at which the group with a sink began to read each partition. commits: how many
    offsets were changed. The other tables hold what was committed before the present request, the
    highest offset that a reply has shown, and the highest record that was acknowledged.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self.first: dict[TopicIdPartition, int] = {}
        self.commits = 0
        self._sinks = sinks
        self._before: ByTopic = {}
        self._shown: dict[GroupPartition, int] = {}
        self._written: dict[tuple[bytes, int], int] = {}

    def before_commit(self, shards: Iterable[Shard], request: OffsetCommitRequest) -> None:
        """Note the group's offsets before the coordinator processes the commit."""
        known = committed_offsets(shards, request.group_id)
        self._before = {topic: dict(partitions) for topic, partitions in known.items()}

    def after_commit(self, shards: Iterable[Shard], request: OffsetCommitRequest) -> None:
        """Check each offset that an OffsetCommit has changed."""
        for topic, partitions in committed_offsets(shards, request.group_id).items():
            old = self._before.get(topic, {})
            for partition, value in partitions.items():
                if old.get(partition) is not value:
                    self._check(
                        shards,
                        request,
                        TopicIdPartition(topic, value.topic_id, partition),
                        old=old.get(partition),
                        offset=value.offset,
                    )

        self._check_refused(shards, request)

    def _check_refused(self, shards: Iterable[Shard], request: OffsetCommitRequest) -> None:
        """Check that a commit was not refused which a member of a consumer group may make."""
        group, topics = _group_and_topics(shards, request.group_id)
        member = None if group is None else group.saved.members.get(request.member_id)
        if member is None or member.is_classic:
            return
        committed = committed_offsets(shards, request.group_id)
        offsets: dict[TopicIdPartition, int] = {}
        for requested in request.topics:
            topic = topics.with_id(bytes(requested.topic_id))
            for each in requested.partitions:
                if topic is None or each.partition_index >= topic.partitions:
                    return
                partition = TopicIdPartition(topic.name, topic.id, each.partition_index)
                offsets[partition] = each.committed_offset
        if not all(_may_commit(shards, request, partition) for partition in offsets):
            return
        for partition, offset in offsets.items():
            value = committed.get(partition.topic, {}).get(partition.partition)
            if value is None or (value.topic_id, value.offset) != (partition.topic_id, offset):
                raise LawBroken(
                    "commit-with-cause",
                    f"{request.member_id} may commit {partition} as of epoch "
                    f"{request.generation_id_or_member_epoch}, and was refused.",
                )

    def _check(
        self,
        shards: Iterable[Shard],
        request: OffsetCommitRequest,
        topic_partition: TopicIdPartition,
        *,
        old: OffsetCommitValue | None,
        offset: int,
    ) -> None:
        """Check one committed offset of the simulation.

        The committer may commit it, it is not below the one before, and the sink has all rows up to
        it.
        """
        self.commits += 1
        member_id = request.member_id
        # Checked on the state after the request: a commit changes neither members nor epochs.
        if not _may_commit(shards, request, topic_partition):
            raise LawBroken(
                "commit-is-fenced",
                f"{member_id} committed {topic_partition} as of epoch "
                f"{request.generation_id_or_member_epoch}, which it may not.",
            )
        # A recreated topic begins at 0 again, so only offsets of one topic id are compared.
        if old is not None and old.topic_id == topic_partition.topic_id and offset < old.offset:
            raise LawBroken(
                "offsets-never-back",
                f"{member_id} committed {offset} for {topic_partition}, where {old.offset} stood.",
            )
        sink = self._sinks.get(request.group_id)
        if sink is not None:
            end = sink.fences.get(
                topic_partition,
                self.first.setdefault(
                    topic_partition, offset if sink.first_offset is None else sink.first_offset
                ),
            )
            # A committed offset says that everything below is in the sink; whoever starts there
            # would never read what is not.
            if offset > end:
                raise LawBroken(
                    "one-sink",
                    f"{member_id} committed {offset} for {topic_partition}; the group's sink "
                    f"ends at {end}.",
                )

    def is_shown(self, group_id: str) -> bool:
        """Return whether an offset of the group stood in a reply."""
        return any(group == group_id for group, _, _ in self._shown)

    def reply_sent(self, topics: Topics, request: Any, body: Any) -> None:
        """Note the offsets and records that a reply of the broker shows or acknowledges.

        Fetched offsets, committed offsets and produced records must survive a later crash.
        """
        if type(request) is OffsetFetchRequest:
            for group in body.groups:
                for topic in group.topics:
                    for partition in topic.partitions:
                        self._note_shown(
                            group.group_id, topic.topic_id, partition, partition.committed_offset
                        )
        elif type(request) is OffsetCommitRequest:
            for requested_topic, topic in zip(request.topics, body.topics, strict=True):
                for requested, partition in zip(
                    requested_topic.partitions, topic.partitions, strict=True
                ):
                    self._note_shown(
                        request.group_id,
                        requested_topic.topic_id,
                        partition,
                        requested.committed_offset,
                    )
        elif type(request) is ProduceRequest:
            self._note_written(topics, body)

    def check_recovered(self, shards: Iterable[Shard], node: Node) -> None:
        """Check the offsets of a restarted broker: all that was in a reply is still there.

        Anything else may be lost.
        """
        for group_id, sink in self._sinks.items():
            known = committed_offsets(shards, group_id)
            for topic_partition in [
                topic_partition
                for topic_partition in self.first
                if topic_partition not in sink.rows
            ]:
                if topic_partition.partition not in known.get(topic_partition.topic, {}):
                    # its first commit was lost, so the group begins it again
                    del self.first[topic_partition]
        for (group_id, topic_id, partition), shown in self._shown.items():
            topic = node.topics.with_id(topic_id)
            if topic is None:
                continue
            value = committed_offsets(shards, group_id).get(topic.name, {}).get(partition)
            # A reply is a promise: a consumer that has seen the offset may have dropped its own
            # copy of the records.
            if value is None or value.offset < shown:
                remaining = "none" if value is None else value.offset
                raise LawBroken(
                    "durable",
                    f"offset {shown} of {topic.name}-{partition} was shown in {group_id}; "
                    f"{remaining} is left.",
                )
        ends = {
            (partition.topic.id, partition.index): partition.log.next_offset
            for partition in node.partitions()
        }
        for (topic_id, partition), offset in self._written.items():
            topic = node.topics.with_id(topic_id)
            if topic is not None and ends.get((topic_id, partition), 0) <= offset:
                raise LawBroken(
                    "durable",
                    f"the record at {offset} of {topic.name}-{partition} was acknowledged "
                    "and is lost.",
                )

    def _note_shown(self, group_id: str, topic_id: Any, partition: Any, offset: int) -> None:
        """Remember the highest offset of a response's partition, unless it has an error or none."""
        if partition.error_code == Code.NONE and offset >= 0:
            key = (group_id, bytes(topic_id), partition.partition_index)
            self._shown[key] = max(self._shown.get(key, 0), offset)

    def _note_written(self, topics: Topics, body: Any) -> None:
        """Remember the highest base offset that each partition's producer was answered."""
        for topic_response in body.responses:
            topic = topics.named(topic_response.name)
            for partition in topic_response.partition_responses:
                if topic is not None and partition.error_code == Code.NONE:
                    group_partition = (topic.id, partition.index)
                    self._written[group_partition] = max(
                        self._written.get(group_partition, 0), partition.base_offset
                    )


def committed_offsets(shards: Iterable[Shard], group_id: str) -> ByTopic:
    """Return a simulated group's committed offsets, by topic and partition."""
    for shard in shards:
        by_topic = shard.ledger.offsets.get(group_id)
        if by_topic is not None:
            return by_topic
    return {}


def _group_and_topics(
    shards: Iterable[Shard], group_id: str
) -> tuple[ConsumerGroup | None, Topics]:
    """Return the consumer group, None if there is none, and the topics that its shard knows."""
    for shard in shards:
        group = shard.ledger.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, shard.topics
    return None, Topics()


def _may_commit(
    shards: Iterable[Shard], request: OffsetCommitRequest, topic_partition: TopicIdPartition
) -> bool:
    """Return whether a member may commit with the epoch that it claims.

    It may at its own epoch, and for a partition that it still has at any epoch since it was
    assigned (KIP-1251).
    """
    member_id, epoch = request.member_id, request.generation_id_or_member_epoch
    for shard in shards:
        group = shard.ledger.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return _classic_member_may_commit(group, member_id, epoch, topic_partition)
        if group is not None:
            member = group.saved.members.get(member_id)
            if member is None or epoch > member.epoch:
                return False
            unit = group.saved.units.unit(topic_partition.topic_id, topic_partition.partition)
            assigned_epoch = (
                member.assigned.as_mapping() | member.pending_revocation.as_mapping()
            ).get(unit)
            # KIP-1251: an older epoch will do for a partition that has stayed with the member
            # since.
            return epoch == member.epoch or (assigned_epoch is not None and assigned_epoch <= epoch)
    return False


def _classic_member_may_commit(
    group: ClassicGroup, member_id: str, claimed: int, topic_partition: TopicIdPartition
) -> bool:
    """Return whether the member may commit an offset of the partition.

    The member must be at the group's generation. While the leader assigns, nobody may; after that,
    nobody may commit for a partition that is assigned to another member.
    """
    if (
        member_id not in group.live.members
        or claimed != group.live.generation
        or group.saved is None
    ):
        return False
    if group.live.state is GroupState.COMPLETING_REBALANCE:
        return False
    if claimed != group.saved.generation:
        return True  # joined and not synced: the assignments are those of the generation before
    # A member commits what it has read of a partition that it had to release.
    others = (each for each in group.saved.members if each.member_id != member_id)
    return not any(
        assigned == (topic_partition.topic, topic_partition.partition)
        for each in others
        for assigned in assigned_partitions(each)
    )
