"""Target assignments by the assignors of the package: what is computed, where, and what is saved.

The assignors work on vectors. So members and topics become indexes, and the subscribed topics are
laid end to end: the owner of each partition is then one vector. A member gets a record only if its
target changed; a new member gets one even if it is empty. The records are encoded with the target
(`target_records.py`), so to save it is to put them into the log, and their arrays into the state.

The problem. The target of a large group takes a long time, in which the broker would answer nobody.

The method. Where members and partitions together are at least
`apportion.assignor.offload.size`, the computation is an action, as that of a custom assignor is
(decision 50), and its result an event: all members follow the older target until then, and learn of
the new one by their next heartbeats. The result is for the group epoch at which it was begun, and
is saved as a whole, in one batch of the log. Members that have gone meanwhile are left out, and a
static one that was replaced gives its part to its successor; the epoch that such a change has
brought, if any, makes another computation follow. In a smaller group the same computation runs
within the heartbeat, whose response may so have the assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from apportion.coord import records
from apportion.coord.consumer import target_results
from apportion.coord.consumer.asked_members import asked_members
from apportion.coord.consumer.target_records import encode_targets
from apportion.coord.consumer.topic_layout import TopicLayout, subscribed_topics
from apportion.coord.consumer.units import SHIFT, no_units
from apportion.lazy_imports import lazy_module

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.assign import assignors, subscriptions
    from apportion.assign.subscriptions import Subscriptions, Vector
    from apportion.coord.consumer.asked_members import AskedMembers
    from apportion.coord.consumer.state import ConsumerGroup
    from apportion.coord.consumer.target_records import TargetRecords
    from apportion.coord.consumer.units import UnitArray
    from apportion.coord.turn import Turn
    from apportion.topics import Topic, TopicId
else:
    np = lazy_module("numpy")
    assignors = lazy_module("apportion.assign.assignors")
    subscriptions = lazy_module("apportion.assign.subscriptions")


@dataclass(slots=True, frozen=True, eq=False)
class ComputeBuiltInTarget:
    """The computation of a group's target assignment by an assignor of the package.

    epoch: the group's, for which the target is. topics: those that exist and have subscribers. ids:
    of all topics that the group has numbered, by number. members: in the order for assignors.
    """

    is_foreign: ClassVar[bool] = False

    group_id: str
    epoch: int
    assignor: str
    topics: tuple[Topic, ...]
    ids: tuple[TopicId, ...]
    members: AskedMembers

    def run(self) -> TargetRecords:
        """Return the records of the members whose target changes."""
        layout = TopicLayout.of(self.topics)
        owner, changed = self._owners(layout)
        new_owner = assignors.ASSIGNORS[self.assignor](
            owner,
            layout.starts,
            self._subscriptions(),
            layout.racks_or_none(self.members.rack_ids),
        )
        # the target of a member changes if it loses a partition, or gets one
        differs = (owner != new_owner).nonzero()[0]
        for vector in (owner, new_owner):
            moved = vector[differs]
            changed[moved[moved >= 0]] = True
        return self._records(layout, new_owner, changed)

    def _owners(self, layout: TopicLayout) -> tuple[Vector, NDArray[np.bool_]]:
        """Return the owner of each partition by the saved targets, and the targets to write again.

        A target must be written again if it is missing, or names partitions that do not exist (any
        more).
        """
        targets = [no_units() if target is None else target for target in self.members.targets]
        owner = np.full(int(layout.starts[-1]), -1, np.int32)
        is_stale = np.array(self.members.must_save, np.bool_)
        positions = layout.positions(np.concatenate([no_units(), *targets]), self.ids)
        ranks = np.repeat(
            np.arange(len(targets), dtype=np.int32), [len(target) for target in targets]
        )
        inside = positions >= 0
        owner[positions[inside]] = ranks[inside]
        # Partitions that are gone have to leave the saved target too, or each new target would meet
        # them again.
        is_stale[ranks[~inside]] = True
        return owner, is_stale

    def _subscriptions(self) -> Subscriptions:
        """Return the topics of each member by index; equal subscriptions share one row."""
        index = {topic.name: number for number, topic in enumerate(self.topics)}
        rows: dict[tuple[str, ...], Vector] = {}
        subscribed = []
        for topics in self.members.topics:
            if topics not in rows:
                rows[topics] = np.array([index[name] for name in topics if name in index], np.int32)
            subscribed.append(rows[topics])
        ends = np.cumsum([0, *map(len, subscribed)]).astype(np.int32)
        return subscriptions.Subscriptions(
            ends, np.concatenate([np.empty(0, np.int32), *subscribed])
        )

    def _records(
        self, layout: TopicLayout, owner: Vector, changed: NDArray[np.bool_]
    ) -> TargetRecords:
        """Return the records of the changed members, with their partitions by topic, ascending.

        owner: the member index of each position, -1 for none.
        """
        # By methods: NumPy's functions of these names cost a small group as much again.
        positions = (changed[owner] & (owner >= 0)).nonzero()[0]
        # stable, so the positions of one member stay ascending: by topic, then by partition
        positions = positions[owner[positions].argsort(kind="stable")]
        topic_of = layout.starts.searchsorted(positions, side="right") - 1
        ids = dict.fromkeys((*self.ids, *(topic.id for topic in self.topics)))
        number_by_id = {topic_id: number for number, topic_id in enumerate(ids)}
        numbers = np.array([number_by_id[topic.id] for topic in self.topics], np.int64)
        units: UnitArray = no_units()
        if len(positions):
            units = (numbers[topic_of] << SHIFT) + (positions - layout.starts[topic_of])
        chosen = changed.nonzero()[0]
        rank_of = changed.cumsum() - 1
        return encode_targets(
            self.group_id,
            [self.members.member_ids[index] for index in chosen.tolist()],
            rank_of[owner[positions]],
            units,
            ids=tuple(ids),
        )


def comes_later(turn: Turn, group: ConsumerGroup) -> bool:
    """Return whether the group's next target is computed beside the shard."""
    # What is under way first: meanwhile every heartbeat comes here, and the size costs time in
    # proportion to the topics.
    return is_under_way(group) or _is_large(turn, group)


def is_under_way(group: ConsumerGroup) -> bool:
    """Return whether a target is computed whose result the group waits for."""
    return isinstance(group.live.target_under_way, ComputeBuiltInTarget)


def _is_large(turn: Turn, group: ConsumerGroup) -> bool:
    """Return whether the group's target takes so long that it is computed beside the shard."""
    # A classic group that was upgraded before its first generation: until it has a target, its
    # members could only be told epoch 0, which stands for a join.
    if not group.saved.assignment_epoch:
        return False
    limit = turn.settings.apportion_assignor_offload_size
    topics = subscribed_topics(group, turn.topics)
    return group.member_count + sum(topic.partitions for topic in topics) >= limit


def renew(turn: Turn, group: ConsumerGroup, assignor: str) -> None:
    """Compute the target assignment for the group's epoch and save it, or begin to."""
    if is_under_way(group):
        return
    if _is_large(turn, group):
        begin(turn, group, assignor)
    else:
        computation = _computation(turn, group, assignor)
        _save(turn, group, computation, computation.run())


def begin(turn: Turn, group: ConsumerGroup, assignor: str) -> None:
    """Begin to compute the target assignment for the group's epoch, if it may begin."""
    if target_results.may_begin(turn, group, ComputeBuiltInTarget):
        computation = _computation(turn, group, assignor)
        group.live.target_under_way = computation
        turn.compute(computation)


def save_target(turn: Turn, computation: ComputeBuiltInTarget, result: TargetRecords) -> None:
    """Save the targets that were computed beside the shard, of those who are members still."""
    group = target_results.waiting_group_or_none(turn, computation)
    if group is None:
        return
    members = computation.members
    instances = dict(zip(members.member_ids, members.instance_ids, strict=True))
    names = [
        None if member is None else member.member_id
        for member in (
            target_results.current_member_or_none(group, member_id, instances[member_id])
            for member_id in result.member_ids
        )
    ]
    _save(turn, group, computation, result.of_members(names))
    group.live.failed_target = None


def keep_target(turn: Turn, computation: ComputeBuiltInTarget, why: str) -> None:
    """Keep the older targets of a group after the computation of the next one has failed."""
    group = target_results.waiting_group_or_none(turn, computation)
    if group is not None:
        target_results.note_failure(
            turn,
            group,
            computation.assignor,
            computation.epoch,
            what=f"the target assignment could not be computed: {why}",
        )


def drop_if_under_way(group: ConsumerGroup) -> None:
    """Have the result of the group's computation dropped when it comes, if there is one.

    The shard goes on to wait for it: the thread computes it in any case, and a group that changes
    its assignors to and fro begins no further one until it is there.
    """
    if is_under_way(group):
        group.live.target_under_way = None


def _computation(turn: Turn, group: ConsumerGroup, assignor: str) -> ComputeBuiltInTarget:
    """Return the computation of the target for the group as it is now."""
    return ComputeBuiltInTarget(
        group_id=group.group_id,
        epoch=group.saved.epoch,
        assignor=assignor,
        topics=subscribed_topics(group, turn.topics),
        ids=tuple(group.saved.units.ids),
        members=asked_members(group),
    )


def _save(
    turn: Turn, group: ConsumerGroup, computation: ComputeBuiltInTarget, result: TargetRecords
) -> None:
    """Save the targets of members, and behind them the epoch for which they were computed."""
    turn.emit_targets(result)
    # Behind the targets, as in Kafka: whoever reads this epoch in the log has read its targets.
    turn.emit(records.assignment_epoch(group.group_id, computation.epoch, turn.now.wall_ms))
    group.live.target_computed_ms = turn.now.mono_ms
