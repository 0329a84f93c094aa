"""How long Kafka Streams' assignment takes, ours and Kafka's.

200 processes run 10,000 tasks with a standby each, and one joins.

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

from apportion.assign.by_name import ClusterTopics, Given, Subscription, TopicShape
from apportion.member.streams.assignor import StreamsAssignor, StreamsSettings
from apportion.rules import run_rule
from apportion.streams.metadata.codec import decode_assignment, encode_subscription
from apportion.streams.metadata.model import LATEST, RUNNING, FutureInfo, SubscriptionInfo
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


def problem_of_a_join(consumers: int) -> tuple[Tasks, ClientStates, AssignmentConfigs]:
    """Return the input of the assignor when a process joins those that run all tasks."""
    count = SUBTOPOLOGIES * PARTITIONS
    subtopology, partition = (
        each.astype(np.int32) for each in np.divmod(np.arange(count), PARTITIONS)
    )
    tasks = Tasks(subtopology, partition, np.ones(count, np.bool_), np.full(count, END, np.int64))
    no_numbers = np.empty(0, np.int32)
    no_flags = np.empty(0, np.bool_)
    clients = ClientStates(
        consumer_counts(PROCESSES, consumers),
        ({},) * PROCESSES,
        no_numbers,
        no_numbers,
        np.empty(0, np.int64),
        no_flags,
        no_flags,
    )
    assigned = high_availability(tasks, clients, POLICY)
    process = np.append(assigned.active, assigned.standby[:, 0])
    task = np.append(np.arange(count, dtype=np.int32), assigned.standby[:, 1])
    runs = np.arange(2 * count) < count
    lag = np.where(runs, 0, np.random.default_rng(1).integers(0, LAG, 2 * count))
    order = np.lexsort((task, process))
    clients = ClientStates(
        consumer_counts(PROCESSES + 1, consumers),
        ({},) * (PROCESSES + 1),
        process[order],
        task[order],
        lag[order],
        runs[order],
        runs[order],
    )
    return tasks, clients, POLICY


def consumer_counts(processes: int, consumers: int) -> Any:
    """Return the number of consumers of each process."""
    return np.full(processes, consumers, np.int32)


def milliseconds(problem: tuple[Tasks, ClientStates, AssignmentConfigs], times: int = 15) -> float:
    """Return the median time of our assignor, after one call that does not count."""
    high_availability(*problem)
    times_ms = []
    for _ in range(times):
        start = perf_counter()
        high_availability(*problem)
        times_ms.append((perf_counter() - start) * 1e3)
    return median(times_ms)


def whole_milliseconds(times: int = 5) -> float:
    """Return the median processor time of a leader, from subscriptions to assignments.

    The group adopts a first assignment; then a process joins.
    """
    topology = topology_of(
        [{"sources": [name], "changelogs": [f"{name}-changelog"]} for name in TOPICS]
    )
    assignor = StreamsAssignor(StreamsSettings(topology, process_id(0), policy=POLICY))
    assignor.member_id = member_id(0)
    cluster = {name: TopicShape(PARTITIONS) for name in TOPICS}
    subscriptions = {
        member_id(number): subscription_of(number, Given()) for number in range(PROCESSES)
    }
    assignments = lead(assignor, cluster, subscriptions)
    subscriptions = {
        member_id(number): subscription_of(number, assignments.get(member_id(number), Given()))
        for number in range(PROCESSES + 1)
    }
    times_ms = []
    for _ in range(times):
        start = process_time()
        assigned = lead(assignor, cluster, subscriptions)
        times_ms.append((process_time() - start) * 1e3)
    read = sum(len(numbers) for share in assigned.values() for _, numbers in share.partitions)
    assert read == SUBTOPOLOGIES * PARTITIONS, read
    return median(times_ms)


def lead(
    assignor: StreamsAssignor, cluster: ClusterTopics, subscriptions: dict[str, Subscription]
) -> dict[str, Given]:
    """Return the assignment that the leader computes.

    Its queries are answered: every topic has its partitions, every changelog ends at END.
    """

    def answer(query: Any) -> dict[Any, int]:
        if isinstance(query, CreateInternalTopics):
            return {topic.name: topic.partitions for topic in query.topics}
        return dict.fromkeys(query.partitions, END)

    return run_rule(assignor.assign(cluster, subscriptions), answer)


def subscription_of(number: int, assignments: Given) -> Subscription:
    """Return the subscription of a process with this assignment; standby tasks lag a little."""
    info = decode_assignment(assignments.user_data) if assignments.user_data else None
    assert not isinstance(info, FutureInfo)
    sums = (
        {}
        if info is None
        else dict.fromkeys(info.active, RUNNING) | dict.fromkeys(info.standby, END - LAG)
    )
    user_data = encode_subscription(
        SubscriptionInfo(LATEST, LATEST, process_id(number), offset_sums=sums)
    )
    return Subscription(TOPICS, user_data, assignments.partitions)


def member_id(number: int) -> str:
    """Return the id of a member."""
    return f"member-{number:03}"


def process_id(number: int) -> bytes:
    """Return the id of a process, 16 bytes."""
    return number.to_bytes(16, "big")


def java_milliseconds_or_none(
    problem: tuple[Tasks, ClientStates, AssignmentConfigs],
) -> float | None:
    """Return the median time of Kafka's assignor; None without Java or Maven."""
    try:
        with TaskOracle("-Xmx2g") as java:
            return median(java.timed("highavailability", problem, 5)[1][2:])
    except KafkaMissing:
        return None


def row(name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    """Return a row of the table, lower being better."""
    return {"name": name, "value": value, "unit": unit, "target": target, "better": "lower"}


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    problem = problem_of_a_join(1)
    ours_ms, four_consumers_ms = milliseconds(problem), milliseconds(problem_of_a_join(4))
    rows = [
        row("streams_assign_ms", ours_ms, "ms", TARGET_MS),
        row("streams_assign_4_ms", four_consumers_ms, "ms", TARGET_MS),
    ]
    rows.append(row("streams_assign_whole_ms", whole_milliseconds(), "ms", TARGET_MS))
    java_ms = java_milliseconds_or_none(problem)
    if java_ms is not None:
        rows += [
            row("streams_assign_java_ms", java_ms, "ms", None),
            row("streams_assign_ratio", ours_ms / java_ms, "", 1),
        ]
    return rows
