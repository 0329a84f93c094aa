"""Description of a query's group by its coordinator, whichever protocol its members speak.

The batch planner needs two answers: who is assigned what, to know that a share is complete, and
which members may read the query's topics, to know whose writers have yet to name their sink. A
group is described by DescribeGroups or by ConsumerGroupDescribe (KIP-848), and each refuses or
calls dead a group of the other kind. A group may change its kind at any time while it is being
migrated.
"""

from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.classic.described import (
    DescribedAssignment,
    from_described_group,
    may_be_assigned,
)
from apportion.spark.options import SourceOptions
from apportion.topics import Topic
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from apportion.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from apportion.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

CALL_TIMEOUT_MS = 5_000
# DescribeGroups answers so for a group that does not exist, and for one of the consumer protocol.
DEAD = "Dead"


def describe_assignment(
    cluster: Cluster, options: SourceOptions
) -> DescribedGroup | DescribedAssignment:
    """Return the members of a Spark query's group with their assignments.

    A query of the classic protocol may find its group migrated to KIP-848, so a group that
    DescribeGroups calls dead is described by the other API.
    """
    if options.classic:
        group = _describe_classic_group(cluster, options.group)
        if group.group_state != DEAD:
            return from_described_group(group, subscribed_topics(cluster, options))
    return _describe_consumer_group(cluster, options.group)


def list_readers(cluster: Cluster, options: SourceOptions) -> tuple[str, ...]:
    """Return the ids of the group's members that may read one of the query's topics, sorted.

    A member that subscribes to a regular expression counts: only the broker resolves it.
    """
    classic = _describe_classic_group(cluster, options.group)
    if classic.group_state != DEAD:
        return tuple(
            sorted(
                member.member_id
                for member in classic.members
                if may_be_assigned(member.member_metadata, options.topics)
            )
        )
    try:
        group = _describe_consumer_group(cluster, options.group)
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
            or {*member.subscribed_topic_names}.intersection(options.topics)
        )
    )


def subscribed_topics(cluster: Cluster, options: SourceOptions) -> dict[str, Topic]:
    """Return those topics of the option `subscribe` that exist now, by name."""
    topics = cluster.topics(options.topics, fresh=True)
    return {name: topic for name in options.topics if (topic := topics.named(name)) is not None}


def _describe_consumer_group(cluster: Cluster, group_id: str) -> DescribedGroup:
    """Return a Spark query's group as ConsumerGroupDescribe shows it (KIP-848)."""
    request = ConsumerGroupDescribeRequest(group_ids=(group_id,))

    def read(response: ConsumerGroupDescribeResponse) -> tuple[Code, DescribedGroup]:
        return Code.of(response.groups[0].error_code), response.groups[0]

    return cluster.ask_coordinator(
        "ConsumerGroupDescribe", request, group_id, read=read, timeout_ms=CALL_TIMEOUT_MS
    )


def _describe_classic_group(cluster: Cluster, group_id: str) -> ClassicGroup:
    """Return a Spark query's group as DescribeGroups shows it; a missing one is Dead."""
    request = DescribeGroupsRequest(groups=(group_id,))

    def read(response: DescribeGroupsResponse) -> tuple[Code, ClassicGroup]:
        group, code = response.groups[0], Code.of(response.groups[0].error_code)
        # From version 6 on a group that does not exist is an error (KIP-1043); before, it is Dead.
        return Code.NONE if code is Code.GROUP_ID_NOT_FOUND else code, group

    return cluster.ask_coordinator(
        "DescribeGroups", request, group_id, read=read, timeout_ms=CALL_TIMEOUT_MS
    )
