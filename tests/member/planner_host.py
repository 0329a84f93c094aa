"""What a member that works in batches asks, answered at once: a membership and a small cluster, as
plain fields.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.machine import Note
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.plan import StartingOffsets
from apportion.member.batch.planner import BatchPlanner
from apportion.member.batch.queries import (
    EndMembership,
    GroupSetting,
    ReadWriterReport,
    StartMembership,
)
from apportion.member.batch.span import EMPTY_SPAN, Span, sorted_span
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.batch.writer_reports import NO_REPORT
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery, DescribeGroupsQuery
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import metadata_of
from apportion.member.membership import MembershipState, View, assignment, to_id_parts
from apportion.member.queries import (
    AdoptAssignment,
    AskCoordinator,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MembershipSnapshot,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.rules import Rule, run_rule
from apportion.topics import IdPartition, Topic, TopicIdPartition, Topics
from apportion.wire.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from apportion.wire.messages.list_offsets import EARLIEST

if TYPE_CHECKING:
    from apportion.errors import Refused, Unanswerable
    from apportion.wire.messages import describe_groups

ID, OTHER_ID = b"i" * 16, b"o" * 16
P0, P1, P2 = (TopicIdPartition("t", ID, number) for number in range(3))
ALL = (P0, P1, P2)
SESSION_MS = 4_000
TABLE = ("/lake/t",)
CLAIM = metadata_of(TABLE)
STARTING = metadata_of(TABLE, starting=True)  # of an offset where TABLE is to begin
LOOK_AT_GROUP = AskCoordinator(ConsumerGroupDescribeQuery("g"))
BEGUN = Span("c", {}, TABLE)  # as a query stands whose writers were heard


def read(
    id: str, ranges: dict[TopicIdPartition, tuple[int, int]], *starting: TopicIdPartition
) -> Span:
    """The span of these ranges, of a query that writes to TABLE, which begins with `starting`."""
    return sorted_span(id, ranges)._replace(sinks=TABLE, starting=starting)


def held(*partitions: TopicIdPartition) -> tuple[IdPartition, ...]:
    """The partitions as the group protocol knows them."""
    return assignment(partition.id_partition for partition in partitions)


def assigned(*partitions: TopicIdPartition) -> Assignment:
    """The partitions as ConsumerGroupDescribe tells them."""
    topics = (
        TopicPartitions(topic_id=one.topic_id, topic_name="t", partitions=one.partitions)
        for one in to_id_parts(held(*partitions))
    )
    return Assignment(topic_partitions=tuple(topics))


def described(
    *targets: TopicIdPartition,
    given: tuple[TopicIdPartition, ...] | None = None,
    group_epoch: int = 3,
    assignment_epoch: int = 3,
    member_epoch: int = 3,
) -> DescribedGroup:
    """The group as its coordinator describes it when it wants `targets` held by the one member and
    has given it `given`.
    """
    member = Member(
        member_id="m",
        member_epoch=member_epoch,
        assignment=assigned(*(targets if given is None else given)),
        target_assignment=assigned(*targets),
    )
    return DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        group_epoch=group_epoch,
        assignment_epoch=assignment_epoch,
        assignor_name="uniform",
        members=(member,),
    )


class PlannerHost:
    """The membership and the cluster. `asked` is every question since `attempt` began, but for what
    the writers announced.

    members: who is in the group. unassigned: those of them that have no partition. stood: the group
    as it is described, in place of them.
    offsets, metadata: what the group has stored, which bears TABLE's name unless it is said
    otherwise. report: what the writers said.
    obstacles: number of a question -> what is thrown in instead of its answer, once. drops_answers:
    what stands in the way lets the question through, and takes the answer.
    """

    def __init__(self, *, drops_answers: bool = False) -> None:
        self.view = View("m", 3, MembershipState.RECONCILING, 1, held(), held(), 1_000, None, 500)
        self.now_ms = 1_000
        self.interruptions = 0
        self.session_ms = SESSION_MS
        self.topics = Topics([Topic("t", ID, 3)])
        self.starts = dict.fromkeys(ALL, 0)
        self.ends = dict.fromkeys(ALL, 10)
        self.offsets: dict[TopicIdPartition, int] = {}
        self.metadata: dict[TopicIdPartition, str] = {}
        self.report = NO_REPORT
        self.joins = 0
        self.leaves = 0
        self.stood: DescribedGroup | describe_groups.DescribedGroup | None = None
        self.members: tuple[str, ...] = ()
        self.unassigned: tuple[str, ...] = ()
        self.asked: list[Any] = []
        self.obstacles: dict[int, Refused | Unanswerable] = {}
        self.drops_answers = drops_answers

    def sees(self, **fields: Any) -> None:
        self.view = replace(self.view, **fields)

    def attempt(self, rule: Rule[Any]) -> Any:
        """The result of the rule."""
        self.asked = []
        return run_rule(rule, self._answer_or_fail)

    def _answer_or_fail(self, query: Any) -> Any:
        if isinstance(query, ReadWriterReport):
            return self.report
        obstacle = self.obstacles.pop(len(self.asked), None)
        self.asked.append(query)
        answer = self.answer(query) if obstacle is None or self.drops_answers else None
        if obstacle is not None:
            raise obstacle
        return answer

    def stored(self, partition: TopicIdPartition) -> OffsetAndMetadata:
        """What the group has of the place."""
        return (
            OffsetAndMetadata(self.offsets[partition], self.metadata.get(partition, CLAIM))
            if partition in self.offsets
            else OffsetAndMetadata(None)
        )

    def answer(self, ask: Any) -> Any:
        match ask:
            case ReadMembership():
                return MembershipSnapshot(self.view, self.now_ms, self.interruptions)
            case GroupSetting("consumer.session.timeout.ms"):
                return str(self.session_ms)
            case ExistingTopics(names):
                return Topics(
                    topic for name in names if (topic := self.topics.named(name)) is not None
                )
            case ResolveTopicNames(wanted):
                named = ((self.topics.with_id(topic_id), number) for topic_id, number in wanted)
                return tuple(
                    sorted(
                        TopicIdPartition(topic.name, topic.id, number)
                        for topic, number in named
                        if topic is not None
                    )
                )
            case AdoptAssignment(life, target):
                if (life, target) == (self.view.incarnation, self.view.target):
                    self.sees(owned=target)
                return self.view
            case FetchCommitted(partitions, _):
                return {partition: self.stored(partition) for partition in partitions}
            case CommitOffsets(offsets, _, metadata):
                self.offsets.update(offsets)
                self.metadata.update(dict.fromkeys(offsets, metadata))
                return None
            case StartMembership():
                self.joins += 1
                return None
            case EndMembership():
                self.leaves += 1
                return None
            case ListOffsets(partitions, timestamp):
                offsets = self.starts if timestamp == EARLIEST else self.ends
                return {partition: offsets[partition] for partition in partitions}
            case AskCoordinator(ConsumerGroupDescribeQuery() | DescribeGroupsQuery()):
                members = (
                    Member(
                        member_id=each,
                        client_id=each,
                        client_host="/127.0.0.1",
                        subscribed_topic_names=("t",),
                        target_assignment=assigned() if each in self.unassigned else assigned(P0),
                    )
                    for each in self.members
                )
                return self.stood or DescribedGroup(group_id="g", members=tuple(members))
            case Note():
                return None
        raise AssertionError(ask)


ONE_TOPIC = TopicChoice(("t",))


def make_planner(
    otherwise: int = EARLIEST,
    topics: TopicChoice = ONE_TOPIC,
    **given: Any,
) -> BatchPlanner:
    group = BatchGroup("g", topics, classic_session_ms=None, servers="b:9092")
    return BatchPlanner(group, checkpoint="c", starting=StartingOffsets(otherwise), **given)


def working(host: PlannerHost, *partitions: TopicIdPartition) -> Any:
    """A member that has planned its first batch over these partitions; with it that batch."""
    host.sees(target=held(*partitions))
    planner = make_planner()
    return planner, host.attempt(planner.plan_next(BEGUN))


def asked(host: PlannerHost, planner: BatchPlanner | None = None) -> Any:
    """The span that asks the writers, of a query that begins."""
    return host.attempt((planner or make_planner()).plan_next(EMPTY_SPAN))
