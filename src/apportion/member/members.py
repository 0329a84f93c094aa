"""The member machine for each group protocol."""

from typing import Any

from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings

GroupMember = ConsumerMember | ClassicMember


def make_member(protocol: str, group_id: str, member_id: str, **settings: Any) -> GroupMember:
    """Return the state machine of a group member.

    protocol: "consumer" (KIP-848) or "classic". member_id: chosen by the member in KIP-848; in the
    classic protocol the coordinator chooses one. settings: further fields of `ConsumerSettings` or
    of `ClassicSettings`, such as instance_id.
    """
    if protocol == "classic":
        return ClassicMember(ClassicSettings(group_id=group_id, **settings))
    return ConsumerMember(ConsumerSettings(group_id=group_id, member_id=member_id, **settings))
