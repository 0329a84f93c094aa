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

from apportion.assign.custom import CustomAssignor
from apportion.coord import records
from apportion.coord.consumer import target_results
from apportion.coord.consumer.asked_members import asked_members
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.consumer.target_computation import (
    AskedMember,
    ChangedTargets,
    ComputeTarget,
    WrongAnswer,
)
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.topics import Topic

TARGET = "target"
"""The deadline by which a custom assignor has to answer."""


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
        member = target_results.current_member_or_none(group, member_id, instances[member_id])
        if member is not None:
            turn.emit(records.target_assignment(group.group_id, member.member_id, target.items()))
    # Behind the targets, as in Kafka: whoever reads this epoch in the log has read its targets.
    turn.emit(records.assignment_epoch(group.group_id, computation.epoch, turn.now.wall_ms))
    group.live.target_computed_ms = turn.now.mono_ms
    group.live.failed_target = None
    target_results.note_left_out(
        turn, group, computation.assignor.name, computation.topics, result.assigned
    )


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


def _end(turn: Turn, computation: ComputeTarget) -> ConsumerGroup | None:
    """Forget a computation that has ended; return its group, or None if it is another by now."""
    turn.deadlines.disarm((TARGET, computation.group_id))
    return target_results.waiting_group_or_none(turn, computation)


def _fail(turn: Turn, group: ConsumerGroup, computation: ComputeTarget, what: str) -> None:
    """Log what was wrong with a computation, and remember when it failed."""
    target_results.note_failure(
        turn, group, computation.assignor.name, computation.epoch, what=what
    )
