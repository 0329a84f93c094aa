"""Requests, responses and members of the scripts about Streams members of KIP-848 groups."""

from typing import Any

from apportion.errors import Code
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    MetadataFetched,
    QueryAnswered,
    SendToCoordinator,
    Subscribe,
    to_id_parts,
)
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.client_side_machine import (
    ClientSideStreamsMember,
)
from apportion.member.streams.machine import TaskOffsetSums
from apportion.streams.client_side import hash_of_topology
from apportion.streams.metadata.kip848 import (
    Kip848ActiveTask,
    Kip848AssignmentMetadata,
    Kip848MemberMetadata,
    Kip848Replica,
    Kip848TaskLag,
    Kip848TopicPartitions,
)
from apportion.streams.metadata.model import TaskId
from apportion.streams.queries import ListEndOffsets
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition
from apportion.wire.codec import write
from apportion.wire.messages.consumer_group_heartbeat import Assignment
from tests.member.computing_messages import (
    heard,
    offer,
    refused_computation,
)
from tests.member.consumer_messages import T, accepted, at, full

COUNTING = topology_of([{"sources": ["t"], "changelogs": ["log"]}])
PROCESS = b"p" * 16


def metadata(lags: dict[int, int] | None = None, topology: Any = COUNTING) -> bytes:
    """The member's metadata with these lags, by partition."""
    said = Kip848MemberMetadata(
        process_id=PROCESS,
        topology_hash=hash_of_topology(topology),
        task_lags=tuple(
            Kip848TaskLag(subtopology=0, partition=number, lag=lag)
            for number, lag in sorted((lags or {}).items())
        ),
    )
    return write(said, 0)


def offers(
    lags: dict[int, int] | None = None, reason: int = 0, topology: Any = COUNTING
) -> dict[str, Any]:
    said = metadata(lags, topology)
    return {"client_assignors": offer(said, name="stream", reason=reason)}


def replica(number: int) -> Kip848Replica:
    sources = (Kip848TopicPartitions(topic="t", partitions=(number,)),)
    return Kip848Replica(subtopology=0, partition=number, sources=sources)


def tasks(*active: int, topology: Any = COUNTING, **copies: Any) -> bytes:
    """The assignment metadata with these tasks of a topology."""
    lists: dict[str, Any] = {role: tuple(map(replica, numbers)) for role, numbers in copies.items()}
    run = tuple(Kip848ActiveTask(subtopology=0, partition=number) for number in active)
    hashed = hash_of_topology(topology)
    return write(Kip848AssignmentMetadata(active_tasks=run, topology_hash=hashed, **lists), 0)


def assigned(epoch: int, *partitions: Any, said: bytes = b"", error: int = 0) -> Any:
    return heard(
        epoch,
        Assignment(topic_partitions=to_id_parts(partitions), error=error, metadata=said),
    )


def share(
    epoch: int, *active: int, standby: tuple[int, ...] = (), warmup: tuple[int, ...] = ()
) -> TaskShare:
    roles = [
        {TaskId(0, number): (TopicPartition("t", number),) for number in numbers}
        for numbers in (active, standby, warmup)
    ]
    return TaskShare(epoch, 0, roles[0], roles[1], warmup=roles[2])


def looking(**settings: Any) -> ClientSideStreamsMember:
    """A member that asks whether the broker has client-side assignors (request 2)."""
    configs = AssignmentConfigs(acceptable_recovery_lag=10)
    member = ClientSideStreamsMember(
        StreamsSettings(COUNTING, PROCESS, policy=configs),
        ConsumerSettings(group_id="g", member_id="m", rebalance_timeout_ms=60_000, **settings),
    )
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    return member


def joining(**settings: Any) -> ClientSideStreamsMember:
    """A member whose join is in flight (request 3)."""
    member = looking(**settings)
    joins = member.step(Answered(2, refused_computation(Code.GROUP_ID_NOT_FOUND)), at(0))
    assert joins == [SendToCoordinator(3, full(0, **offers()), 5_000)]
    return member


def running(
    *active: Any, said: bytes | None = None, epoch: int = 1, **settings: Any
) -> ClientSideStreamsMember:
    """A STABLE member that has adopted these partitions (requests 1 to 5), nothing in flight."""
    member = joining(**settings)
    said = tasks(*(each.partition for each in active)) if said is None else said
    member.step(Answered(3, assigned(epoch, *active, said=said)), at(0))
    if active:
        member.step(MetadataFetched(4, (TopicDescription("t", T, 3),)), at(0))
        member.step(Adopted(1, active), at(0))
        member.step(Answered(5, accepted(epoch, unchanged=True)), at(0))
    return member


def ends(*partitions: int) -> ListEndOffsets:
    return ListEndOffsets(tuple(TopicPartition("log", number) for number in partitions))


def answer(request_id: int, *partitions: int, end: int = 100) -> QueryAnswered:
    return QueryAnswered(request_id, {TopicPartition("log", number): end for number in partitions})


def sums(offset_sums: dict[int, int], incarnation: int = 1) -> TaskOffsetSums:
    return TaskOffsetSums(
        {TaskId(0, number): total for number, total in offset_sums.items()}, incarnation
    )
