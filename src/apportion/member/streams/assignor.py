"""The assignor named "stream": a Kafka Streams member's part in the classic protocol.

The assignor translates the group's bytes to the values of `streams/` and back, and keeps what the
next JoinGroup has to carry: the metadata version that the group uses, the process's state of each
task, and the last assignment. Streams groups of KIP-1071 have a protocol of their own and no such
assignor. `streams/metadata/probing.py` decides the version (KIP-268), `streams/leader.py` the
assignment.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.assign.by_name import ClusterTopics, Given, Subscription, TopicParts, by_topic
from apportion.errors import Code, DecodeError, Refused
from apportion.member.assignors.interface import FollowUp, MemberFailure, Rebalance
from apportion.member.streams.missing_sources import missing_sources
from apportion.streams.consumer_assignments import ConsumerAssignment
from apportion.streams.leader import GroupAssignment, LeaderSettings, assign_as_leader
from apportion.streams.metadata.codec import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from apportion.streams.metadata.model import (
    RUNNING,
    AssignmentInfo,
    AssignorError,
    FutureInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.streams.metadata.probing import MetadataVersions, next_subscription_version
from apportion.streams.metadata.releases import (
    NEWEST_RELEASE,
    Release,
    initial_metadata_version,
    is_eager,
    known_release,
)
from apportion.streams.settings import PROBING_REBALANCE_INTERVAL_MS, TASK_ASSIGNOR
from apportion.streams.task_assignment.client_metadata import (
    OFFSET_SUMS_SINCE,
    ConsumerMetadata,
    host_or_none,
)
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.topics import TopicPartition

NAME = "stream"

ENDS = {
    # VERSION_PROBING (2) is unused by now, so it is not here.
    AssignorError.ASSIGNMENT_ERROR: MemberFailure(
        Code.INVALID_REQUEST, "the leader could not assign tasks; its log says why"
    ),
    AssignorError.SHUTDOWN_REQUESTED: MemberFailure(
        Code.INVALID_REQUEST, "an instance has asked all instances to shut down"
    ),
}
"""The error codes of an assignment that end the member, by the error with which it ends.

`missing_sources` has the one of source topics that do not exist.
"""


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """Identity and settings of a process, by Kafka Streams' names and defaults where it has them.

    process_id: 16 bytes, the same for all consumers of a process. endpoint: application.server.
    upgrade_from: upgrade.from.
    release: the Kafka Streams release to behave like; the newest by default. assignor:
    "highavailability" or "sticky".
    """

    topology: Topology
    process_id: bytes
    endpoint: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    upgrade_from: str | None = None
    release: Release = field(default_factory=lambda: known_release(NEWEST_RELEASE))
    assignor: str = TASK_ASSIGNOR.default
    policy: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    probing_interval_ms: int = PROBING_REBALANCE_INTERVAL_MS.default

    def __post_init__(self) -> None:
        """Check release, upgrade.from, process id and application.server.

        Raises ValueError.
        """
        initial_metadata_version(self.release, self.upgrade_from)
        if len(self.process_id) != 16:
            raise ValueError(f"process_id must be 16 bytes, not {len(self.process_id)}")
        host = host_or_none(self.endpoint)
        if self.endpoint and (host is None or host.port > 65_535):
            raise ValueError(f"application.server must be host:port, not {self.endpoint!r}")


@dataclass(frozen=True, slots=True)
class TaskShare:
    """The tasks assigned to one consumer, with the partitions that they read.

    active, standby: partitions by task. generation: in which they were assigned; -1: none.
    used: the metadata version of that assignment.
    active_hosts, standby_hosts: which host answers interactive queries for which source partitions.
    warmup, hosts: in a consumer group (KIP-848), whose metadata list warm-ups apart from standby
    tasks, and have one list of hosts for active and standby partitions.
    """

    generation: int = -1
    used: int = -1
    active: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    standby: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    active_hosts: Mapping[HostInfo, tuple[TopicPartition, ...]] = field(default_factory=dict)
    standby_hosts: Mapping[HostInfo, tuple[TopicPartition, ...]] = field(default_factory=dict)
    warmup: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    hosts: Mapping[HostInfo, tuple[TopicPartition, ...]] = field(default_factory=dict)


class StreamsAssignor:
    """The assignor of one Kafka Streams consumer.

    member_id: of the consumer. wall_ms: the time of the present step.
    offset_sums: the process's local state by task (`TaskOffsetSums`), as reported in the
    incarnation `sums_incarnation`.
    used: the metadata version of the next subscription. error: the code that it carries.
    tasks: the last assignment. notes: warnings for the log of the present step.
    """

    name = NAME

    def __init__(
        self, settings: StreamsSettings, incarnation: Callable[[], int] = lambda: 0
    ) -> None:
        """Begin without tasks, at the metadata version that release and upgrade.from imply.

        incarnation: a function that returns the member's present incarnation.
        """
        self.settings = settings
        self._incarnation = incarnation
        self.rebalances: tuple[Rebalance, ...] = (
            (Rebalance.EAGER,)
            if is_eager(settings.release, settings.upgrade_from)
            else (Rebalance.COOPERATIVE, Rebalance.EAGER)
        )
        self.member_id = ""
        self.wall_ms = 0
        self.offset_sums: Mapping[TaskId, int] = {}
        self.sums_incarnation = 0
        self.used = initial_metadata_version(settings.release, settings.upgrade_from)
        self.error = AssignorError.NONE
        self.tasks = TaskShare()
        self.notes: list[str] = []
        self._sent_version = self.used
        self.rejoins_with_newer_version = False
        self._unique = 0
        self._was_left_out = False  # its endpoint, of the hosts in the last assignment
        self._missing: tuple[str, ...] = ()  # of the source topics, when it assigned last
        # as the leader it has assigned in a lower version than all members support
        self._leads_unfinished = False

    def forget_shutdown(self) -> None:
        """Forget a shutdown request (KIP-671), since the membership is over."""
        self.error = AssignorError.NONE

    # the member's subscription

    def user_data(self, topics: tuple[str, ...]) -> bytes:
        """Return the encoded SubscriptionInfo for JoinGroup, in the version that the group uses.

        From version 8 on, no two in a row are equal (`uniqueField`): the coordinator would answer
        an unchanged JoinGroup with the present assignment.
        """
        settings = self.settings
        self._unique = (self._unique + 129) % 256 - 128  # the next int8, after 127 comes -128
        # The answer is judged by the version of this subscription, though `used` may change before
        # it comes.
        self._sent_version, self._leads_unfinished, self._missing = self.used, False, ()
        # versions 1 and 2 have no field for the newest supported version
        supported = -1 if self.used < 3 else settings.release.newest_version
        return encode_subscription(
            SubscriptionInfo(
                used=self.used,
                supported=supported,
                process_id=settings.process_id,
                endpoint=settings.endpoint,
                offset_sums=self._offset_sums_to_report(),
                unique=self._unique,
                error=self.error,
                tags=settings.tags,
            )
        )

    def _offset_sums_to_report(self) -> Mapping[TaskId, int]:
        """Return the task offset sums for JoinGroup.

        Tasks that ran in an earlier incarnation no longer run. Cooperative members of 2.4 and 2.5
        report running tasks by their owned partitions alone.
        """
        has_sums = (
            self.settings.release.newest_version >= OFFSET_SUMS_SINCE
            or Rebalance.COOPERATIVE not in self.rebalances
        )
        if has_sums and self.sums_incarnation == self._incarnation():
            return self.offset_sums
        return {task: offset for task, offset in self.offset_sums.items() if offset != RUNNING}

    # the leader's assignment

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> Generator[Any, Any, dict[str, Given]]:
        """Assign the tasks of a Streams group, as its leader; yield queries to the cluster.

        A member that cannot be decoded or has another topology's topics is assigned nothing.
        """
        settings = self.settings
        source_topics = settings.topology.source_topics
        consumers = {
            member: self._decode_member(member, subscription, source_topics)
            for member, subscription in sorted(members.items())
        }
        leader = LeaderSettings(
            member_id=self.member_id,
            topology=settings.topology,
            release=settings.release,
            assignor=settings.assignor,
            configs=settings.policy,
            probing_interval_ms=settings.probing_interval_ms,
        )
        partition_counts = {name: shape.partitions for name, shape in cluster.items()}
        plan: GroupAssignment = yield from assign_as_leader(
            leader, partition_counts, consumers, self.wall_ms
        )
        self.notes += plan.notes
        self._missing = plan.missing
        self._leads_unfinished = plan.upgrade_pending
        return {member: _encode_given(own) for member, own in plan.assignments.items()}

    def _decode_member(
        self, member: str, subscription: Subscription, source_topics: tuple[str, ...]
    ) -> ConsumerMetadata:
        """Decode one consumer's Streams metadata, for the leader.

        source_topics: those that it has to subscribe to.
        """
        release = self.settings.release
        # eager releases ignore owned partitions
        parts = subscription.owned if release.cooperative else ()
        owned = tuple(
            TopicPartition(topic, number) for topic, numbers in parts for number in numbers
        )
        missing = (
            [topic for topic in source_topics if topic not in subscription.topics]
            if subscription.topics != source_topics
            else []
        )
        if missing:
            self.notes.append(
                f"{member} is assigned nothing: it does not subscribe to {missing[0]}, "
                "as this topology does"
            )
        try:
            # `latest` is the simulated release's, so an old leader meets the same versions from the
            # future as the real one.
            info = decode_subscription(subscription.user_data or b"", latest=release.newest_version)
        except DecodeError as error:
            self.notes.append(f"{member} is assigned nothing: {error}")
            # Its owned partitions count all the same: they are withheld from the others until it
            # has released them.
            return ConsumerMetadata(None, owned)
        return ConsumerMetadata(info, owned, subscribes_to_topology=not missing)

    # the member's assignment

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        """Take the tasks that SyncGroup assigned; return a FollowUp if a rebalance must follow.

        Returns a MemberFailure if the leader assigned an error code. Raises Refused for an
        assignment that is no valid AssignmentInfo, which ends the membership.
        """
        if not given.user_data:
            why = (
                "the group assigns partitions and no tasks: it is a group of ordinary consumers, "
                "not of Kafka Streams"
                if given.partitions
                else "the group's leader has sent this member no assignment"
            )
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, why)
        try:
            info = decode_assignment(given.user_data, latest=self.settings.release.newest_version)
        except DecodeError as error:
            raise Refused(
                Code.INVALID_REQUEST, f"the leader's assignment of tasks cannot be decoded: {error}"
            ) from error
        if isinstance(info, FutureInfo):
            why = (
                f"the leader uses metadata version {info.used}, and this member supports "
                f"{self.settings.release.newest_version}"
            )
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, why)
        # Before the versions: an error assignment may be in a version that says nothing about an
        # upgrade.
        if info.error == AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA:
            self.tasks = TaskShare()
            return missing_sources(self.settings.topology, self._missing)
        if info.error in ENDS:
            self.tasks = TaskShare()
            return ENDS[AssignorError(info.error)]
        release, received = self.settings.release, MetadataVersions(info.used, info.supported)
        # KIP-268: the group may use a higher version once all members support it
        step = next_subscription_version(
            self._sent_version, received, release, self._leads_unfinished
        )
        self.used = step.used
        self.rejoins_with_newer_version = (
            step.rejoin_reason is not None and step.used > self._sent_version
        )
        self.tasks = TaskShare(
            generation,
            info.used,
            _active_tasks(given.partitions, info),
            info.standby,
            info.active_hosts,
            info.standby_hosts,
        )
        if step.rejoin_reason is not None:
            return FollowUp(0, step.rejoin_reason)
        # Kafka Streams' order: an unknown endpoint, then the time that the leader set.
        was_left_out = self._was_left_out
        self._was_left_out = self._leaves_endpoint_out(info)
        # Once only: a leader that leaves the endpoint out again would otherwise make this member
        # rejoin for ever.
        if self._was_left_out and not was_left_out:
            return FollowUp(0, f"the group does not know {self.settings.endpoint} yet")
        return _planned_follow_up_or_none(info)

    def _leaves_endpoint_out(self, info: AssignmentInfo) -> bool:
        """Return whether an assignment that names hosts leaves this process's endpoint out."""
        host = host_or_none(self.settings.endpoint)
        return host is not None and bool(info.active_hosts) and host not in info.active_hosts


def _planned_follow_up_or_none(info: AssignmentInfo) -> FollowUp | None:
    """Return the rebalance that the leader has planned with an assignment; None if it has not."""
    if info.next_rebalance_ms is None:
        return None
    why = (
        "tasks wait for their previous owners to revoke them"
        if info.next_rebalance_ms == 0
        else "warm-up tasks may have caught up"
    )
    return FollowUp(info.next_rebalance_ms, why)


def _encode_given(assignment: ConsumerAssignment) -> Given:
    return Given(by_topic(assignment.partitions), encode_assignment(assignment.info))


def _active_tasks(
    parts: tuple[TopicParts, ...], info: AssignmentInfo
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Return the partitions that each active task of a Streams assignment reads.

    AssignmentInfo lists a task for each assigned partition, in the order of the partitions. Raises
    Refused if the counts differ.
    """
    partitions = [TopicPartition(topic, number) for topic, numbers in parts for number in numbers]
    # Kafka Streams refuses a mismatch as well: tasks and partitions are paired by position alone.
    if len(partitions) != len(info.active):
        why = (
            f"{len(partitions)} partitions and {len(info.active)} tasks were assigned: each "
            "partition must have one task"
        )
        raise Refused(Code.INVALID_REQUEST, why)
    active: dict[TaskId, tuple[TopicPartition, ...]] = {}
    for task, partition in zip(info.active, partitions, strict=True):
        active[task] = (*active.get(task, ()), partition)
    return active
