"""The rules by which a batch planner's group is described, whichever protocol its members speak.

The batch planner needs two answers: who is assigned what, to know that a share is complete, and
which members may read the query's topics, to know whose writers have yet to name their sink.
"""

from apportion.errors import Code, Refused
from apportion.member.batch.queries import SubscribedTopics
from apportion.member.classic.described import (
    DescribedAssignment,
    from_described_group,
    may_be_assigned,
)
from apportion.member.group_protocols import describe_by_protocol
from apportion.rules import Rule
from apportion.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from apportion.wire.messages.describe_groups import DescribedGroup as ClassicGroup


def describe_assignment(
    group_id: str, *, classic: bool
) -> Rule[ConsumerGroup | DescribedAssignment]:
    """Return the members of a group with their assignments, for `DescribeAssignment`.

    classic: the member that asks speaks the classic protocol, so the group probably does.
    Raises Refused, with GROUP_ID_NOT_FOUND if there is no group of consumers.
    """
    group = yield from describe_by_protocol(group_id, classic_first=classic)
    if isinstance(group, ConsumerGroup):
        return group
    if isinstance(group, ClassicGroup):
        return from_described_group(group, (yield SubscribedTopics()))
    raise Refused(Code.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r} of consumers")


def list_readers(group_id: str, topics: tuple[str, ...], *, classic: bool) -> Rule[tuple[str, ...]]:
    """Return the ids of the group's members that may read one of the topics, for `ListMembers`.

    A member that subscribes to a regular expression counts: only the broker resolves it. A group
    that does not exist has no members.
    classic: as in `describe_assignment`.
    """
    group = yield from describe_by_protocol(group_id, classic_first=classic)
    if isinstance(group, ClassicGroup):
        readers = [
            member.member_id
            for member in group.members
            if may_be_assigned(member.member_metadata, topics)
        ]
    elif isinstance(group, ConsumerGroup):
        readers = [
            member.member_id
            for member in group.members
            if member.subscribed_topic_regex
            or {*member.subscribed_topic_names}.intersection(topics)
        ]
    else:
        readers = []
    return tuple(sorted(readers))
