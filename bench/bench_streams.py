"""How long Kafka Streams' assignment takes, beside Kafka's own: 200 processes run 10,000 tasks with
a standby each, and one joins.

`streams_assign_ms`: `highavailability` from arrays to arrays, one consumer a process;
`streams_assign_4_ms`: four.
`streams_assign_java_ms`: Kafka's own assignor on the first of these, by the harness of tests/kafka;
the median of calls after two that only warm up the JVM. Left out where there is no Java or no
Maven. `streams_assign_ratio` is ours by theirs.
`streams_assign_whole_ms`: all that a leader does for such a group, from the bytes of subscriptions
to those of assignments, in processor time.
"""

from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from apportion.member.assignors.interface import Cluster, Given, Subscription, TopicShape
from apportion.member.streams.assignor import StreamsAssignor, StreamsSettings
from apportion.streams.metadata.codec import decode_assignment, encode_subscription
from apportion.streams.metadata.model import LATEST, RUNNING, SubscriptionInfo
from apportion.streams.queries import CreateInternalTopics
from apportion.streams.task_assignment.client_states import AssignmentConfigs, ClientStates, Tasks
from apportion.streams.task_assignment.high_availability import high_availability
from apportion.streams.topology_parser import topology_of
from apportion.testing.kafka import KafkaMissing
from tests.kafka.streams_assignors.task_oracle import TaskOracle

PROCESSES, SUBTOPOLOGIES, PARTITIONS = 200, 10, 1_000
TOPICS = tuple(f"t{number}" for number in range(SUBTOPOLOGIES))
END, LAG = 1_000_000, 500
POLICY = AssignmentConfigs(num_standby_replicas=1)
TARGET_MS = 150


def joined(consumers: int) -> tuple[Tasks, ClientStates, AssignmentConfigs]:
    """The question that a leader has to answer when a process joins those that run everything."""
    count = SUBTOPOLOGIES * PARTITIONS
    subtopology, partition = (
        each.astype(np.int32) for each in np.divmod(np.arange(count), PARTITIONS)
    )
    tasks = Tasks(subtopology, partition, np.ones(count, np.bool_), np.full(count, END, np.int64))
    nothing = np.empty(0, np.int32)
    nobody = np.empty(0, np.bool_)
    crew = ClientStates(
        each_with(PROCESSES, consumers),
        ({},) * PROCESSES,
        nothing,
        nothing,
        np.empty(0, np.int64),
        nobody,
        nobody,
    )
    shares = high_availability(tasks, crew, POLICY)
    process = np.append(shares.active, shares.standby[:, 0])
    task = np.append(np.arange(count, dtype=np.int32), shares.standby[:, 1])
    runs = np.arange(2 * count) < count
    lag = np.where(runs, 0, np.random.default_rng(1).integers(0, LAG, 2 * count))
    order = np.lexsort((task, process))
    rows = (each[order] for each in (process, task, lag, runs, runs))
    return (
        tasks,
        ClientStates(each_with(PROCESSES + 1, consumers), ({},) * (PROCESSES + 1), *rows),
        POLICY,
    )


def each_with(processes: int, consumers: int) -> Any:
    """The consumers of that many processes."""
    return np.full(processes, consumers, np.int32)


def milliseconds(question: tuple[Tasks, ClientStates, AssignmentConfigs], times: int = 15) -> float:
    """The median time of our answer, after one that does not count."""
    high_availability(*question)
    spent = []
    for _ in range(times):
        start = perf_counter()
        high_availability(*question)
        spent.append((perf_counter() - start) * 1e3)
    return median(spent)


def whole_milliseconds(times: int = 5) -> float:
    """The median of processor time from bytes to bytes: a group is led, adopts that, and is led
    again with a process more.
    """
    topology = topology_of(
        [{"sources": [name], "changelogs": [f"{name}-changelog"]} for name in TOPICS]
    )
    assignor = StreamsAssignor(StreamsSettings(topology, process_id(0), policy=POLICY))
    assignor.member_id = member_id(0)
    cluster = {name: TopicShape(PARTITIONS) for name in TOPICS}
    said = {member_id(number): told(number, Given()) for number in range(PROCESSES)}
    given = led(assignor, cluster, said)
    said = {
        member_id(number): told(number, given.get(member_id(number), Given()))
        for number in range(PROCESSES + 1)
    }
    spent = []
    for _ in range(times):
        start = process_time()
        shares = led(assignor, cluster, said)
        spent.append((process_time() - start) * 1e3)
    read = sum(len(numbers) for share in shares.values() for _, numbers in share.partitions)
    assert read == SUBTOPOLOGIES * PARTITIONS, read
    return median(spent)


def led(
    assignor: StreamsAssignor, cluster: Cluster, said: dict[str, Subscription]
) -> dict[str, Given]:
    """What the leader gives everybody; every topic has its partitions, and every changelog ends at
    END.
    """
    asking, answer = assignor.assign(cluster, said), None
    try:
        while True:
            question = asking.send(answer)
            if isinstance(question, CreateInternalTopics):
                answer = {topic.name: topic.partitions for topic in question.topics}
            else:
                answer = dict.fromkeys(question.partitions, END)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def told(number: int, given: Given) -> Subscription:
    """What a process says that runs what it was given and is a little behind with its copies."""
    info = decode_assignment(given.user_data) if given.user_data else None
    sums = (
        {}
        if info is None
        else dict.fromkeys(info.active, RUNNING) | dict.fromkeys(info.standby, END - LAG)
    )
    user_data = encode_subscription(
        SubscriptionInfo(LATEST, LATEST, process_id(number), offset_sums=sums)
    )
    return Subscription(TOPICS, user_data, given.partitions)


def member_id(number: int) -> str:
    """Return the id of a member."""
    return f"member-{number:03}"


def process_id(number: int) -> bytes:
    """Return the id of a process, 16 bytes."""
    return number.to_bytes(16, "big")


def java_milliseconds_or_none(
    question: tuple[Tasks, ClientStates, AssignmentConfigs],
) -> float | None:
    """The median time of Kafka's answer."""
    try:
        with TaskOracle("-Xmx2g") as java:
            return median(java.timed("highavailability", question, 5)[1][2:])
    except KafkaMissing:
        return None


def row(name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    """Return a row of the table, lower being better."""
    return {"name": name, "value": value, "unit": unit, "target": target, "better": "lower"}


def run() -> list[dict[str, Any]]:
    """The rows of `make bench`."""
    question = joined(1)
    ours, four = milliseconds(question), milliseconds(joined(4))
    rows = [
        row("streams_assign_ms", ours, "ms", TARGET_MS),
        row("streams_assign_4_ms", four, "ms", TARGET_MS),
    ]
    rows.append(row("streams_assign_whole_ms", whole_milliseconds(), "ms", TARGET_MS))
    theirs = java_milliseconds_or_none(question)
    if theirs is not None:
        rows += [
            row("streams_assign_java_ms", theirs, "ms", None),
            row("streams_assign_ratio", ours / theirs, "", 1),
        ]
    return rows
