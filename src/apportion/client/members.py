"""The new members of a client, and the events of a membership's history."""

from typing import Any, Literal, NamedTuple
from uuid import uuid4

from apportion.member.members import GroupMember, make_member
from apportion.member.membership import MemberAssignment
from apportion.member.settings import GROUP_PROTOCOL
from apportion.wire.uuids import new_member_id

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


def new_member(
    group_id: str, *, protocol: str = GROUP_PROTOCOL.default, **settings: Any
) -> GroupMember:
    """Return `make_member` with a fresh member id, for `GroupMembership`."""
    return make_member(protocol, group_id, new_member_id(uuid4().bytes), **settings)
