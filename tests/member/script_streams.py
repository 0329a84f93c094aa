"""The Streams members of the scripts: their events, and their metadata as words.

A task is written as Kafka Streams writes it: 0_1 is the task of partition 1 of subtopology 0.
"""

from collections.abc import Iterable
from typing import Any

from apportion.errors import DecodeError
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import QueryAnswered
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.client_side_machine import (
    ChangeTopology,
    ClientSideStreamsMember,
    WarmUpFailed,
)
from apportion.member.streams.machine import ShutDownApplication, TaskOffsetSums
from apportion.streams.client_side import hash_of_topology
from apportion.streams.metadata.kip848 import (
    Kip848ActiveTask,
    Kip848AssignmentMetadata,
    Kip848MemberMetadata,
    Kip848Replica,
    Kip848TopicPartitions,
)
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition
from apportion.wire.codec import read_whole, write
from apportion.wire.fields import replaced

PROCESS = b"p" * 16
END = 100  # of each changelog, in the answers of `ends`


def topology(word: str) -> Topology:
    """The topology of one subtopology, as its source topic and changelog: t/log, or t alone."""
    source, _, changelog = word.partition("/")
    one: dict[str, Any] = {"sources": [source]}
    return topology_of([one | ({"changelogs": [changelog]} if changelog else {})])


COUNTING = topology("t/log")
KNOWN = {hash_of_topology(topology(word)): word for word in ("t/log", "t/other", "t", "more")}


def streams_member(settings: dict[str, Any]) -> ClientSideStreamsMember:
    """A member that runs COUNTING; a copy with a lag of up to 10 has caught up."""
    policy = AssignmentConfigs(acceptable_recovery_lag=10)
    return ClientSideStreamsMember(
        StreamsSettings(COUNTING, PROCESS, policy=policy),
        ConsumerSettings(group_id="g", member_id="m", **settings),
    )


def streams_event(words: list[str]) -> Any:
    """What only a Streams member is told; None for other events."""
    match words:
        case ["state", *sums, "in", incarnation]:
            return TaskOffsetSums(offset_sums(sums), int(incarnation))
        case ["state", *sums]:
            return TaskOffsetSums(offset_sums(sums), 1)
        case ["warm-up", "failed", *tasks]:
            return WarmUpFailed(tuple(map(task, tasks)))
        case ["topology", word]:
            return ChangeTopology(topology(word))
        case ["shut", "down"]:
            return ShutDownApplication()
        case ["ends", number, *partitions]:
            logs = (TopicPartition("log", int(each)) for each in partitions)
            return QueryAnswered(int(number), dict.fromkeys(logs, END))
    return None


def offset_sums(words: Iterable[str]) -> dict[TaskId, int]:
    """0_0=running 0_1=95 as the offsets up to which the state of each task goes."""
    pairs = (word.partition("=") for word in words)
    return {task(name): RUNNING if sum_ == "running" else int(sum_) for name, _, sum_ in pairs}


def task(word: str) -> TaskId:
    subtopology, _, partition = word.partition("_")
    return TaskId(int(subtopology), int(partition))


def tasks_data(said: dict[str, str]) -> bytes:
    """The assignment metadata with the tasks in active=, standby= and warmup=, of topology=."""
    listed = {
        role: [task(word) for word in said.get(role, "").split(",") if word]
        for role in ("active", "standby", "warmup")
    }
    metadata = Kip848AssignmentMetadata(
        active_tasks=tuple(
            Kip848ActiveTask(subtopology=each.subtopology, partition=each.partition)
            for each in listed["active"]
        ),
        standby_tasks=tuple(map(replica, listed["standby"])),
        warmup_tasks=tuple(map(replica, listed["warmup"])),
        topology_hash=hash_of_topology(topology(said.get("topology", "t/log"))),
    )
    return write(metadata, 0)


def replica(copy: TaskId) -> Kip848Replica:
    sources = (Kip848TopicPartitions(topic="t", partitions=(copy.partition,)),)
    return Kip848Replica(subtopology=copy.subtopology, partition=copy.partition, sources=sources)


def process_data(letter: str) -> bytes:
    """The metadata of a member without state, of the process with that letter."""
    hashed = hash_of_topology(COUNTING)
    return write(Kip848MemberMetadata(process_id=letter.encode() * 16, topology_hash=hashed), 0)


def metadata_words_or_none(data: bytes) -> str | None:
    """The metadata of a Streams member or of its assignment, with the topology that they are of."""
    for kind in (Kip848MemberMetadata, Kip848AssignmentMetadata):
        try:
            said: Any = read_whole(kind, 0, data)
        except DecodeError:
            continue
        if said != only_known(said):
            return None
        parts = [KNOWN[said.topology_hash]]
        if kind is Kip848MemberMetadata:
            parts.append(f"process={said.process_id[:1].decode()}")
            parts += [f"{each.subtopology}_{each.partition}:{each.lag}" for each in said.task_lags]
        else:
            for role in ("active", "standby", "warmup"):
                tasks = [
                    f"{each.subtopology}_{each.partition}"
                    for each in getattr(said, f"{role}_tasks")
                ]
                parts += [f"{role}={','.join(tasks)}"] if tasks else []
        return f"({' '.join(parts)})"
    return None


def only_known(said: Any) -> Any:
    """The same metadata without the fields that have no words here."""
    unknown = {"user_endpoint": b"", "client_tags": (), "partitions_by_host": ()}
    names = {field.name for field in said.__fields__}
    return replaced(said, **{name: value for name, value in unknown.items() if name in names})


def share_words(share: TaskShare) -> str:
    """The tasks that a member has."""
    roles = {"active": share.active, "standby": share.standby, "warmup": share.warmup}
    named = [
        f"{role}={','.join(f'{each.subtopology}_{each.partition}' for each in tasks)}"
        for role, tasks in roles.items()
        if tasks
    ]
    return " ".join(["tasks of epoch", str(share.generation), *named])
