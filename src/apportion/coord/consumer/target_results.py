"""Targets that are not computed in a step: when one may begin, whose it is, what a failure means.

It may be computed by an assignor of the package, by one of the broker's operator, or by a member.
Here is when a computation may begin, which group and which members its result is for, and what
follows where it fails: the older target stays, the log says so, and the next try waits for pauses
that double from one second to a minute while the group does not change.
"""

from collections.abc import Iterable
from typing import Any

from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.target_computation import FailedTarget
from apportion.coord.turn import Turn
from apportion.machine import Computation
from apportion.topics import Topic

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 60_000
MOST_DOUBLINGS = 6  # after which the longest pause is reached
# More are not begun at a time, so that groups which come and go cannot pile computations up.
MOST_AT_ONCE = 100
MAX_NOTED = 500  # characters of what an assignor did wrong, which may quote its answer


def may_begin(turn: Turn, group: ConsumerGroup, kind: type[Any]) -> bool:
    """Return whether a computation for the group may begin: none is under way, and not too many.

    kind: the class of the computation.
    """
    under_way = turn.computing[kind]
    return group.group_id not in under_way and len(under_way) < MOST_AT_ONCE


def waiting_group_or_none(turn: Turn, computation: Computation) -> ConsumerGroup | None:
    """Return the group that waits for a result which has come, and waits no more; None if none."""
    group = turn.ledger.consumer_group_or_none(computation.group_id)
    # By identity: a group that was deleted and created again begins anew with its epochs.
    if group is None or group.live.target_under_way is not computation:
        return None
    group.live.target_under_way = None
    return group


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
