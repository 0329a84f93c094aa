"""The group of a member that works in micro-batches, as the cluster shows it.

The batch planner needs four answers: the group's committed offsets, with the sinks that they name;
who is assigned what, to know that a share is complete; which members may read the query's topics,
to know whose writers have yet to name their sink; and how long a silent member stays in the group.
They are the same whichever protocol the members speak.
"""

from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.member.batch.queries import BrokerSetting, GroupSetting
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.classic.described import (
    from_described_group,
    has_assignment,
    may_be_assigned,
)
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import fetch_offsets
from apportion.member.group_protocols import describe_by_protocol
from apportion.member.membership import View, from_id_parts
from apportion.member.missing_topic import missing_topic_remedy
from apportion.readable import readable
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, Topics, partitions_of
from apportion.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from apportion.wire.messages.consumer_group_describe import Member as ConsumerGroupMember
from apportion.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from apportion.wire.messages.describe_groups import DescribedGroupMember as ClassicGroupMember

# Kafka's, and ours: for brokers that tell no settings.
DEFAULT_SESSION_TIMEOUT_MS = 45_000
LONGEST_CLIENT_ID = 50  # in texts, in characters


class TopicReader(NamedTuple):
    """A member of the group that may read the query's topics.

    is_assigned: whether it has partitions. client: its client id and its host, for people.
    """

    member_id: str
    is_assigned: bool
    client: str


class BatchGroup:
    """A batch planner's group. topics: those that its member subscribes to.

    classic_session_ms: the session timeout of a member that speaks the classic protocol, as its
    group then probably does; None for one of the consumer protocol. is_balanced: False for a reader
    without a membership, whose partitions are given once and for all. servers: the brokers as the
    user gave them, for commands in texts.
    """

    def __init__(
        self,
        group_id: str,
        topics: TopicChoice,
        *,
        classic_session_ms: int | None,
        is_balanced: bool = True,
        servers: str = "",
    ) -> None:
        self.topics = topics
        self._is_balanced, self._servers = is_balanced, servers
        self._group_id, self._classic_session_ms = group_id, classic_session_ms
        self._is_classic = classic_session_ms is not None

    def missing_topic_remedy(self, topic: str) -> str:
        """Return what to do about a topic that does not exist on the group's cluster."""
        return missing_topic_remedy(topic, self._servers)

    def fetch_session_timeout(self) -> Rule[int]:
        """Return how long the coordinator keeps a silent member, in ms.

        A classic member decides that; for others it is a setting of the group, which an operator
        may alter at any time.
        """
        if not self._is_balanced:
            return DEFAULT_SESSION_TIMEOUT_MS  # of no use: there is no session
        if self._classic_session_ms is not None:
            return self._classic_session_ms
        value: str | None = yield GroupSetting("consumer.session.timeout.ms")
        if value is None:
            value = yield BrokerSetting("group.consumer.session.timeout.ms")
        return DEFAULT_SESSION_TIMEOUT_MS if value is None else int(value)

    def fetch_topics(self) -> Rule[Topics]:
        """Return the subscribed topics that exist."""
        return (yield from self.topics.find_topics())

    def fetch_offsets(
        self, incarnation: int, gained: tuple[TopicIdPartition, ...] = ()
    ) -> Rule[dict[TopicIdPartition, OffsetAndMetadata]]:
        """Return the offsets of all partitions of the subscribed topics, and of `gained`.

        incarnation: of the member that asks; 0 to ask without a member id.
        """
        topics = yield from self.fetch_topics()
        return (yield from fetch_offsets(topics, incarnation, gained))

    def has_full_assignment(self, view: View) -> Rule[bool]:
        """Return whether the member owns all that the group's newest target assigns it.

        Raises Refused, with GROUP_ID_NOT_FOUND if there is no group of consumers.
        """
        if not self._is_balanced:
            return True
        group = yield from describe_by_protocol(self._group_id, classic_first=self._is_classic)
        if isinstance(group, ClassicGroup):
            described = from_described_group(group, (yield from self.fetch_topics()))
            # KIP-429: a partition that changes hands is unassigned for one generation.
            return (
                described.is_stable
                and not described.unassigned
                and described.by_member.get(view.member_id) == view.target
            )
        if not isinstance(group, ConsumerGroup):
            what = f"there is no group {self._group_id!r} of consumers"
            raise Refused(Code.GROUP_ID_NOT_FOUND, what)
        if self.topics.expression and not (yield from self._has_resolved_expression(group)):
            return False
        return any(
            group.group_epoch == group.assignment_epoch == member.member_epoch == view.epoch
            and from_id_parts(member.target_assignment.topic_partitions) == view.target
            and from_id_parts(member.assignment.topic_partitions) == view.target
            for member in group.members
            if member.member_id == view.member_id
        )

    def _has_resolved_expression(self, group: ConsumerGroup) -> Rule[bool]:
        """Return whether every partition that the expression matches has an owner to be.

        A coordinator admits a member before it has resolved its expression, and the target is
        complete then without the topics that it matches.
        """
        topics = yield from self.fetch_topics()
        assigned = {
            partition
            for member in group.members
            for partition in from_id_parts(member.target_assignment.topic_partitions)
        }
        return all(
            each.id_partition in assigned for topic in topics for each in partitions_of(topic)
        )

    def list_readers(self) -> Rule[tuple[TopicReader, ...]]:
        """Return the group's members that may read a subscribed topic, ordered by id.

        A member that subscribes to a regular expression counts: only the broker resolves it. A
        group that does not exist has no members.
        """
        group = yield from describe_by_protocol(self._group_id, classic_first=self._is_classic)
        names = self.topics.names
        if self.topics.expression:
            names = tuple(topic.name for topic in (yield from self.fetch_topics()))
        readers: list[TopicReader] = []
        if isinstance(group, ClassicGroup):
            readers = [
                TopicReader(member.member_id, has_assignment(member), _client_text(member))
                for member in group.members
                if may_be_assigned(member.member_metadata, names)
            ]
        elif isinstance(group, ConsumerGroup):
            readers = [
                TopicReader(
                    member.member_id,
                    bool(
                        member.assignment.topic_partitions
                        or member.target_assignment.topic_partitions
                    ),
                    _client_text(member),
                )
                for member in group.members
                if member.subscribed_topic_regex
                or {*member.subscribed_topic_names}.intersection(names)
            ]
        return tuple(sorted(readers))


def _client_text(member: ConsumerGroupMember | ClassicGroupMember) -> str:
    """Return who a described member is, such as "rdkafka at 10.1.2.3".

    Another client chose its id, of any characters and up to 32,767 bytes, and Spark prints the text
    as it is.
    """
    client_id = member.client_id
    if len(client_id) > LONGEST_CLIENT_ID:
        client_id = f"{client_id[:LONGEST_CLIENT_ID]}..."
    # Kafka writes a host as Java writes an address, with a slash.
    return readable(f"{client_id} at {member.client_host.lstrip('/')}")
