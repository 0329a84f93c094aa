"""The target assignment of a consumer group: when it is due, the assignor's call, what is saved.

A group computes at most one target in `group.consumer.assignment.interval.ms` (KIP-1263): what
changes meanwhile bumps the group epoch and waits, so a thousand members that join within a second
cost one computation. The first heartbeat after the interval computes it; heartbeats before that
follow the older target.

The assignors of the package work on vectors. So members and topics become indexes, and the
subscribed topics are laid end to end: the owner of each partition is then one vector. A member gets
a record only if its target changed. Custom assignors are called in `custom_targets.py`.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from apportion.coord import records
from apportion.coord.consumer import client_targets, custom_targets
from apportion.coord.consumer.units import PARTITION, SHIFT, no_units
from apportion.lazy_imports import lazy_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from apportion.assign import assignors
    from apportion.assign.racks import Racks
    from apportion.assign.subscriptions import Subscriptions, Vector
    from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
    from apportion.coord.consumer.units import UnitNumbering
    from apportion.coord.turn import Turn
    from apportion.topics import Topic, TopicId, Topics

    Positions = NDArray[np.int64]
else:
    np = lazy_module("numpy")
    assignors = lazy_module("apportion.assign.assignors")

NEVER_MS = 0
"""AssignmentTimestamp of a target that was not computed."""


class TopicLayout(NamedTuple):
    """The subscribed topics that exist, by name, laid end to end as the assignors need them.

    topics[t] has the positions starts[t]..starts[t + 1], one for each partition.
    """

    topics: list[Topic]
    starts: Vector

    @classmethod
    def of(cls, group: ConsumerGroup, topics: Topics) -> TopicLayout:
        """Return the topics that a consumer group subscribes to, as its assignor needs them."""
        known = [
            topic
            # By name: the target depends on the group and the topics, not on the order of its
            # history.
            for name in sorted(group.saved.subscriber_counts)
            if (topic := topics.named(name)) is not None
        ]
        return cls(known, np.cumsum([0, *(topic.partitions for topic in known)]).astype(np.int32))

    def positions(self, units: NDArray[np.int64], numbering: UnitNumbering) -> Positions:
        """Return the assignor's position of each unit, or -1.

        The position is -1 if the topic or the partition is not in the layout.
        """
        # The last entry is for UNKNOWN_UNIT, whose topic number is -1, so it gets position -1.
        starts = np.full(len(numbering.ids) + 1, -1, np.int64)
        counts = np.zeros(len(numbering.ids) + 1, np.int64)
        for index, topic in enumerate(self.topics):
            number = numbering.number_or_none(topic.id)
            if number is not None:
                starts[number], counts[number] = self.starts[index], topic.partitions
        number_of, partition = units >> SHIFT, units & PARTITION
        return np.where(partition < counts[number_of], starts[number_of] + partition, -1)

    def racks_or_none(self, members: list[ConsumerGroupMember]) -> Racks | None:
        """Return the racks of members and replicas; None unless both have some."""
        from apportion.assign.racks import racks_of  # it needs NumPy, which is imported lazily

        rack_ids = [member.metadata.rack_id for member in members]
        if not (any(topic.racks for topic in self.topics) and any(rack_ids)):
            return None
        replicas = (
            (start + number, racks)
            for start, topic in zip(self.starts.tolist(), self.topics, strict=False)
            for number, racks in enumerate(topic.racks)
        )
        return racks_of(rack_ids, replicas, int(self.starts[-1]))

    def partitions_by_member(
        self, owner: Vector, chosen: NDArray[np.bool_]
    ) -> Iterator[tuple[int, list[tuple[TopicId, tuple[int, ...]]]]]:
        """Yield the index of each chosen member, ascending, with its partitions by topic.

        owner: the member index of each position, -1 for none. chosen: for each member, whether to
            yield it; members that own nothing are left out.
        """
        positions = np.flatnonzero(chosen[owner] & (owner >= 0))
        # stable, so the positions of one member stay ascending: by topic, then by partition
        positions = positions[np.argsort(owner[positions], kind="stable")]
        owners = owner[positions]
        topic_of = np.searchsorted(self.starts, positions, side="right") - 1
        partitions = (positions - self.starts[topic_of]).tolist()
        breaks = np.flatnonzero((np.diff(owners) != 0) | (np.diff(topic_of) != 0)) + 1
        edges = [0, *breaks.tolist(), len(partitions)] if partitions else [0]
        by_member: dict[int, list[tuple[TopicId, tuple[int, ...]]]] = {}
        for first, end in pairwise(edges):
            topic_id = self.topics[topic_of[first]].id
            by_member.setdefault(int(owners[first]), []).append(
                (topic_id, tuple(partitions[first:end]))
            )
        yield from by_member.items()


def is_target_due(turn: Turn, group: ConsumerGroup) -> bool:
    """Return whether the group's target is older than its epoch and may be computed now."""
    saved = group.saved
    return saved.epoch > saved.assignment_epoch and target_wait_ms(turn, group) == 0


def target_wait_ms(turn: Turn, group: ConsumerGroup) -> int:
    """Return how long it takes until the group may compute a target again (KIP-1263).

    The longer of two waits counts: for the interval, and after a failure of a custom assignor.
    A group without a target does not wait, nor one that was loaded since its last target: what
    Kafka compares with the wall clock of the record must not depend on a clock that can be set.
    """
    computed_ms = group.live.target_computed_ms
    retry_ms = custom_targets.retry_wait_ms(turn, group)
    if computed_ms is None:
        return retry_ms
    interval_ms = turn.settings_of(group.group_id).group_consumer_assignment_interval_ms
    return max(0, computed_ms + interval_ms - turn.now.mono_ms, retry_ms)


def has_newer_target(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether a classic member that joins again gets a newer target than its own.

    A group epoch alone is no reason to rejoin: while the target lags behind it, the member would
    be told so again and again (KAFKA-20272). Nor is a target that a custom assignor is to compute:
    the JoinGroup would not get it yet.
    """
    if member.epoch < group.saved.assignment_epoch:
        return True
    return is_target_due(turn, group) and assignor_of(turn, group) in assignors.ASSIGNORS


def assignor_of(turn: Turn, group: ConsumerGroup) -> str:
    """Return the assignor of the group's next target, by the votes as they are now."""
    # Every time anew: the member whose vote decided may be gone.
    return group.assignor(turn.settings.group_consumer_assignors)


def renew_target(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Compute a target assignment if one is due; a custom assignor only begins to.

    With a client-side assignor the sender of the heartbeat computes it.
    """
    if not is_target_due(turn, group):
        return
    agreed = group.saved.client_assignor
    if agreed is not None:
        custom_targets.abandon_if_under_way(turn, group)
        client_targets.choose_if_none(turn, group, agreed, member_id)
        return
    name = assignor_of(turn, group)
    if name in assignors.ASSIGNORS:
        # What is under way would be older than this one.
        custom_targets.abandon_if_under_way(turn, group)
        client_targets.forget(turn, group)
        retarget(turn, group, name)
    else:
        _begin_custom_target(turn, group, name)


def begin_custom_target_if_due(turn: Turn, group: ConsumerGroup) -> None:
    """Begin to compute a target assignment if one is due, and a custom assignor computes it."""
    if is_target_due(turn, group) and (name := assignor_of(turn, group)) not in assignors.ASSIGNORS:
        _begin_custom_target(turn, group, name)


def retarget(turn: Turn, group: ConsumerGroup, name: str) -> None:
    """Compute the target assignment for the group's epoch by a built-in assignor, and save it.

    Only members whose target changed get a record; a new member gets one even if it is empty.
    """
    saved = group.saved
    layout = TopicLayout.of(group, turn.topics)
    members = in_assignor_order(saved.members)
    owner, changed = _owners(members, layout, saved.units)
    new_owner = assignors.ASSIGNORS[name](
        owner,
        layout.starts,
        _subscriptions(group, members, layout),
        layout.racks_or_none(members),
    )
    # the target of a member changes if it loses a partition, or gets one
    for vector in (owner, new_owner):
        moved = vector[owner != new_owner]
        changed[moved[moved >= 0]] = True
    targets = dict(layout.partitions_by_member(new_owner, changed))
    for index in np.flatnonzero(changed).tolist():
        turn.emit(
            records.target_assignment(
                group.group_id, members[index].member_id, targets.get(index, ())
            )
        )
    # Behind the targets, as in Kafka: whoever reads this epoch in the log has read its targets.
    turn.emit(records.assignment_epoch(group.group_id, saved.epoch, turn.now.wall_ms))
    group.live.target_computed_ms = turn.now.mono_ms


def save_target_of_nobody(turn: Turn, group: ConsumerGroup) -> None:
    """Save that a group without members has its target for its epoch (KAFKA-20442).

    It was not computed, so the first member that comes does not wait for the interval.
    """
    # What a custom assignor still computes would take the epoch of the targets back: it is dropped
    # when it comes. It is not abandoned, so that groups which come and go cannot pile them up.
    group.live.target_under_way = None
    group.live.target_computed_ms = None
    turn.emit(records.assignment_epoch(group.group_id, group.saved.epoch, NEVER_MS))


def in_assignor_order(members: dict[str, ConsumerGroupMember]) -> list[ConsumerGroupMember]:
    """Return static members by instance id, then dynamic members by member id.

    Assignors prefer members in this order, so a restarted static member gets the same partitions.
    """
    static = [member for member in members.values() if member.metadata.instance_id is not None]
    dynamic = sorted(
        member_id for member_id, member in members.items() if member.metadata.instance_id is None
    )
    static.sort(key=lambda member: (member.metadata.instance_id, member.member_id))
    return [*static, *(members[member_id] for member_id in dynamic)]


def metadata_hash(group: ConsumerGroup, topics: Topics) -> int:
    """Return a hash of the subscribed topics (KIP-1101); 0 if none of them exists.

    It covers their ids and sizes, and racks where they are known.

    If the hash changes, the group gets a new epoch. Kafka stores a hash of the same facts by
    another function, so a log that moves between the two costs each group one more epoch.
    """
    known = TopicLayout.of(group, topics).topics
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for topic in known:
        # With the length of the name in front: no two lists of topics give the same bytes. The id
        # makes a topic that was created again another topic.
        digest.update(f"{len(topic.name)}:{topic.name}:{topic.partitions}:".encode() + topic.id)
        # Not where there are none: then the hash is that of earlier versions.
        if topic.racks:
            digest.update(repr(topic.racks).encode())
    # An int64, the type of MetadataHash in record 3.
    return int.from_bytes(digest.digest(), "big", signed=True)


def _begin_custom_target(turn: Turn, group: ConsumerGroup, name: str) -> None:
    """Have a custom assignor compute a target assignment beside the shard, unless it does so."""
    # The members do not agree any more, whether this may begin at once or has to wait.
    client_targets.forget(turn, group)
    # Before anything that costs time in proportion to the group: every heartbeat comes here.
    if not custom_targets.may_begin(turn, group):
        return
    custom_targets.begin(
        turn,
        group,
        turn.settings.custom_assignors[name],
        topics=TopicLayout.of(group, turn.topics).topics,
        members=in_assignor_order(group.saved.members),
    )


def _owners(
    members: list[ConsumerGroupMember], layout: TopicLayout, numbering: UnitNumbering
) -> tuple[Vector, NDArray[np.bool_]]:
    """Return the owner of each partition by the saved targets, and the targets to write again.

    A target must be written again if it is missing, or names partitions that do not exist (any
    more).
    """
    targets = [no_units() if member.target is None else member.target for member in members]
    owner = np.full(int(layout.starts[-1]), -1, np.int32)
    is_stale = np.fromiter(
        (custom_targets.must_save_target(member) for member in members), np.bool_, len(members)
    )
    positions = layout.positions(np.concatenate([no_units(), *targets]), numbering)
    ranks = np.repeat(np.arange(len(members), dtype=np.int32), [len(target) for target in targets])
    inside = positions >= 0
    owner[positions[inside]] = ranks[inside]
    # Partitions that are gone have to leave the saved target too, or each new target would meet
    # them again.
    is_stale[ranks[~inside]] = True
    return owner, is_stale


def _subscriptions(
    group: ConsumerGroup, members: list[ConsumerGroupMember], layout: TopicLayout
) -> Subscriptions:
    """Return each member's topics as the assignor takes them; equal subscriptions share one row."""
    from apportion.assign.subscriptions import Subscriptions  # it needs NumPy, too

    index = {topic.name: number for number, topic in enumerate(layout.topics)}
    rows: dict[tuple[tuple[str, ...], str | None], Vector] = {}
    subscribed = []
    for member in members:
        metadata = member.metadata
        key = (metadata.subscribed_topic_names, metadata.subscribed_topic_regex)
        if key not in rows:
            names = group.saved.subscription(metadata)
            rows[key] = np.array([index[name] for name in names if name in index], np.int32)
        subscribed.append(rows[key])
    ends = np.cumsum([0, *map(len, subscribed)]).astype(np.int32)
    return Subscriptions(ends, np.concatenate([np.empty(0, np.int32), *subscribed]))
