"""What one broker says to classic members, as plain values: every id is its label, bytes are what
the script sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from tests.kafka.differential import classic_steps as steps
    from tests.kafka.differential.plain_values import Plain
    from tests.kafka.differential.side import Side

UUID_LETTERS = 36
MADE = re.compile(r".*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id that a coordinator makes: a name, and a random UUID."""


def join(side: Side, step: steps.Join) -> None:
    """The JoinGroup is on its way."""
    request = JoinGroupRequest(
        group_id=step.group,
        session_timeout_ms=step.session_ms,
        rebalance_timeout_ms=step.rebalance_ms if step.version >= 1 else -1,
        member_id=side.id_of(step.member, step.member_id),
        group_instance_id=step.instance if step.version >= 5 else None,
        protocol_type=step.kind,
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in step.protocols
        ),
        reason=step.reason if step.version >= 8 else None,
    )
    side.post(step, request, step.version)


def sync(side: Side, step: steps.Sync) -> None:
    """The SyncGroup is on its way."""
    request = SyncGroupRequest(
        group_id=step.group,
        generation_id=step.generation,
        member_id=side.id_of(step.member, step.member_id),
        group_instance_id=step.instance if step.version >= 3 else None,
        protocol_type=step.kind if step.version >= 5 else None,
        protocol_name=step.protocol if step.version >= 5 else None,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=side.ids.get(label, label), assignment=given)
            for label, given in step.assignments
        ),
    )
    side.post(step, request, step.version)


def joined(side: Side, answer: Any) -> Plain:
    """The answer to a JoinGroup."""
    return {
        "code": answer.error_code,
        "generation": answer.generation_id,
        "type": answer.protocol_type,
        "protocol": answer.protocol_name,
        "leader": side.who(answer.leader),
        "skip": answer.skip_assignment,
        "member": side.who(answer.member_id),
        "its id begins": answer.member_id[:-UUID_LETTERS],
        "members": {
            side.who(each.member_id): (each.group_instance_id, bytes(each.metadata))
            for each in answer.members
        },
    }


def synced(side: Side, answer: Any) -> Plain:
    """The answer to a SyncGroup."""
    return {
        "code": answer.error_code,
        "type": answer.protocol_type,
        "protocol": answer.protocol_name,
        "assignment": bytes(answer.assignment),
    }


def pulse(side: Side, step: steps.Pulse) -> Plain:
    """What a Heartbeat is answered."""
    request = HeartbeatRequest(
        group_id=step.group,
        generation_id=step.generation,
        member_id=side.id_of(step.member, step.member_id),
        group_instance_id=step.instance if step.version >= 3 else None,
    )
    return {"code": side.call(request, step.version).error_code}


def leave(side: Side, step: steps.Leave) -> Plain:
    """What a LeaveGroup is answered."""
    ids = [side.ids.get(label, label) for label, _ in step.members]
    if step.version < 3:
        return {
            "code": side.call(
                LeaveGroupRequest(group_id=step.group, member_id=ids[0]), step.version
            ).error_code
        }
    members: tuple[Any, ...] = tuple(
        MemberIdentity(
            member_id=each,
            group_instance_id=instance,
            reason="so be it" if step.version >= 5 else None,
        )
        for each, (_, instance) in zip(ids, step.members, strict=True)
    )
    answer = side.call(LeaveGroupRequest(group_id=step.group, members=members), step.version)
    members = tuple(
        (side.who(each.member_id), each.group_instance_id, each.error_code)
        for each in answer.members
    )
    return {"code": answer.error_code, "members": members}


def describe(side: Side, step: steps.DescribeClassic) -> Plain:
    """What a DescribeGroups is answered."""
    request = DescribeGroupsRequest(
        groups=step.groups, include_authorized_operations=step.operations and step.version >= 3
    )
    return {
        each.group_id: {
            "code": each.error_code,
            "has message": each.error_message is not None,
            "state": each.group_state,
            "type": each.protocol_type,
            "protocol": each.protocol_data,
            "operations": each.authorized_operations,
            "members": described(side, each.members),
        }
        for each in side.call(request, step.version).groups
    }


def described(side: Side, members: Any) -> Plain:
    """Members by label; one that waits for its first answer has none, and is called by how its id
    begins.
    """
    shown: dict[str, Plain] = {}
    for member in members:
        label = side.labels.get(member.member_id)
        if label is None:
            begins = member.member_id[:-UUID_LETTERS]
            label = f"{begins}{sum(1 for known in shown if known.startswith(begins))}"
        shown[label] = {
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.client_host,
            "metadata": bytes(member.member_metadata),
            "assignment": bytes(member.member_assignment),
        }
    return shown
