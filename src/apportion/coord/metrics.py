"""Metrics of the groups of a broker: what is counted while they change, and what is read on demand.

`observe` looks at the actions of each step. A step that writes no record, such as a steady
heartbeat, costs it nothing. What can be seen in the state of a group is not counted, but computed
when somebody reads the metrics. Nothing here changes what the coordinator decides.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic.states import NEXT
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.group_counts import GroupCounts, Removal
from apportion.coord.records import Append, CoordinatorRecord
from apportion.coord.replay import Ledger
from apportion.machine import Instant
from apportion.topics import Topics
from apportion.wire.group_states import GroupState
from apportion.wire.records import groups

STATES = {
    "consumer": (
        GroupState.EMPTY,
        GroupState.ASSIGNING,
        GroupState.RECONCILING,
        GroupState.STABLE,
    ),
    "classic": (*NEXT,),
}
"""The states of a group of each type."""

COUNTED: dict[type[Any], Callable[[GroupCounts], None]] = {  # key of a record -> what counts it
    groups.ConsumerGroupMetadataKey: GroupCounts.count_rebalance,
    groups.ConsumerGroupTargetAssignmentMetadataKey: GroupCounts.count_target,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetrics:
    """The metrics of one group at one moment; counts and times since its shard was loaded last.

    epoch: the group epoch, or the generation. assignment_epoch, targets_computed: None in a classic
    group, whose members assign. unowned_partitions: None where the subscriptions cannot be known.
    """

    group_id: str
    protocol: str
    state: GroupState
    members: int
    epoch: int
    assignment_epoch: int | None
    unowned_partitions: int | None
    rebalances: int
    targets_computed: int | None
    heartbeats: int
    removed_members: dict[str, int]
    state_seconds: dict[GroupState, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetrics:
    """The metrics of a broker and of its groups at one moment.

    booked_heartbeats: those that members of consumer groups were asked for, one in each response.
    """

    heartbeat_budget_per_second: int
    booked_heartbeats: int
    groups: tuple[GroupMetrics, ...]

    def group_counts(self) -> dict[tuple[str, GroupState], int]:
        """Return how many groups there are of each protocol in each state, also where none is."""
        counts = {(protocol, state): 0 for protocol, names in STATES.items() for state in names}
        for group in self.groups:
            counts[group.protocol, group.state] += 1
        return counts


def observe(ledger: Ledger, actions: Iterable[Any], now: Instant) -> None:
    """Count what a step has written about groups, and note the states that they have now."""
    written = [
        record
        for action in actions
        if type(action) is Append
        for record in action.records
        # Targets encoded beforehand count nothing; the record of their epoch does.
        if type(record) is CoordinatorRecord and type(record.key) is not groups.OffsetCommitKey
    ]
    if not written:
        return
    changed: dict[str, None] = {}
    # A classic group whose members go on in a consumer group brings an epoch and a target along:
    # they are written anew, and are no rebalance.
    ended: dict[str, None] = {}
    brought: dict[tuple[str, type[Any]], None] = {}
    for key, value in written:
        kind = type(key)
        group_id = key.group if kind is groups.GroupMetadataKey else key.group_id
        changed[group_id] = None
        if kind is groups.GroupMetadataKey and value is None:
            ended[group_id] = None
        elif kind is groups.ConsumerGroupMemberMetadataKey and group_id in ended:
            del ended[group_id]
            # Not where the group was empty: its first member is the one that joins.
            if value is not None and value.classic_member_metadata is not None:
                brought |= {(group_id, counted): None for counted in COUNTED}
        elif kind in COUNTED and value is not None:
            is_brought = (group_id, kind) in brought
            brought.pop((group_id, kind), None)
            # A later record of the step may have replaced the group by one of the other type.
            group = ledger.consumer_group_or_none(group_id)
            # An empty group's target was not computed: it comes with the last member's leave.
            is_of_nobody = (
                kind is groups.ConsumerGroupTargetAssignmentMetadataKey
                and group is not None
                and group.is_empty()
            )
            if group is not None and not is_brought and not is_of_nobody:
                COUNTED[kind](group.live.counts)
    observe_states(ledger, changed, now)


def observe_states(ledger: Ledger, group_ids: Iterable[str], now: Instant) -> None:
    """Note the state that each of the groups has now, where it exists."""
    for group_id in group_ids:
        group = ledger.groups.get(group_id)
        if group is not None:
            group.live.counts.enter(group.state, now.mono_ms)


def group_metrics(
    group: ConsumerGroup | ClassicGroup, topics: Topics, now: Instant
) -> GroupMetrics:
    """Return the metrics of a group as it is now; its partitions are looked at one by one."""
    counts = group.live.counts
    state_ms = counts.state_ms(now.mono_ms)
    assignment_epoch = group.assignment_epoch_or_none
    return GroupMetrics(
        group_id=group.group_id,
        protocol=group.type_name,
        state=group.state,
        members=group.member_count,
        epoch=group.epoch,
        assignment_epoch=assignment_epoch,
        unowned_partitions=group.unowned_partitions_or_none(topics),
        rebalances=counts.rebalances,
        targets_computed=None if assignment_epoch is None else counts.targets,
        heartbeats=counts.heartbeats,
        removed_members={reason.value: counts.removed.get(reason, 0) for reason in Removal},
        state_seconds={state: state_ms.get(state, 0) / 1_000 for state in STATES[group.type_name]},
    )
