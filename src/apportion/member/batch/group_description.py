"""The rule by which a member describes its group, whichever protocol the other members speak.

The batch planner needs two answers: who is assigned what, to know that a share is complete, and
which members may read the query's topics, to know whose writers have yet to name their sink. A
group is described by DescribeGroups or by ConsumerGroupDescribe (KIP-848), and each refuses or
calls dead a group of the other kind. A group may change its kind at any time while it is being
migrated.
"""

from apportion.errors import Code, Refused
from apportion.member.batch.queries import SubscribedTopics
from apportion.member.classic.described import (
    DescribedAssignment,
    from_described_group,
    may_be_assigned,
)
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery, DescribeGroupsQuery
from apportion.member.queries import AskCoordinator
from apportion.rules import Rule
from apportion.wire.messages.consumer_group_describe import DescribedGroup


def describe_assignment(
    group_id: str, *, classic: bool
) -> Rule[DescribedGroup | DescribedAssignment]:
    """Return the members of a group with their assignments, for `DescribeAssignment`.

    A classic member may find its group migrated to KIP-848, so a group that DescribeGroups does not
    know is described by the other API.
    """
    if classic:
        group = yield AskCoordinator(DescribeGroupsQuery(group_id))
        if group is not None:
            return from_described_group(group, (yield SubscribedTopics()))
    described: DescribedGroup = yield AskCoordinator(ConsumerGroupDescribeQuery(group_id))
    return described


def list_readers(group_id: str, topics: tuple[str, ...]) -> Rule[tuple[str, ...]]:
    """Return the ids of the group's members that may read one of the topics, for `ListMembers`.

    A member that subscribes to a regular expression counts: only the broker resolves it.
    """
    classic = yield AskCoordinator(DescribeGroupsQuery(group_id))
    if classic is not None:
        return tuple(
            sorted(
                member.member_id
                for member in classic.members
                if may_be_assigned(member.member_metadata, topics)
            )
        )
    try:
        group: DescribedGroup = yield AskCoordinator(ConsumerGroupDescribeQuery(group_id))
    except Refused as refused:
        # A group that does not exist has no members; nor has one on a broker without KIP-848.
        if refused.code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION):
            return ()
        raise
    return tuple(
        sorted(
            member.member_id
            for member in group.members
            if member.subscribed_topic_regex
            or {*member.subscribed_topic_names}.intersection(topics)
        )
    )
