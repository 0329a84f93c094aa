"""The assignor named "stream" of a consumer group: a Streams member's part in KIP-848's chapter.

The assignor translates the metadata of KIP-848's Streams chapter to the values of `streams/` and
back, and keeps what the member's next heartbeat has to carry. `streams/client_side.py` decides the
assignment. Apache Kafka never shipped client-side assignors, and its own Streams groups (KIP-1071)
have the broker assign tasks; so this runs on apportion's broker alone.

The chapter lets a member change the topology hash and the lags in its metadata only with a reason,
which asks for a new assignment. So the metadata stay as they were sent until `update`.

A member whose topology is changed runs the tasks of the older one until those of the newer are
assigned. Till then it may still be told of the older plan: a target that was on its way, the next
partitions of one, or the target that stays while topologies differ. So each assignment names its
topology by the hash, and the member remembers those that it ran.
"""

from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from typing import Any

from apportion.assign.by_name import ClusterTopics, Given, Subscription, by_topic
from apportion.errors import Code, DecodeError, Refused
from apportion.member.assignors.interface import MemberFailure, Rebalance
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.missing_sources import missing_sources
from apportion.streams.client_side import (
    AssignableInstance,
    ClientSideSettings,
    InstanceTasks,
    assign_client_side,
    hash_of_topology,
)
from apportion.streams.metadata.kip848 import (
    VERSION,
    AssignmentError,
    Kip848AssignmentMetadata,
    Kip848ClientTag,
    Kip848MemberMetadata,
    Kip848Replica,
    Kip848TaskLag,
    Kip848TopicPartitions,
    Reason,
    is_allowed_update,
)
from apportion.streams.metadata.model import HostInfo, TaskId
from apportion.streams.topology import Topology
from apportion.topics import TopicPartition
from apportion.wire.codec import read_whole, write
from apportion.wire.fields import replaced

NAME = "stream"

ENDS = {
    AssignmentError.SHUTDOWN: MemberFailure(
        Code.INVALID_REQUEST, "an instance has asked all instances to shut down"
    ),
    AssignmentError.ASSIGNMENT_ERROR: MemberFailure(
        Code.INVALID_REQUEST,
        "the tasks could not be assigned; the log of the instance that tried says why",
    ),
}
"""The errors of an assignment that end every member, by the error with which it ends.

`missing_sources` has the one of source topics that do not exist.
"""
ERRORS_THAT_END_NOBODY: dict[int, str] = {
    AssignmentError.INCONSISTENT_TOPOLOGY: (
        "instances run different topologies, and tasks are assigned again once all run the same: "
        "finish the rolling change, or stop the instance that the log of the one that assigned "
        "names"
    ),
}
"""The meaning of each error that ends nobody."""
WITHOUT_TASKS = (
    "the assignment has partitions and no tasks, as a member without the assignor 'stream' is in "
    "the group, or the broker was started again"
)
UNKNOWN_TOPOLOGY = "the assignment has tasks of a topology that this instance does not run"


class ClientSideStreamsAssignor:
    """The assignor of one Kafka Streams consumer in a consumer group (KIP-848).

    settings: of the process; those of version probing mean nothing here. tasks: of the last
    assignment. notes: warnings for the member's log; those of `assign` come from another thread.
    is_unfinished: `assign` could not see all it needed, so the group has to be assigned anew.
    is_changing: the topology was changed, and no tasks of it are assigned yet.
    is_of_unknown_topology: the tasks of the last assignment are of a topology that this member does
    not run and did not run before.
    """

    name = NAME
    # The coordinator keeps a partition from its new owner until the older one has released it, so
    # nothing has to be withheld.
    rebalances: tuple[Rebalance, ...] = (Rebalance.EAGER,)

    def __init__(self, settings: StreamsSettings) -> None:
        """Begin without tasks."""
        self.settings = settings
        self.tasks = TaskShare()
        self.notes: deque[str] = deque()
        self.is_unfinished = self.is_changing = self.is_of_unknown_topology = False
        self._missing: tuple[str, ...] = ()  # of the source topics, when it assigned last
        self._topologies = {hash_of_topology(settings.topology): settings.topology}
        self._metadata = Kip848MemberMetadata(
            process_id=settings.process_id,
            user_endpoint=settings.endpoint.encode(),
            client_tags=tuple(
                Kip848ClientTag(key=key, value=value) for key, value in settings.tags.items()
            ),
            topology_hash=hash_of_topology(settings.topology),
        )

    # the member's metadata

    def user_data(self, topics: tuple[str, ...]) -> bytes:
        """Return the encoded metadata of the member."""
        return write(self._metadata, VERSION)

    def begin_membership(self, lags: Mapping[TaskId, int]) -> None:
        """Have no tasks, and new metadata for the next join."""
        self.tasks, self._missing = TaskShare(), ()
        self._forget_older_topologies()
        self._metadata = self._present_metadata(lags)

    def update(self, reason: Reason, lags: Mapping[TaskId, int]) -> None:
        """Change the metadata to the present topology and to these lags.

        reason: the one that the member sends with them, any but NONE.
        """
        metadata = self._present_metadata(lags)
        assert is_allowed_update(self._metadata, metadata, reason)
        self._metadata = metadata

    def _present_metadata(self, lags: Mapping[TaskId, int]) -> Kip848MemberMetadata:
        return replaced(
            self._metadata,
            topology_hash=hash_of_topology(self.settings.topology),
            task_lags=tuple(
                Kip848TaskLag(subtopology=task.subtopology, partition=task.partition, lag=lag)
                for task, lag in sorted(lags.items())
            ),
        )

    def change_topology(self, topology: Topology) -> None:
        """Run another topology from now on; `update` tells the group."""
        self.settings = replace(self.settings, topology=topology)
        self._topologies[hash_of_topology(topology)] = topology
        self.is_changing = True

    def _forget_older_topologies(self) -> None:
        topology = self.settings.topology
        self._topologies = {hash_of_topology(topology): topology}
        self.is_changing = False

    # the group's assignment

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> Generator[Any, Any, dict[str, Given]]:
        """Assign the tasks of a Streams group, as the member that is chosen for it."""
        settings = self.settings
        self.is_unfinished = False
        plan = yield from assign_client_side(
            ClientSideSettings(settings.topology, settings.assignor, settings.policy),
            {name: shape.partitions for name, shape in cluster.items()},
            {member: _instance(each) for member, each in sorted(members.items())},
        )
        self.notes.extend(plan.notes)
        self.is_unfinished, self._missing = plan.is_fallback, plan.missing
        return {
            member: _encode_given(tasks, plan.error) for member, tasks in plan.assignments.items()
        }

    # the member's assignment

    def on_assignment(self, given: Given, generation: int) -> MemberFailure | None:
        """Take the tasks of an assignment; return a MemberFailure for an error that ends all.

        generation: the member's epoch. The coordinator hands partitions over one by one, so the
        tasks are those of which all partitions are there. Raises Refused for metadata that cannot
        be decoded.
        """
        if given.error == AssignmentError.MISSING_SOURCES:
            self.tasks = TaskShare()
            return missing_sources(self.settings.topology, self._missing)
        if given.error in ENDS:
            self.tasks = TaskShare()
            return ENDS[AssignmentError(given.error)]
        partitions = dict.fromkeys(
            TopicPartition(topic, number)
            for topic, numbers in given.partitions
            for number in numbers
        )
        self.is_of_unknown_topology = False
        if given.error:
            why = ERRORS_THAT_END_NOBODY.get(
                given.error, f"error {given.error}, which is unknown here"
            )
            self.notes.append(f"this instance goes on with its older assignment: {why}")
        metadata = _decode_tasks(given.user_data) if given.user_data else None
        if (
            metadata is not None
            and (topology := self._topologies.get(bytes(metadata.topology_hash))) is not None
        ):
            self._take_tasks(partitions, generation, metadata, topology)
            return None
        self.is_of_unknown_topology = metadata is not None
        held = {each for read in self.tasks.active.values() for each in read}
        # A broker that was started again tells no tasks beside an older target: nothing is new
        # while a member gives up what it still has.
        if not given.error and not held.issuperset(partitions):
            why = WITHOUT_TASKS if metadata is None else UNKNOWN_TOPOLOGY
            self.notes.append(f"this instance goes on with the tasks that it has: {why}")
        self._keep_tasks(partitions, generation)
        return None

    def _keep_tasks(self, partitions: Mapping[TopicPartition, None], generation: int) -> None:
        """Keep the tasks of the last assignment whose partitions the member still has."""
        self.tasks = replace(
            self.tasks,
            generation=generation,
            active={
                task: read
                for task, read in self.tasks.active.items()
                if all(partition in partitions for partition in read)
            },
        )

    def _take_tasks(
        self,
        partitions: Mapping[TopicPartition, None],
        generation: int,
        metadata: Kip848AssignmentMetadata,
        topology: Topology,
    ) -> None:
        if topology == self.settings.topology:
            self._forget_older_topologies()
        self.tasks = TaskShare(
            generation,
            VERSION,
            _complete_tasks(topology, partitions, metadata),
            _copies(metadata.standby_tasks),
            warmup=_copies(metadata.warmup_tasks),
            hosts={
                HostInfo(each.host, each.port): _partitions(each.partitions)
                for each in metadata.partitions_by_host
            },
        )


def _decode_tasks(user_data: bytes) -> Kip848AssignmentMetadata:
    try:
        return read_whole(Kip848AssignmentMetadata, VERSION, user_data)
    except DecodeError as error:
        raise Refused(
            Code.INVALID_REQUEST, f"the assignment of tasks cannot be decoded: {error}"
        ) from error


def _instance(member: Subscription) -> AssignableInstance:
    """Return a member of a Streams group as it is described to the one that assigns."""
    try:
        metadata = read_whole(Kip848MemberMetadata, VERSION, member.user_data or b"")
        bytes(metadata.user_endpoint).decode()
    except (DecodeError, UnicodeDecodeError):
        metadata = None
    return AssignableInstance(
        member.topics,
        metadata,
        member.reason,
        tuple(
            TopicPartition(topic, number) for topic, numbers in member.owned for number in numbers
        ),
    )


def _encode_given(tasks: InstanceTasks, error: AssignmentError) -> Given:
    # With an error there are no tasks to tell of: the older target has its own, or the member ends.
    metadata = b"" if error else write(tasks.metadata, VERSION)
    return Given(by_topic(tasks.partitions), metadata, int(error))


def _complete_tasks(
    topology: Topology, partitions: Iterable[TopicPartition], metadata: Kip848AssignmentMetadata
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Return the active tasks of which a Streams member has every partition, with those.

    The metadata list a task for each partition of the member's target; the member may not have all
    of them yet.
    """
    readers = {
        topic: number
        for number, part in topology.subtopologies.items()
        for topic in part.source_topics
    }
    listed = Counter(TaskId(each.subtopology, each.partition) for each in metadata.active_tasks)
    there: dict[TaskId, tuple[TopicPartition, ...]] = {}
    for partition in sorted(partitions):
        if partition.topic in readers:
            task = TaskId(readers[partition.topic], partition.partition)
            there[task] = (*there.get(task, ()), partition)
    return {task: read for task, read in sorted(there.items()) if len(read) == listed[task]}


def _copies(
    replicas: Iterable[Kip848Replica],
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    return {
        TaskId(each.subtopology, each.partition): _partitions(each.sources) for each in replicas
    }


def _partitions(topics: Iterable[Kip848TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(each.topic, number) for each in topics for number in each.partitions
    )
