"""The effect of a heartbeat on a consumer group, in either group protocol (KIP-848).

The steps: admit the sender (`fencing.py`), create or update the member, have expressions resolved
if that is due (`expressions.py`), bump the group epoch if subscriptions or topics have changed,
compute a new target assignment if the epoch is ahead of it and the last one is old enough,
reconcile the member, restart its deadlines. A steady heartbeat passes through all of them, emits
nothing, and looks at no other member.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from apportion.coord import records
from apportion.coord.consumer import (
    client_targets,
    expressions,
    fencing,
    offering_members,
    targets,
    timers,
)
from apportion.coord.consumer.assignment_record import to_current_assignment_value
from apportion.coord.consumer.beat import AWAY, JOINING, LEAVING, Beat, merge_metadata
from apportion.coord.consumer.client_assignors import AgreedAssignor, asks_for_assignment
from apportion.coord.consumer.fencing import AdmittedMember, admit
from apportion.coord.consumer.reconcile import CurrentAssignment, MemberState, reconcile
from apportion.coord.consumer.state import (
    NO_METADATA,
    ConsumerGroup,
    ConsumerGroupMember,
)
from apportion.coord.consumer.units import SHIFT
from apportion.coord.group_counts import Removal
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused
from apportion.wire.records.groups import ConsumerGroupMemberMetadataValue


class HeartbeatResult(NamedTuple):
    """The group and the member after a heartbeat.

    includes_assignment: whether the response must include the assignment.
    """

    group: ConsumerGroup
    member: ConsumerGroupMember
    includes_assignment: bool


class MemberChange(NamedTuple):
    """The change of a member's metadata by its heartbeat.

    has_changed_subscription: the member gives up at once what it no longer subscribes to.
    needs_target: the group needs a new target, and so a new epoch.
    """

    has_changed_subscription: bool
    needs_target: bool


NO_CHANGE = MemberChange(has_changed_subscription=False, needs_target=False)


def heartbeat(turn: Turn, beat: Beat) -> HeartbeatResult:
    """Apply one heartbeat to its consumer group, and reconcile the member (KIP-848).

    The heartbeat is a ConsumerGroupHeartbeat, or a classic member's JoinGroup in that form.
    Errors: those of `fencing.admit`, then INVALID_REGULAR_EXPRESSION, UNSUPPORTED_ASSIGNOR.
    """
    group = turn.ledger.consumer_group_or_none(beat.group_id)
    owned = (
        None
        if beat.owned is None
        else frozenset()
        if group is None
        else group.saved.units.reported_units(beat.owned)
    )
    # Before the first record: a request that has written cannot be refused any more.
    admission = admit(group, beat, owned, turn.settings.group_consumer_max_size)
    known = admission.member or admission.predecessor
    offered = None
    if group is not None and admission.member is not None:
        offered = offering_members.assignor_change_or_none(turn, group, admission.member, beat)
        if offered is not None:
            beat = beat._replace(client_assignors=offered.due)
    expressions.check_new_expression(group, beat, known)
    fencing.check_offer(group, beat, known)
    # The order of the records is Kafka's: 5 (member), 16 (tombstone of its old expression), 3
    # (epoch), 7 and 6 (targets), 8 (assignment). Each step reads what the one before has saved.
    change = create_or_update_member(turn, beat, admission)
    group = turn.ledger.consumer_group(beat.group_id)
    expressions.refresh_if_due(turn, group, beat.access)
    bump_epoch_if_changed(turn, group, needs_target=change.needs_target)
    if offered is not None:
        offering_members.note_assignor_change(turn, group, beat.member_id, offered)
    if beat.epoch == JOINING and client_targets.is_chosen(group, beat.member_id):
        # A process that has begun again knows nothing of a computation.
        client_targets.forget(turn, group)
    targets.renew_target(turn, group, beat.member_id)
    member = group.saved.members[beat.member_id]
    has_moved = reconcile_member(turn, group, member, owned=owned, change=change)
    # Only here, after every check: a fenced member that goes on sending must not keep its place.
    timers.arm_session(turn, group, member)
    # A full heartbeat gets the assignment again even if it is unchanged: the member may have missed
    # the response that announced it.
    return HeartbeatResult(group, member, has_moved or beat.epoch == JOINING or beat.is_full)


def create_or_update_member(turn: Turn, beat: Beat, admission: AdmittedMember) -> MemberChange:
    """Save the member's metadata from its heartbeat; return what has changed.

    The group needs a new target if the subscription or the member's rack has changed, if the group
    uses another assignor now, if the member asks for one by its client-side assignors, or if it
    replaces a static one and so gives up a membership of its own, whose units others may have now.
    """
    member, predecessor = admission
    known = member or predecessor
    metadata = merge_metadata(NO_METADATA if known is None else known.metadata, beat)
    asks = _asks(turn, beat, known)
    if member is not None and metadata is member.metadata:
        return NO_CHANGE._replace(needs_target=True) if asks else NO_CHANGE
    # All of this before the records, which overwrite it.
    before = _subscription(turn, beat.group_id, None if known is None else known.metadata)
    assignor = _assignor(turn, beat.group_id)
    has_changed_rack = known is not None and metadata.rack_id != known.metadata.rack_id
    expression = None if known is None else known.metadata.subscribed_topic_regex
    abandons_membership = False
    if predecessor is not None:
        abandons_membership = (
            beat.member_id in turn.ledger.consumer_group(beat.group_id).saved.members
        )
        replace_static_member(turn, beat, predecessor, metadata)
    else:
        turn.emit(records.member_metadata(beat.group_id, beat.member_id, metadata))
    expressions.forget_if_unused(turn, turn.ledger.consumer_group(beat.group_id), expression)
    has_changed_subscription = (
        abandons_membership or _subscription(turn, beat.group_id, metadata) != before
    )
    return MemberChange(
        has_changed_subscription,
        needs_target=has_changed_subscription
        or asks
        # An assignor may look at it (KAFKA-20909; not in Kafka 4.4).
        or has_changed_rack
        # A static member may come back with its old subscription and another assignor
        # (KAFKA-20434). A vote that decides nothing is no reason.
        or _assignor(turn, beat.group_id) != assignor,
    )


def _asks(turn: Turn, beat: Beat, known: ConsumerGroupMember | None) -> bool:
    """Return whether a member asks its group for a new assignment by client-side assignors.

    Where the broker assigns, a reason or another offer would not change the target.
    """
    assignors = beat.client_assignors
    if known is None or assignors is None:
        return False
    return turn.ledger.consumer_group(
        beat.group_id
    ).saved.client_assignor is not None and asks_for_assignment(
        known.metadata.client_assignors, assignors
    )


def _assignor(turn: Turn, group_id: str) -> AgreedAssignor | str:
    """Return the assignor of the group's next target; the default for a group not there yet.

    A client-side one is another in another version, as it is told other metadata.
    """
    group = turn.ledger.consumer_group_or_none(group_id)
    if group is None:
        return turn.settings.group_consumer_assignors[0]
    return group.saved.client_assignor or targets.assignor_of(turn, group)


def _subscription(
    turn: Turn, group_id: str, metadata: ConsumerGroupMemberMetadataValue | None
) -> tuple[tuple[str, ...], ...]:
    """Return the names to which a member subscribes, and all topics to which it does.

    metadata: None for a member that the group does not have yet.
    """
    if metadata is None:
        return ((), ())
    # The names apart, as in Kafka: to name a topic that the expression matches is a change.
    saved = turn.ledger.consumer_group(group_id).saved
    return metadata.subscribed_topic_names, saved.subscription(metadata)


def replace_static_member(
    turn: Turn,
    beat: Beat,
    predecessor: ConsumerGroupMember,
    metadata: ConsumerGroupMemberMetadataValue,
) -> None:
    """Give a new member the target and the current assignment of the static member it replaces.

    The new member begins at epoch 0, because its process has used none of the units yet.
    """
    group = turn.ledger.consumer_group(beat.group_id)
    units = group.saved.units
    target = [] if predecessor.target is None else [*units.as_topics(predecessor.target.tolist())]
    # A client that offers no assignors need not know how to read over such an answer.
    answer = predecessor.target_answer if metadata.client_assignors else records.NO_ANSWER
    current = predecessor.current
    # At epoch 0 (KIP-1251): the successor may commit for these partitions from its first epoch on.
    assigned = dict.fromkeys(current.assigned, JOINING)
    revoking = dict.fromkeys(current.pending_revocation, JOINING)
    current = replace(
        current, epoch=0, previous_epoch=0, assigned=assigned, pending_revocation=revoking
    )
    # The old id is fenced from now on; its deadlines must not remove anybody.
    timers.disarm(turn, group, predecessor)
    # What waits of a membership that the sender gives up would be saved in the one that it takes.
    offering_members.forget(group, beat.member_id)
    if predecessor.epoch != AWAY:  # it had not left by itself
        group.live.counts.count_removed(Removal.FENCED)
    # The tombstones free the units, the records behind them claim them: one append, so no other
    # member finds them free in between. They also clear the predecessor's target.
    turn.emit_all(records.member_tombstones(group.group_id, predecessor.member_id))
    turn.emit(records.member_metadata(group.group_id, beat.member_id, metadata))
    turn.emit(records.target_assignment(group.group_id, beat.member_id, target, answer))
    turn.emit(
        records.current_assignment(
            group.group_id, beat.member_id, to_current_assignment_value(current, units)
        )
    )


def bump_epoch_if_changed(turn: Turn, group: ConsumerGroup, *, needs_target: bool) -> None:
    """Bump the group epoch, at most once, if it needs a target or a subscribed topic changed.

    A topic changes by a new id or a new partition count.
    """
    saved, live = group.saved, group.live
    # The snapshot is one object until the topics change, so a steady heartbeat computes no hash.
    has_seen_topics = live.seen_topics is turn.topics
    live.seen_topics = turn.topics
    if has_seen_topics and not needs_target:
        return
    hashed = targets.metadata_hash(group, turn.topics)
    # KIP-1101. The hash is saved with the epoch, so a restart alone bumps no epoch.
    if needs_target or hashed != saved.metadata_hash:
        turn.emit(records.group_epoch(group.group_id, saved.epoch + 1, hashed))


def reconcile_member(
    turn: Turn,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    *,
    owned: frozenset[int] | None,
    change: MemberChange,
) -> bool:
    """Reconcile the member after its heartbeat; return whether its assignment changed.

    With client-side assignors a new epoch is a change: it may bring another answer of the assignor.
    """
    saved = group.saved
    # The end of every steady heartbeat, before anything that costs time in proportion to the
    # assignment.
    if is_reconciled(group, member, change):
        return False
    before = member.current
    is_subscribed = subscribed_units(turn, group, member)
    current = reconcile(
        _as_rejoining(before),
        target_epoch=saved.assignment_epoch,
        target=[]
        if member.target is None
        # The target may name a topic that was deleted, or that the member no longer subscribes to
        # (KAFKA-19431): it must not be assigned.
        else [unit for unit in member.target.tolist() if is_subscribed(unit)],
        owned=owned,
        # Through the module: the simulator replaces the guard by a faulty one (docs/guards.md).
        is_blocked=lambda unit: fencing.is_blocked(group, member.member_id, unit),
        is_unsubscribed=lambda unit: change.has_changed_subscription and not is_subscribed(unit),
    )
    if current == before:
        return False
    turn.emit(
        records.current_assignment(
            group.group_id, member.member_id, to_current_assignment_value(current, saved.units)
        )
    )
    # Only after a change, as in Kafka: a member that heartbeats without revoking must not get more
    # time with each heartbeat.
    timers.arm_rebalance(turn, group, member)
    return current.assigned != before.assigned or (
        bool(member.metadata.client_assignors) and current.epoch != before.epoch
    )


def is_reconciled(group: ConsumerGroup, member: ConsumerGroupMember, change: MemberChange) -> bool:
    """Return whether the member has its target assignment, and nothing to give up."""
    # A member that has just unsubscribed from a topic gives its partitions up at once, also while
    # the target that assigns them lags behind the group epoch (KIP-1263).
    return (
        member.state is MemberState.STABLE
        and member.epoch == group.saved.assignment_epoch
        and not change.has_changed_subscription
    )


def leave(turn: Turn, beat: Beat) -> None:
    """Handle a ConsumerGroupHeartbeat that leaves: epoch -1, or -2 for a static member.

    With -1 the member is removed. With -2 a static member leaves temporarily, and all that it may
    use is kept for its successor. The successor may commit from its first epoch on, so requests
    check the kept units as assigned at epoch 0.
    Errors, in this order: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. The epoch is
    not compared.
    """
    group = turn.ledger.consumer_group_or_none(beat.group_id)
    if group is None:
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no consumer group {beat.group_id}.")
    instance_id = beat.instance_id
    member = (
        group.saved.members.get(beat.member_id)
        if instance_id is None
        else group.static_member_or_none(instance_id)
    )
    if member is None:
        raise fencing.unknown_member_error(beat)
    if not fencing.is_same_member(member, beat.member_id):
        raise fencing.fenced_instance_error(beat)
    # Not compared with the member's epoch, as in Kafka: a member that wants to go may always go.
    if beat.epoch == LEAVING:
        turn.remove_members(group, Removal.LEFT, member)
        return
    current = member.current
    current = replace(
        current,
        # No new group epoch, and the session goes on: the partitions wait for the successor until
        # the session ends.
        epoch=AWAY,
        assigned=dict.fromkeys(current.assigned, JOINING),
        pending_revocation={},
    )
    turn.emit(
        records.current_assignment(
            group.group_id,
            member.member_id,
            to_current_assignment_value(current, group.saved.units),
        )
    )
    # This disarms: a process that has stopped has nothing to confirm, and computes nothing.
    timers.arm_rebalance(turn, group, member)
    client_targets.forget_member(turn, group, member.member_id)


def subscribed_units(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember
) -> Callable[[int], bool]:
    """Return a predicate on units: the topic exists, and the member subscribes to it."""
    names = frozenset(group.saved.subscription(member.metadata))
    units, topics = group.saved.units, turn.topics

    def is_subscribed(unit: int) -> bool:
        # By id: a topic that was deleted and created again under its name is another topic.
        topic = topics.with_id(units.ids[unit >> SHIFT])
        return topic is not None and topic.name in names

    return is_subscribed


def _as_rejoining(current: CurrentAssignment[int]) -> CurrentAssignment[int]:
    """Return the assignment to reconcile; a returning static member begins again at epoch 0."""
    return replace(current, epoch=0, previous_epoch=0) if current.epoch == AWAY else current
