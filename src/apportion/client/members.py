"""The member machine for each group protocol, and the events of a membership's history."""

from typing import Any, Literal, NamedTuple
from uuid import uuid4

from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import MemberAssignment
from apportion.member.settings import GROUP_PROTOCOL
from apportion.wire.uuids import new_member_id

GroupMember = ConsumerMember | ClassicMember

MembershipChange = Literal["offered", "adopted", "lost", "failed", "left"]
"""Offered: a target from the coordinator. Adopted: by the owner."""


class MembershipEvent(NamedTuple):
    """One event of a membership. at_ms: wall clock. why: the error of "failed"."""

    at_ms: int
    what: MembershipChange
    incarnation: int
    epoch: int
    revoked: MemberAssignment
    added: MemberAssignment
    why: str = ""


def make_member(
    group_id: str, *, protocol: str = GROUP_PROTOCOL.default, **settings: Any
) -> GroupMember:
    """Return the state machine of a group member, for `GroupMembership`.

    protocol: "consumer" (KIP-848) or "classic". settings: fields of `ConsumerSettings` or of
    `ClassicSettings`, such as instance_id.
    """
    if protocol == "classic":
        return ClassicMember(ClassicSettings(group_id=group_id, **settings))
    # KIP-848 lets the member choose its id.
    chosen = {"member_id": new_member_id(uuid4().bytes), **settings}
    return ConsumerMember(ConsumerSettings(group_id=group_id, **chosen))
