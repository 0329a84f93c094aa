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
from apportion.member.cluster_queries.groups import (
    ConsumerGroupDescribeQuery,
    DescribeGroupsQuery,
)
from apportion.spark.options import SourceOptions
from apportion.topics import Topic
from apportion.wire.messages.consumer_group_describe import DescribedGroup

CALL_TIMEOUT_MS = 5_000


def describe_assignment(
    cluster: Cluster, options: SourceOptions
) -> DescribedGroup | DescribedAssignment:
    """Return the members of a Spark query's group with their assignments.

    A query of the classic protocol may find its group migrated to KIP-848, so a group that
    DescribeGroups does not know is described by the other API.
    """
    if options.classic:
        group = cluster.ask_coordinator(
            DescribeGroupsQuery(options.group), timeout_ms=CALL_TIMEOUT_MS
        )
        if group is not None:
            return from_described_group(group, subscribed_topics(cluster, options))
    return cluster.ask_coordinator(
        ConsumerGroupDescribeQuery(options.group), timeout_ms=CALL_TIMEOUT_MS
    )


def list_readers(cluster: Cluster, options: SourceOptions) -> tuple[str, ...]:
    """Return the ids of the group's members that may read one of the query's topics, sorted.

    A member that subscribes to a regular expression counts: only the broker resolves it.
    """
    classic = cluster.ask_coordinator(
        DescribeGroupsQuery(options.group), timeout_ms=CALL_TIMEOUT_MS
    )
    if classic is not None:
        return tuple(
            sorted(
                member.member_id
                for member in classic.members
                if may_be_assigned(member.member_metadata, options.topics)
            )
        )
    try:
        group = cluster.ask_coordinator(
            ConsumerGroupDescribeQuery(options.group), timeout_ms=CALL_TIMEOUT_MS
        )
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
