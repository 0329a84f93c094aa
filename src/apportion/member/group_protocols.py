"""The rule that describes a group, whichever protocol its members speak.

A classic group is described by DescribeGroups, a consumer group (KIP-848) by ConsumerGroupDescribe.
To each API a group of the other kind does not exist. While a group is migrated it may change its
kind between the two requests, so that neither describes it; only a list of groups tells it from a
group that does not exist.
"""

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.groups import (
    ConsumerGroupDescribeQuery,
    DescribeGroupsQuery,
    ListedGroupQuery,
)
from apportion.member.queries import AskCoordinator
from apportion.rules import Rule
from apportion.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from apportion.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from apportion.wire.messages.list_groups import ListedGroup

ATTEMPTS = 5
DESCRIBED_TYPES = ("classic", "consumer", "")
"""The group types that one of the two APIs describes; "" is from a broker that lists no types."""


def describe_by_protocol(
    group_id: str, *, classic_first: bool
) -> Rule[ClassicGroup | ConsumerGroup | ListedGroup | None]:
    """Return a group's description, from the API that has it.

    ListedGroup for a group of another type, such as a share group; None for no group.
    classic_first: ask DescribeGroups first, as the likelier one; it decides nothing else.
    Raises Refused, with GROUP_ID_NOT_FOUND if the group changes its protocol in every attempt.
    """
    for _ in range(ATTEMPTS):
        for describe in APIS if classic_first else reversed(APIS):
            group = yield from describe(group_id)
            if group is not None:
                return group
        listed: ListedGroup | None = yield AskCoordinator(ListedGroupQuery(group_id))
        if listed is None or listed.group_type.lower() not in DESCRIBED_TYPES:
            return listed
    raise Refused(
        Code.GROUP_ID_NOT_FOUND,
        f"no description of group {group_id!r}: it changed its protocol in between, {ATTEMPTS} "
        "times in a row",
    )


def _describe_classic_group(group_id: str) -> Rule[ClassicGroup | ConsumerGroup | None]:
    """Return the description of a classic group; None if there is none of that id."""
    group: ClassicGroup | None = yield AskCoordinator(DescribeGroupsQuery(group_id))
    return group


def _describe_consumer_group(group_id: str) -> Rule[ClassicGroup | ConsumerGroup | None]:
    """Return the description of a consumer group; None if there is none of that id."""
    try:
        group: ConsumerGroup = yield AskCoordinator(ConsumerGroupDescribeQuery(group_id))
    except Refused as refused:
        # Nor has a broker without KIP-848 a consumer group.
        if refused.code in (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION):
            return None
        raise
    return group


APIS = (_describe_classic_group, _describe_consumer_group)
