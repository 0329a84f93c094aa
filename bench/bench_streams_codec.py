"""What it costs to encode and decode Kafka Streams' metadata, version 11, with 1,000 tasks.

`streams_codec_ms`: a subscription, written and read. `..._named_ms`: where each task has the name
of a topology, so that its bytes are not of known size. `streams_assignment_codec_ms`: an assignment
of the tasks to ten hosts.
"""

from random import Random
from statistics import median
from time import thread_time
from typing import Any

from apportion.streams.metadata.codec import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from apportion.streams.metadata.model import (
    LATEST,
    RUNNING,
    AssignmentInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.topics import TopicPartition

TARGET_MS = 1
TASKS, SUBTOPOLOGIES, HOSTS = 1_000, 10, 10
TIMES, REPEATS = 50, 15


def milliseconds(call: Any) -> float:
    """Return the median of some runs, in CPU time of this thread."""
    times_ms = []
    for _ in range(REPEATS):
        start = thread_time()
        for _ in range(TIMES):
            call()
        times_ms.append((thread_time() - start) / TIMES * 1e3)
    return round(median(times_ms), 2)


def subscription(topology: str | None) -> SubscriptionInfo:
    """Return the subscription of a process with state of all tasks, a third of them active."""
    tasks = [
        TaskId(number % SUBTOPOLOGIES, number // SUBTOPOLOGIES, topology) for number in range(TASKS)
    ]
    Random(1).shuffle(tasks)
    sums = {task: number * 1_000 if number % 3 else RUNNING for number, task in enumerate(tasks)}
    return SubscriptionInfo(
        LATEST, LATEST, bytes(range(16)), "localhost:8080", sums, 1, tags={"zone": "a"}
    )


def assignment() -> AssignmentInfo:
    """Return the assignment of one consumer: a tenth of the tasks, and the hosts of all."""
    tasks = [TaskId(number % SUBTOPOLOGIES, number // SUBTOPOLOGIES) for number in range(TASKS)]
    sources = [TopicPartition(f"source-{task.subtopology}", task.partition) for task in tasks]
    hosts = {
        HostInfo(f"host-{number}", 8080): tuple(sources[number::HOSTS]) for number in range(HOSTS)
    }
    standby = {
        task: (source,) for task, source in zip(tasks[1::HOSTS], sources[1::HOSTS], strict=True)
    }
    return AssignmentInfo(LATEST, LATEST, tuple(tasks[::HOSTS]), standby, hosts, hosts)


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    plain, named, assigned = subscription(None), subscription("t"), assignment()
    rows = [
        (
            "streams_codec_ms",
            milliseconds(lambda: decode_subscription(encode_subscription(plain))),
            TARGET_MS,
        ),
        (
            "streams_codec_named_ms",
            milliseconds(lambda: decode_subscription(encode_subscription(named))),
            None,
        ),
        (
            "streams_assignment_codec_ms",
            milliseconds(lambda: decode_assignment(encode_assignment(assigned))),
            None,
        ),
    ]
    return [
        {"name": name, "value": value, "unit": "ms", "target": target, "better": "lower"}
        for name, value, target in rows
    ]
