"""What one broker says to classic members, as plain values: every id is its label, bytes are what
the script sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.messages import request

if TYPE_CHECKING:
    from tests.kafka.differential import classic_steps as steps
    from tests.kafka.differential.plain_values import Plain
    from tests.kafka.differential.side import Side

UUID_LETTERS = 36
MADE = re.compile(r".*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id that a coordinator makes: a name, and a random UUID."""


def join(side: Side, step: steps.Join) -> None:
    """The JoinGroup is on its way."""
    asked = request(
        "JoinGroup",
        group_id=step.group,
        session_timeout_ms=step.session_ms,
        rebalance_timeout_ms=step.rebalance_ms if step.version >= 1 else -1,
        member_id=side.id_of(step.member, step.member_id),
        group_instance_id=step.instance if step.version >= 5 else None,
        protocol_type=step.kind,
        protocols=[{"name": name, "metadata": metadata} for name, metadata in step.protocols],
        reason=step.reason if step.version >= 8 else None,
    )
    side.post(step, asked, step.version)


def sync(side: Side, step: steps.Sync) -> None:
    """The SyncGroup is on its way."""
    asked = request(
        "SyncGroup",
        group_id=step.group,
        generation_id=step.generation,
        member_id=side.id_of(step.member, step.member_id),
        group_instance_id=step.instance if step.version >= 3 else None,
        protocol_type=step.kind if step.version >= 5 else None,
        protocol_name=step.protocol if step.version >= 5 else None,
        assignments=[
            {"member_id": side.ids.get(label, label), "assignment": given}
            for label, given in step.assignments
        ],
    )
    side.post(step, asked, step.version)


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
    asked = request(
        "Heartbeat",
        group_id=step.group,
        generation_id=step.generation,
        member_id=side.id_of(step.member, step.member_id),
        group_instance_id=step.instance if step.version >= 3 else None,
    )
    return {"code": side.call(asked, step.version).error_code}


def leave(side: Side, step: steps.Leave) -> Plain:
    """What a LeaveGroup is answered."""
    ids = [side.ids.get(label, label) for label, _ in step.members]
    if step.version < 3:
        asked = request("LeaveGroup", group_id=step.group, member_id=ids[0])
        return {"code": side.call(asked, step.version).error_code}
    reason = {"reason": "so be it" if step.version >= 5 else None}
    leaving = [
        {"member_id": each, "group_instance_id": instance} | reason
        for each, (_, instance) in zip(ids, step.members, strict=True)
    ]
    answer = side.call(request("LeaveGroup", group_id=step.group, members=leaving), step.version)
    members = tuple(
        (side.who(each.member_id), each.group_instance_id, each.error_code)
        for each in answer.members
    )
    return {"code": answer.error_code, "members": members}


def describe(side: Side, step: steps.DescribeClassic) -> Plain:
    """What a DescribeGroups is answered."""
    operations = {"include_authorized_operations": step.operations and step.version >= 3}
    asked = request("DescribeGroups", groups=step.groups, **operations)
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
        for each in side.call(asked, step.version).groups
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
