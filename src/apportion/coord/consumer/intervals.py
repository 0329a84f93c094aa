"""The heartbeat interval that a member is told in the response to its heartbeat.

The problem. A rebalance goes from heartbeat to heartbeat: one to join, one in which each of the
others learns what it has to give up, one in which the new member receives it. What has to be given
up or received is told in no other way, and no response is held back until there is something to
tell. So the time of a rebalance is that of a few heartbeat intervals.

The method. Clients obey the interval of every response (librdkafka, Java, franz-go,
@platformatic/kafka, and our own), so each response may carry another one. It is as short as the
budget of the broker allows (`heartbeat_budget.py`): never below 100 ms, never above
`group.consumer.heartbeat.interval.ms`. A part of the budget is kept for the members on which a
rebalance depends:

- one that has to revoke: others wait for its confirmation;
- one that waits for partitions of others: it receives them with its next heartbeat;
- one that has no target yet, and one more member of its group, while the target assignment is
  behind the group epoch: their heartbeats make the target and bring it;
- one whose own expression is not resolved yet.

The last two wait for something that takes time, and are awaited when that is over: just after the
group may compute a target again (KIP-1263, or the pause after a failure), or may resolve its
expressions again. How long a computation beside the shard or on a member takes is not known: one
that has taken so long is looked for after as long again, so a slow one costs few heartbeats.

Every other member is at rest: it has reached its target, and its next heartbeat changes nothing
unless somebody joins or leaves meanwhile. So is one whose time is later than its configured
interval.

Why it holds. The interval decides only when a member asks, never what it is told, so no rule of
`reconcile.py` depends on it. A session is the configured timeout from each accepted heartbeat, and
the interval is below it: it is at most the configured interval, which the settings keep below the
session timeout. So a member that obeys does not lose its session, however the interval changes;
except if its group is loaded again between two heartbeats with a session timeout that was made
shorter than the interval that the member knows.

The cost. One booking for each member, and a constant number of operations for each heartbeat, with
two exceptions. One that is awaited from a later time on costs a pass over the slots of the calendar
at worst. One of a member that has failed with a client-side assignor costs a pass over the members
at worst, while the target is behind: another that has not failed may be there to make it.

Example: ten members at rest with the default budget of 200 a second are told 100 to 149 ms, which
is some 100 heartbeats a second. If one leaves, each of the others learns its new target within 149
ms. A thousand members at rest would need 7,000 a second for that; they are told 5 s, as by Kafka.

A classic member of a consumer group sends heartbeats at an interval of its own, and is not counted.
"""

from typing import Any

from apportion.coord.consumer.client_targets import is_passed_over
from apportion.coord.consumer.expressions import ResolveExpressions, refresh_wait_ms
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.targets import TARGET_COMPUTATIONS, target_wait_ms
from apportion.coord.turn import Turn


def book_next_heartbeat(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> int:
    """Book the member's next heartbeat; return how long it has to wait until then (ms)."""
    now_ms = turn.now.mono_ms
    # The member is here, so the heartbeat that was booked for it is not to come any more. Without
    # this, one that heartbeats too often would fill the calendar.
    cancel_heartbeat(turn, group, member)
    latest_ms = now_ms + turn.settings_of(group.group_id).heartbeat_interval_ms
    awaited_ms = awaited_from_ms_or_none(turn, group, member)
    if awaited_ms is None or awaited_ms > latest_ms:
        booking = turn.heartbeats.book(now_ms, latest_ms, is_awaited=False)
    else:
        booking = turn.heartbeats.book(now_ms, latest_ms, is_awaited=True, from_ms=awaited_ms)
    live = group.live
    live.next_heartbeats[member.member_id] = booking
    if not is_target_behind(group):
        live.renewing_member_id = None
    elif booking.is_awaited and _may_renew(group, member):
        live.renewing_member_id = member.member_id
    return booking.due_ms - now_ms


def cancel_heartbeat(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Give back what was booked for the member's next heartbeat."""
    booking = group.live.next_heartbeats.pop(member.member_id, None)
    if booking is not None:
        turn.heartbeats.cancel(booking)


def awaited_from_ms_or_none(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember
) -> int | None:
    """Return from when on a rebalance depends on the member's next heartbeat (mono ms).

    None if no rebalance depends on it, or nobody knows when.
    """
    if member.state is not MemberState.STABLE or member.epoch != group.saved.assignment_epoch:
        return turn.now.mono_ms
    if not is_target_behind(group) and not member.metadata.subscribed_topic_regex:
        return None  # as nearly always
    target_ms = _target_ms_or_none(turn, group, member)
    resolution_ms = _resolution_ms_or_none(turn, group, member)
    if target_ms is None or resolution_ms is None:
        return resolution_ms if target_ms is None else target_ms
    return min(target_ms, resolution_ms)


def is_target_behind(group: ConsumerGroup) -> bool:
    """Return whether the group's target assignment is older than its epoch."""
    return group.saved.epoch > group.saved.assignment_epoch


def _target_ms_or_none(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> int | None:
    """Return when the member's heartbeat may make a newer target or bring it; None if it need not.

    One heartbeat makes the target. What it changes for members that have an older one is not known
    before they ask, so they are at rest, as if the target had been computed at once.
    """
    if not is_target_behind(group):
        return None
    # One without a target waits for that of others, too.
    if member.target is not None and (
        _is_renewal_booked(group, turn.now.mono_ms) or not _may_renew(group, member)
    ):
        return None
    if group.live.chosen is not None:
        return _after_as_long_again(turn.now.mono_ms, group.live.chosen.since_ms)
    return _end_ms_or_none(turn, group, TARGET_COMPUTATIONS, target_wait_ms(turn, group))


def _may_renew(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether the member's heartbeat may make a target, if one is due by then."""
    agreed = group.saved.client_assignor
    return agreed is None or not is_passed_over(group, agreed, member.member_id)


def _is_renewal_booked(group: ConsumerGroup, now_ms: int) -> bool:
    """Return whether a member's heartbeat is to come that makes the target as soon as may be."""
    booking = group.live.next_heartbeats.get(group.live.renewing_member_id or "")
    # Not that of a member which should have been here by now.
    return booking is not None and booking.is_awaited and booking.due_ms >= now_ms


def _resolution_ms_or_none(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember
) -> int | None:
    """Return when the member's expression may be resolved; None if it has no unresolved one."""
    expression = member.metadata.subscribed_topic_regex
    if not expression or expression in group.saved.resolutions:
        return None
    if group.live.unsaved_resolutions:  # found, and soon saved
        return turn.now.mono_ms
    return _end_ms_or_none(turn, group, (ResolveExpressions,), refresh_wait_ms(turn, group))


def _end_ms_or_none(
    turn: Turn, group: ConsumerGroup, kinds: tuple[type[Any], ...], wait_ms: int
) -> int | None:
    """Return when to look for the end of a computation, or to begin it (mono ms).

    kinds: the classes of which it may be. wait_ms: how long it may not begin; 0 if it may, and does
    not, because there are too many. Then nobody knows when, and the result is None.
    """
    now_ms = turn.now.mono_ms
    for kind in kinds:
        under_way = turn.under_way_or_none(kind, group.group_id)
        if under_way is not None:
            return _after_as_long_again(now_ms, under_way.begun_ms)
    return now_ms + wait_ms if wait_ms else None


def _after_as_long_again(now_ms: int, begun_ms: int) -> int:
    """Return when to look again for the end of what was begun at `begun_ms` (all mono ms)."""
    return 2 * now_ms - begun_ms
