"""The assignor named "stream": a Kafka Streams member's part in the classic protocol.

It translates the group's bytes to the values of `streams/` and back, and remembers what must be
sent again: the metadata version that the group uses, the process's state of each task, and the last
assignment.
`streams/metadata/probing.py` decides the version (KIP-268), `streams/leader.py` the assignment.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.errors import Code, DecodeError, Refused
from apportion.member.assignors.interface import (
    Cluster,
    Farewell,
    FollowUp,
    Given,
    Rebalance,
    Subscription,
    TopicParts,
    by_topic,
)
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
    Release,
    initial_metadata_version,
    is_eager,
    known_release,
)
from apportion.streams.task_assignment.client_metadata import (
    OFFSET_SUMS_SINCE,
    ConsumerMetadata,
    host_or_none,
)
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.topics import TopicPartition

NAME = "stream"
NEWEST_RELEASE = "4.3"

ENDS = {
    AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA: Farewell(
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        "source topics are missing, of {sources}: make them, and start again",
    ),
    AssignorError.ASSIGNMENT_ERROR: Farewell(
        Code.INVALID_REQUEST, "the leader could not assign tasks; its log says why"
    ),
    AssignorError.SHUTDOWN_REQUESTED: Farewell(
        Code.INVALID_REQUEST, "an instance has asked all to shut down"
    ),
}
"""The errors of an assignment that end the member that hears them, and with what."""


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
    assignor: str = "highavailability"
    policy: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    probing_interval_ms: int = 600_000

    def __post_init__(self) -> None:
        initial_metadata_version(self.release, self.upgrade_from)
        if len(self.process_id) != 16:
            raise ValueError(f"process_id must be 16 bytes, not {len(self.process_id)}")
        host = host_or_none(self.endpoint)
        if self.endpoint and (host is None or host.port > 65_535):
            raise ValueError(f"application.server must be host:port, not {self.endpoint!r}")


@dataclass(frozen=True, slots=True)
class TaskShare:
    """The tasks assigned to one consumer: active tasks with the partitions they read, standby tasks
    likewise.

    generation: in which they were assigned; -1: none. used: the metadata version of that
    assignment.
    active_hosts, standby_hosts: which host answers interactive queries for which source partitions.
    """

    generation: int = -1
    used: int = -1
    active: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    standby: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    active_hosts: Mapping[HostInfo, tuple[TopicPartition, ...]] = field(default_factory=dict)
    standby_hosts: Mapping[HostInfo, tuple[TopicPartition, ...]] = field(default_factory=dict)


class StreamsAssignor:
    """The assignor of one Kafka Streams consumer.

    wall_ms: the time of the present step. offset_sums: the process's state, as reported in the
    incarnation `sums_incarnation`.
    """

    name = NAME

    def __init__(
        self, settings: StreamsSettings, incarnation: Callable[[], int] = lambda: 0
    ) -> None:
        """incarnation: returns the member's present incarnation."""
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
        self._unique = 0
        # it has joined again for its endpoint, which is still not known
        self._has_rejoined_for_endpoint = False
        # its plan for the present generation is in a lower version than all understand
        self._leads_unfinished = False

    def forget_shutdown(self) -> None:
        """Forget a shutdown request (KIP-671), since the membership is over."""
        self.error = AssignorError.NONE

    # what a member says

    def user_data(self, topics: tuple[str, ...]) -> bytes:
        """Return the encoded SubscriptionInfo, in the version that the group uses as far as is
        known.

        From version 8 on, no two in a row are equal (`uniqueField`): the coordinator would answer
        an unchanged JoinGroup with the present assignment.
        """
        settings = self.settings
        self._unique = (self._unique + 129) % 256 - 128
        self._sent_version, self._leads_unfinished = self.used, False
        supported = -1 if self.used < 3 else settings.release.newest_version
        return encode_subscription(
            SubscriptionInfo(
                used=self.used,
                supported=supported,
                process_id=settings.process_id,
                endpoint=settings.endpoint,
                offset_sums=self._sums(),
                unique=self._unique,
                error=self.error,
                tags=settings.tags,
            )
        )

    def _sums(self) -> Mapping[TaskId, int]:
        """Return the offset sums to report; tasks that ran in an earlier incarnation no longer run.

        Cooperative members of 2.4 and 2.5 report running tasks by their owned partitions alone.
        """
        may_say = (
            self.settings.release.newest_version >= OFFSET_SUMS_SINCE
            or Rebalance.COOPERATIVE not in self.rebalances
        )
        if may_say and self.sums_incarnation == self._incarnation():
            return self.offset_sums
        return {task: offset for task, offset in self.offset_sums.items() if offset != RUNNING}

    # what a leader does

    def assign(
        self, cluster: Cluster, members: Mapping[str, Subscription]
    ) -> Generator[Any, Any, dict[str, Given]]:
        """Assign all tasks, as the leader.

        A member that cannot be decoded or has another topology's topics gets nothing.
        """
        settings = self.settings
        wanted = settings.topology.source_topics
        said = {
            member: self._decode_member(member, subscription, wanted)
            for member, subscription in sorted(members.items())
        }
        mine = LeaderSettings(
            member_id=self.member_id,
            topology=settings.topology,
            release=settings.release,
            assignor=settings.assignor,
            configs=settings.policy,
            probing_interval_ms=settings.probing_interval_ms,
        )
        exist = {name: shape.partitions for name, shape in cluster.items()}
        plan: GroupAssignment = yield from assign_as_leader(mine, exist, said, self.wall_ms)
        self.notes += plan.notes
        self._leads_unfinished = plan.upgrade_pending
        return {member: _given(share) for member, share in plan.assignments.items()}

    def _decode_member(
        self, member: str, subscription: Subscription, wanted: tuple[str, ...]
    ) -> ConsumerMetadata:
        """Decode one consumer's metadata. wanted: the topics it has to read.

        Eager releases ignore owned partitions.
        """
        release = self.settings.release
        parts = subscription.owned if release.cooperative else ()
        owned = tuple(
            TopicPartition(topic, number) for topic, numbers in parts for number in numbers
        )
        missing = (
            [topic for topic in wanted if topic not in subscription.topics]
            if subscription.topics != wanted
            else []
        )
        if missing:
            self.notes.append(
                f"{member} gets nothing: it does not read {missing[0]}, as this topology does"
            )
        try:
            info = decode_subscription(subscription.user_data or b"", latest=release.newest_version)
        except DecodeError as error:
            self.notes.append(f"{member} gets nothing: {error}")
            return ConsumerMetadata(None, owned)
        return ConsumerMetadata(info, owned, subscribes_to_topology=not missing)

    # what a member hears

    def on_assignment(self, given: Given, generation: int) -> FollowUp | Farewell | None:
        """Take over the assigned tasks; return a FollowUp if another rebalance is needed.

        Returns a Farewell if the leader assigned an error code. Raises Refused for an assignment
        that cannot be.
        """
        if not given.user_data:
            told = (
                "the group hands out partitions and no tasks: it is none of Kafka Streams, "
                "but of ordinary consumers"
            )
            why = told if given.partitions else "the group's leader has no word for this member"
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, why)
        try:
            info = decode_assignment(given.user_data, latest=self.settings.release.newest_version)
        except DecodeError as error:
            raise Refused(
                Code.INVALID_REQUEST, f"what the leader told of tasks cannot be read: {error}"
            ) from error
        if isinstance(info, FutureInfo):
            why = (
                f"the leader speaks metadata version {info.used}, this member understands "
                f"{self.settings.release.newest_version}"
            )
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, why)
        if info.error in ENDS:
            code, why = ENDS[AssignorError(info.error)]
            self.tasks = TaskShare()
            return Farewell(
                code, why.format(sources=", ".join(self.settings.topology.external_topics))
            )
        release, heard = self.settings.release, MetadataVersions(info.used, info.supported)
        step = next_subscription_version(self._sent_version, heard, release, self._leads_unfinished)
        self.used = step.used
        self.tasks = TaskShare(
            generation,
            info.used,
            _active(given.partitions, info),
            info.standby,
            info.active_hosts,
            info.standby_hosts,
        )
        if step.rejoin_reason is not None:
            return FollowUp(0, step.rejoin_reason)
        if self._must_announce_endpoint(info):
            return FollowUp(0, f"the group does not know {self.settings.endpoint} yet")
        if info.next_rebalance_ms is None:
            return None
        why = (
            "tasks are on their way from their owners"
            if info.next_rebalance_ms == 0
            else "warm-ups may have caught up"
        )
        return FollowUp(info.next_rebalance_ms, why)

    def _must_announce_endpoint(self, info: AssignmentInfo) -> bool:
        """Return whether the group does not know this process's endpoint, and was not told in this
        rebalance.
        """
        host = host_or_none(self.settings.endpoint)
        unknown = host is not None and bool(info.active_hosts) and host not in info.active_hosts
        asks, self._has_rejoined_for_endpoint = (
            unknown and not self._has_rejoined_for_endpoint,
            unknown,
        )
        return asks


def _given(share: ConsumerAssignment) -> Given:
    return Given(by_topic(share.partitions), encode_assignment(share.info))


def _active(
    parts: tuple[TopicParts, ...], info: AssignmentInfo
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Return the partitions that each active task reads.

    Raises Refused unless each partition has a task.
    """
    places = [TopicPartition(topic, number) for topic, numbers in parts for number in numbers]
    if len(places) != len(info.active):
        why = (
            f"{len(places)} partitions were given and {len(info.active)} tasks named: each "
            "partition has its task"
        )
        raise Refused(Code.INVALID_REQUEST, why)
    active: dict[TaskId, tuple[TopicPartition, ...]] = {}
    for task, place in zip(info.active, places, strict=True):
        active[task] = (*active.get(task, ()), place)
    return active
