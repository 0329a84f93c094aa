"""Steady heartbeats: those that bring nothing, in a group that wants nothing of their member.

The problem. Nearly all heartbeats are steady, and each costs the broker time. `heartbeat.py` would
find by all of its steps, one after the other, that there is nothing to do.

The method. The answer to all of these steps is found at once. The request names its group, member
and epoch, and leaves everything else as it is. The member is at that epoch and has its target. The
group has the target of its epoch, and has seen the topics of the cluster as they are. So no guard
can refuse the member, no record is due, and only its session and its next heartbeat are left:
nothing that is saved, and no action but the response. So the shard takes no step for it
(`Shard.steady_response_or_none`), and the node no unit of work.

Why it holds. Each condition of `is_steady` stands for the steps that it makes needless. A heartbeat
that is not found steady goes through all steps, so a condition too many costs time and nothing
else. `tests/coord/test_steady.py` plays histories with and without this module: they are the same.
"""

from apportion.coord.consumer import expressions, timers
from apportion.coord.consumer.beat import is_blank
from apportion.coord.consumer.heartbeat import HeartbeatResult
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.turn import Turn
from apportion.machine import Arrived


def steady_heartbeat_or_none(turn: Turn, arrived: Arrived) -> HeartbeatResult | None:
    """Apply a steady heartbeat, whose result is no news; return None if it is not found steady."""
    group = turn.ledger.consumer_group_or_none(arrived.request.group_id)
    member = None if group is None else group.saved.members.get(arrived.request.member_id)
    if group is None or member is None or not is_steady(turn, group, member, arrived):
        return None
    if group.saved.expression_counts and expressions.is_refresh_due(turn, group):
        return None
    timers.arm_session(turn, group, member)
    return HeartbeatResult(group, member, includes_assignment=False)


def is_steady(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember, arrived: Arrived
) -> bool:
    """Return whether a heartbeat of a member changes nothing but its session and its booking."""
    request, caller = arrived.request, arrived.caller
    saved, live, metadata = group.saved, group.live, member.metadata
    epoch = member.epoch
    offering = live.offering_members.get(member.member_id)
    return (
        # It is admitted: neither fenced nor one that joins, leaves or comes back.
        request.member_epoch == epoch > 0
        # In version 0 a member may join with a blank id; no later heartbeat of it is accepted.
        and not is_blank(request.member_id)
        # It has its target, which is that of the group's epoch, and nothing to give up.
        and saved.epoch <= epoch == saved.assignment_epoch
        and member.state is MemberState.STABLE
        and live.seen_topics is turn.topics
        # It brings nothing.
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.client_assignors is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
        # A static member repeats its instance id.
        and (
            request.instance_id is None
            or saved.instances.get(request.instance_id) == member.member_id
        )
        # Another connection, or the successor of a classic member
        and caller.client_id == metadata.client_id
        and caller.host == metadata.client_host
        and metadata.classic_member_metadata is None
        # Nothing waits to be saved with its next heartbeat.
        and (offering is None or offering.early is None)
    )
