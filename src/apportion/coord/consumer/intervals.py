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
- any member of a group whose target assignment is behind its epoch, or whose expressions are being
  resolved: it may get a new target.

Every other member is at rest: it has reached its target, and its next heartbeat changes nothing
unless somebody joins or leaves meanwhile.

Why it holds. The interval decides only when a member asks, never what it is told, so no rule of
`reconcile.py` depends on it. A session is the configured timeout from each accepted heartbeat, and
the interval is below it: it is at most the configured interval, which the settings keep below the
session timeout. So a member that obeys does not lose its session, however the interval changes;
except if its group is loaded again between two heartbeats with a session timeout that was made
shorter than the interval that the member knows.

The cost. One integer for each member, and a constant number of operations for each heartbeat.

Example: ten members at rest with the default budget of 200 a second are told 100 to 149 ms, which
is some 100 heartbeats a second. If one leaves, each of the others learns its new target within 149
ms. A thousand members at rest would need 7,000 a second for that; they are told 5 s, as by Kafka.

A classic member of a consumer group sends heartbeats at an interval of its own, and is not counted.
"""

from apportion.coord.consumer.custom_targets import has_failed
from apportion.coord.consumer.expressions import has_unresolved
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.turn import Turn


def book_next_heartbeat(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> int:
    """Book the member's next heartbeat; return how long it has to wait until then (ms)."""
    now_ms = turn.now.mono_ms
    # The member is here, so the heartbeat that was booked for it is not to come any more. Without
    # this, one that heartbeats too often would fill the calendar.
    cancel_heartbeat(turn, group, member)
    booking = turn.heartbeats.book(
        now_ms,
        now_ms + turn.settings_of(group.group_id).heartbeat_interval_ms,
        is_awaited=is_heartbeat_awaited(group, member),
    )
    group.live.next_heartbeats[member.member_id] = booking
    return booking.due_ms - now_ms


def cancel_heartbeat(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Give back what was booked for the member's next heartbeat."""
    booking = group.live.next_heartbeats.pop(member.member_id, None)
    if booking is not None:
        turn.heartbeats.cancel(booking)


def is_heartbeat_awaited(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether a rebalance depends on the member's next heartbeat."""
    saved = group.saved
    return (
        # Not where a custom assignor has failed: no heartbeat helps then.
        (saved.epoch > saved.assignment_epoch and not has_failed(group))
        or member.epoch != saved.assignment_epoch
        or member.state is not MemberState.STABLE
        or has_unresolved(group)
    )
