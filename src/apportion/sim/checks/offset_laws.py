"""The laws of committed offsets: who may commit, that they never go back, and never pass what the group's sink has."""

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.node.node import Node
from apportion.sim.actors.sink import Sink
from apportion.sim.checks.classic_laws import may_commit
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition, Topics
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest
from apportion.wire.messages.produce import ProduceRequest
from apportion.wire.records.groups import OffsetCommitValue

Spot = tuple[str, bytes, int]
"""A group, the id of a topic, a partition of it."""
ByTopic = dict[str, dict[int, OffsetCommitValue]]


class Offsets:
    """What was committed, and what of it somebody has seen. first: where the fenced group began to read each place."""

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self.first: dict[TopicIdPartition, int] = {}
        self.commits = 0
        self._sinks = sinks
        self._before: ByTopic = {}
        self._shown: dict[Spot, int] = {}
        self._written: dict[tuple[bytes, int], int] = {}

    def before(self, shards: Iterable[Shard], request: OffsetCommitRequest) -> None:
        """The broker is about to work off `request`."""
        known = of_group(shards, request.group_id)
        self._before = {topic: dict(partitions) for topic, partitions in known.items()}

    def after(self, shards: Iterable[Shard], request: OffsetCommitRequest) -> None:
        """The broker has worked it off: what it stored was the member's to commit, and goes forward."""
        for topic, partitions in of_group(shards, request.group_id).items():
            old = self._before.get(topic, {})
            for partition, value in partitions.items():
                if old.get(partition) is not value:
                    self._check(
                        shards, request, TopicIdPartition(topic, value.topic_id, partition), old.get(partition), value.offset
                    )

    def _check(
        self,
        shards: Iterable[Shard],
        request: OffsetCommitRequest,
        place: TopicIdPartition,
        old: OffsetCommitValue | None,
        offset: int,
    ) -> None:
        self.commits += 1
        who, claimed = request.member_id, request.generation_id_or_member_epoch
        if not _may(shards, request.group_id, who, claimed, place):
            raise LawBroken("commit-is-fenced", f"{who} committed {place} as of epoch {claimed}, which it may not.")
        if old is not None and old.topic_id == place.topic_id and offset < old.offset:
            raise LawBroken("offsets-never-back", f"{who} committed {offset} for {place}, where {old.offset} stood.")
        sink = self._sinks.get(request.group_id)
        if sink is not None:
            end = sink.fences.get(place, self.first.setdefault(place, offset if sink.begins is None else sink.begins))
            if offset > end:
                raise LawBroken("one-sink", f"{who} committed {offset} for {place}; the group's sink ends at {end}.")

    def is_shown(self, group_id: str) -> bool:
        """Whether somebody was shown an offset of the group."""
        return any(group == group_id for group, _, _ in self._shown)

    def answered(self, topics: Topics, request: Any, body: Any) -> None:
        """Somebody was shown this: an offset that the group has, an offset that was stored, records that were."""
        if type(request) is OffsetFetchRequest:
            for group in body.groups:
                for topic in group.topics:
                    for partition in topic.partitions:
                        if partition.error_code == Code.NONE and partition.committed_offset >= 0:
                            spot = (group.group_id, bytes(topic.topic_id), partition.partition_index)
                            self._show(spot, partition.committed_offset)
        elif type(request) is OffsetCommitRequest:
            for said, answer in zip(request.topics, body.topics, strict=True):
                for wanted, partition in zip(said.partitions, answer.partitions, strict=True):
                    if partition.error_code == Code.NONE:
                        spot = (request.group_id, bytes(said.topic_id), partition.partition_index)
                        self._show(spot, wanted.committed_offset)
        elif type(request) is ProduceRequest:
            self._acknowledged(topics, body)

    def recovered(self, shards: Iterable[Shard], node: Node) -> None:
        """The broker has a new memory: what anybody was shown is in it, and what nobody was shown may be lost."""
        for group_id, sink in self._sinks.items():
            known = of_group(shards, group_id)
            for place in [place for place in self.first if place not in sink.rows]:
                if place.partition not in known.get(place.topic, {}):
                    del self.first[place]  # the group begins to read it anew
        for (group_id, topic_id, partition), shown in self._shown.items():
            topic = node.topics.with_id(topic_id)
            if topic is None:
                continue
            value = of_group(shards, group_id).get(topic.name, {}).get(partition)
            if value is None or value.offset < shown:
                found = "none" if value is None else value.offset
                raise LawBroken("durable", f"offset {shown} of {topic.name}-{partition} was shown in {group_id}; {found} is left.")
        ends = {(partition.topic.id, partition.index): partition.log.next_offset for partition in node.partitions()}
        for (topic_id, partition), offset in self._written.items():
            topic = node.topics.with_id(topic_id)
            if topic is not None and ends.get((topic_id, partition), 0) <= offset:
                raise LawBroken("durable", f"the record at {offset} of {topic.name}-{partition} was acknowledged and is lost.")

    def _show(self, spot: Spot, offset: int) -> None:
        self._shown[spot] = max(self._shown.get(spot, 0), offset)

    def _acknowledged(self, topics: Topics, body: Any) -> None:
        for said in body.responses:
            topic = topics.named(said.name)
            for partition in said.partition_responses:
                if topic is not None and partition.error_code == Code.NONE:
                    spot = (topic.id, partition.index)
                    self._written[spot] = max(self._written.get(spot, 0), partition.base_offset)


def of_group(shards: Iterable[Shard], group_id: str) -> ByTopic:
    """The offsets of that group, by topic and partition."""
    for shard in shards:
        found = shard.ledger.offsets.get(group_id)
        if found is not None:
            return found
    return {}


def _may(shards: Iterable[Shard], group_id: str, member_id: str, claimed: int, place: TopicIdPartition) -> bool:
    """The member is at that epoch, or was given the place at that epoch or before and has it still."""
    for shard in shards:
        group = shard.ledger.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return may_commit(group, member_id, claimed, place)
        if group is not None:
            member = group.saved.members.get(member_id)
            if member is None or claimed > member.epoch:
                return False
            unit = group.saved.units.unit(place.topic_id, place.partition)
            given = (member.assigned.as_mapping() | member.pending_revocation.as_mapping()).get(unit)
            return claimed == member.epoch or (given is not None and given <= claimed)
    return False
