"""A member of a consumer group as it was checked last, and what ends or prolongs its membership."""

from typing import Any, NamedTuple

from apportion.coord.consumer.beat import AWAY
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroupMember
from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.leave_group import LeaveGroupRequest


class MemberSnapshot(NamedTuple):
    """A member as the checker saw it last.

    since_ms: when its current assignment, epochs or state last changed; timeouts count from then.
    """

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Any
    pending_revocation: Any
    target: Any
    metadata: Any
    since_ms: int  # of the monotonic clock of the broker's present incarnation

    def has_same_assignment(self, member: ConsumerGroupMember) -> bool:
        """Return whether the member's assignment, epochs and state are as at the last check."""
        return (
            self.assigned is member.assigned
            and self.pending_revocation is member.pending_revocation
            and self.epoch == member.epoch
            and self.previous_epoch == member.previous_epoch
            and self.state is member.state
        )


def snapshot_of(
    member: ConsumerGroupMember, before: MemberSnapshot | None, now_ms: int
) -> MemberSnapshot:
    """Return the simulated member as it is; its earlier snapshot if nothing has changed."""
    if before is None or not before.has_same_assignment(member):
        since_ms = now_ms
    elif before.target is member.target and before.metadata is member.metadata:
        return before
    else:
        since_ms = before.since_ms
    assignment = (
        member.epoch,
        member.previous_epoch,
        member.state,
        member.assigned,
        member.pending_revocation,
    )
    return MemberSnapshot(*assignment, member.target, member.metadata, since_ms)


def removes_member(request: Any, member_id: str, last: MemberSnapshot) -> bool:
    """Return whether a request ends a member's membership: it leaves, or another replaces it.

    A new process replaces a static member that is away, or one where either uses the classic
    protocol.
    """
    instance_id = last.metadata.instance_id
    match request:
        case ConsumerGroupHeartbeatRequest():
            is_open = last.epoch == AWAY or last.metadata.classic_member_metadata is not None
            return request.member_epoch < 0 or (is_open and request.instance_id == instance_id)
        case JoinGroupRequest():
            return instance_id is not None and request.group_instance_id == instance_id
        case LeaveGroupRequest():
            return any(each.member_id == member_id for each in request.members)
        case _:
            return False


def restarts_classic_session(request: Any, code: int) -> bool:
    """Return whether the answer to a classic member's request shows that its session began anew.

    As in Kafka, a heartbeat does that during a rebalance, too, and a refused SyncGroup does not.
    """
    return code == Code.NONE or (
        code == Code.REBALANCE_IN_PROGRESS and type(request) is HeartbeatRequest
    )
