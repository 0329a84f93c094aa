"""Target assignments by custom assignors: classes of the broker's operator, not of apportion.

The problem. Such an assignor is foreign code: it may be slow, hang, raise, or answer what is no
assignment. No request and no other group may suffer from it.

The method. A heartbeat that finds a new target due only begins the computation `ComputeTarget`,
which the driver runs beside the machine; its result comes as an event (decision 50). Until then all
members follow the older target, as they do within the assignment interval (KIP-1263). The result is
for the group epoch at which it was begun: if the epoch is newer by then, another computation
follows. Each answer is checked where it was computed, so the step only saves what has changed.

Meanwhile a member may have gone: its part is dropped, and the epoch that its removal has brought
makes the others get it. A static member may have been replaced: its successor has its membership,
so it gets its part. A member that came later has no part yet.

If the assignor raises, its answer is no assignment, or it is late, the log says so and the older
target stays. It is asked again when the group changes, but not within the assignment interval; if
the group does not change, after pauses that double from one second to a minute. What is late is
abandoned: an answer after all is dropped.
"""

from collections.abc import Iterable
from typing import Any

from apportion.assign.custom import CustomAssignor
from apportion.coord import records
from apportion.coord.consumer.asked_members import asked_members
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.target_computation import (
    AskedMember,
    ChangedTargets,
    ComputeTarget,
    FailedTarget,
    WrongAnswer,
)
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.machine import Computation
from apportion.topics import Topic

TARGET = "target"
"""The deadline by which a custom assignor has to answer."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 60_000
MOST_DOUBLINGS = 6  # after which the longest pause is reached
# More are not begun at a time, so that groups which come and go cannot pile computations up.
MOST_AT_ONCE = 100
MAX_NOTED = 500  # characters of what an assignor did wrong, which may quote its answer


def may_begin(turn: Turn, group: ConsumerGroup, kind: type[Any] = ComputeTarget) -> bool:
    """Return whether a computation for the group may begin: none is under way, and not too many.

    kind: the class of the computation.
    """
    under_way = turn.computing[kind]
    return group.group_id not in under_way and len(under_way) < MOST_AT_ONCE


def begin(
    turn: Turn, group: ConsumerGroup, assignor: CustomAssignor, topics: tuple[Topic, ...]
) -> None:
    """Begin to compute a target for the group's epoch. None may be under way.

    topics: those that exist and have subscribers.
    """
    saved = group.saved
    computation = ComputeTarget(
        group_id=group.group_id,
        epoch=saved.epoch,
        targets_epoch=saved.assignment_epoch,
        assignor=assignor,
        topics=topics,
        ids=tuple(saved.units.ids),
        members=tuple(map(AskedMember, *asked_members(group))),
    )
    group.live.target_under_way = computation
    timeout_ms = turn.settings.apportion_assignor_timeout_ms
    turn.deadlines.arm((TARGET, group.group_id), turn.now.mono_ms + timeout_ms)
    turn.compute(computation)


def abandon_if_under_way(turn: Turn, group: ConsumerGroup) -> None:
    """Wait no longer for the group's computation, if there is one."""
    under_way = turn.under_way_or_none(ComputeTarget, group.group_id)
    if under_way is not None:
        turn.deadlines.disarm((TARGET, group.group_id))
        turn.abandon(under_way.computation)
        group.live.target_under_way = None


def save_target(
    turn: Turn, computation: ComputeTarget, result: ChangedTargets | WrongAnswer
) -> None:
    """Save the targets that a custom assignor has computed, or keep the older ones."""
    group = _end(turn, computation)
    if group is None:
        return
    if isinstance(result, WrongAnswer):
        _fail(turn, group, computation, f"the assignor {result.why}")
        return
    instances = {member.member_id: member.instance_id for member in computation.members}
    for member_id, target in result.by_member.items():
        member = current_member_or_none(group, member_id, instances[member_id])
        if member is not None:
            turn.emit(records.target_assignment(group.group_id, member.member_id, target.items()))
    # Behind the targets, as in Kafka: whoever reads this epoch in the log has read its targets.
    turn.emit(records.assignment_epoch(group.group_id, computation.epoch, turn.now.wall_ms))
    group.live.target_computed_ms = turn.now.mono_ms
    group.live.failed_target = None
    note_left_out(turn, group, computation.assignor.name, computation.topics, result.assigned)


def note_left_out(
    turn: Turn, group: ConsumerGroup, assignor: str, topics: Iterable[Topic], assigned: int
) -> None:
    """Log how many partitions a new target gives to nobody, if there are any.

    It is an assignment, and may be meant so. But nobody reads them, and the group is Stable.
    topics: of which the assignor was told. assigned: how many of their partitions it gave away.
    """
    partitions = sum(topic.partitions for topic in topics)
    if assigned < partitions:
        turn.note(
            "warning",
            f"group {group.group_id}: the assignor {assignor} leaves {partitions - assigned} of "
            f"{partitions} partitions to nobody",
            f": no member reads them until a newer target gives them to one. `apportion groups "
            f"describe {group.group_id}` shows them; unless that is meant, mend the assignor",
        )


def current_member_or_none(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerGroupMember | None:
    """Return who has the membership now that an assignor was told of; None if it has ended."""
    member = group.saved.members.get(member_id)
    if member is not None and member.metadata.instance_id == instance_id:
        return member
    # A static member's successor has its membership, and its older target.
    successor = None if instance_id is None else group.static_member_or_none(instance_id)
    # A member that has joined again with another instance id, which bumps no epoch, keeps its part.
    return member if successor is None else successor


def keep_target(turn: Turn, computation: ComputeTarget, why: str) -> None:
    """Keep the older targets of a group after its assignor has raised an error."""
    group = _end(turn, computation)
    if group is not None:
        _fail(turn, group, computation, f"the assignor raised {why}")


def expire_target(turn: Turn, key: Key) -> None:
    """Keep the older targets of a group whose assignor has not answered in time."""
    under_way = turn.under_way_or_none(ComputeTarget, key[1])
    if under_way is None:
        return
    computation = under_way.computation
    assert isinstance(computation, ComputeTarget)
    turn.abandon(computation)
    group = _end(turn, computation)
    if group is not None:
        timeout_ms = turn.settings.apportion_assignor_timeout_ms
        _fail(turn, group, computation, f"the assignor has not answered within {timeout_ms} ms")


def has_failed(group: ConsumerGroup) -> bool:
    """Return whether the assignor has failed for the group as it is now."""
    failed = group.live.failed_target
    return failed is not None and failed.epoch == group.saved.epoch


def retry_wait_ms(turn: Turn, group: ConsumerGroup) -> int:
    """Return how long an assignor that has failed is not asked again; 0 if it may be asked now.

    A group that has changed is another question, so it waits for the assignment interval alone.
    """
    failed = group.live.failed_target
    if failed is None or failed.assignor != group.assignor(turn.settings.group_consumer_assignors):
        return 0
    pause_ms = turn.settings_of(group.group_id).group_consumer_assignment_interval_ms
    if has_failed(group):
        longer_ms = min(FIRST_PAUSE_MS << min(failed.times - 1, MOST_DOUBLINGS), LONGEST_PAUSE_MS)
        pause_ms = max(pause_ms, longer_ms)
    return max(0, failed.at_ms + pause_ms - turn.now.mono_ms)


def _end(turn: Turn, computation: ComputeTarget) -> ConsumerGroup | None:
    """Forget a computation that has ended; return its group, or None if it is another by now."""
    turn.deadlines.disarm((TARGET, computation.group_id))
    return waiting_group_or_none(turn, computation)


def waiting_group_or_none(turn: Turn, computation: Computation) -> ConsumerGroup | None:
    """Return the group that waits for a result which has come, and waits no more; None if none."""
    group = turn.ledger.consumer_group_or_none(computation.group_id)
    # By identity: a group that was deleted and created again begins anew with its epochs.
    if group is None or group.live.target_under_way is not computation:
        return None
    group.live.target_under_way = None
    return group


def _fail(turn: Turn, group: ConsumerGroup, computation: ComputeTarget, what: str) -> None:
    """Log what was wrong with a computation, and remember when it failed."""
    note_failure(turn, group, computation.assignor.name, computation.epoch, what=what)


def note_failure(
    turn: Turn,
    group: ConsumerGroup,
    assignor: str,
    epoch: int,
    *,
    what: str,
    then: str = "",
    is_new_round: bool = True,
) -> None:
    """Log what an assignor has done wrong, and remember when.

    epoch: the group's, for which it was asked. then: what follows, with
    a semicolon before it. is_new_round: False for one more member that fails
    with a client-side assignor: all members together count as one time.
    """
    before, times = group.live.failed_target, 1
    if before is not None and (before.assignor, before.epoch) == (assignor, epoch):
        times = before.times + is_new_round
    group.live.failed_target = FailedTarget(assignor, epoch, turn.now.mono_ms, times)
    # A group whose members have all joined since its last target has nothing to keep.
    has_target = any(member.target is not None for member in group.saved.members.values())
    kept = f"; the target assignment of epoch {group.saved.assignment_epoch} is kept"
    turn.note(
        "error",
        f"group {group.group_id}: {assignor}: {what[:MAX_NOTED]}{then}{kept if has_target else ''}",
    )
