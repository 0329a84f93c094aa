from typing import Any

import numpy as np
import pytest

from apportion.streams.metadata.model import (
    OFFSET_UNKNOWN,
    RUNNING,
    FutureInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.streams.task_assignment.client_metadata import (
    FUTURE_PROCESS_ID,
    ClientMetadata,
    ConsumerMetadata,
    build_client_states,
    group_by_process,
    host_or_none,
    index_tasks,
    task_arrays,
)
from apportion.streams.task_assignment.client_states import ClientStates
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition

A, B = b"a" * 16, b"b" * 16
TOPOLOGY = topology_of([{"sources": ["x"]}, {"sources": ["y"], "changelogs": ["y-changelog"]}])
NUMBERS = index_tasks(TOPOLOGY.tasks({"x": 2, "y": 2}))
END = np.array([0, 0, 100, 50], np.int64)


def info(process: bytes, sums: dict[TaskId, int] | None = None, **rest: Any) -> SubscriptionInfo:
    return SubscriptionInfo(11, 11, process, offset_sums=sums or {}, **rest)


def rows(clients: ClientStates) -> list[tuple[int, int, int, bool]]:
    return list(
        zip(
            clients.process.tolist(),
            clients.task.tolist(),
            clients.lag.tolist(),
            clients.is_running.tolist(),
            strict=True,
        )
    )


def prior(clients: ClientStates) -> list[tuple[int, int]]:
    return [
        (int(process), int(task))
        for process, task, was in zip(
            clients.process, clients.task, clients.previously_active, strict=True
        )
        if was
    ]


def test_consumers_with_one_process_id_are_threads_of_one_process() -> None:
    consumers = {
        "b-1": ConsumerMetadata(info(B, endpoint="host:80", tags={"zone": "east"})),
        "a-2": ConsumerMetadata(info(A)),
        "a-1": ConsumerMetadata(info(A)),
        "new-1": ConsumerMetadata(FutureInfo(12, 12)),
        "new-2": ConsumerMetadata(FutureInfo(12, 12)),
    }
    assert group_by_process(consumers) == (
        ClientMetadata(FUTURE_PROCESS_ID, ("new-1", "new-2"), None, {}),
        ClientMetadata(A, ("a-1", "a-2"), None, {}),
        ClientMetadata(B, ("b-1",), HostInfo("host", 80), {"zone": "east"}),
    )


def test_the_lag_of_a_process_follows_from_its_offsets() -> None:
    consumers = {
        "a": ConsumerMetadata(info(A, {TaskId(1, 0): RUNNING, TaskId(1, 1): 45, TaskId(7, 7): 3})),
        "b": ConsumerMetadata(info(B, {TaskId(1, 0): OFFSET_UNKNOWN, TaskId(1, 1): 51})),
    }
    clients = build_client_states(group_by_process(consumers), consumers, NUMBERS, END)
    assert rows(clients) == [
        (0, 2, 0, True),
        (0, 3, 5, False),
        (1, 2, 100, False),
        (1, 3, 50, False),
    ]
    assert clients.consumer_counts.tolist() == [1, 1]


def test_of_several_threads_of_a_process_the_nearest_to_the_end_counts() -> None:
    consumers = {
        "a1": ConsumerMetadata(info(A, {TaskId(1, 0): 10})),
        "a2": ConsumerMetadata(info(A, {TaskId(1, 0): 90})),
    }
    assert rows(build_client_states(group_by_process(consumers), consumers, NUMBERS, END)) == [
        (0, 2, 10, False)
    ]


def test_the_owner_of_a_stateless_task_runs_it() -> None:
    consumers = {
        "a": ConsumerMetadata(
            info(A), owned_partitions=(TopicPartition("x", 0), TopicPartition("z", 0))
        )
    }
    assert rows(build_client_states(group_by_process(consumers), consumers, NUMBERS, END)) == [
        (0, 0, 0, True)
    ]


def test_an_owner_that_still_restores_a_task_has_the_lag_that_it_reports() -> None:
    consumers = {
        "a": ConsumerMetadata(
            info(A, {TaskId(1, 1): 3}),
            owned_partitions=(TopicPartition("y", 1), TopicPartition("y", 0)),
        )
    }
    clients = build_client_states(group_by_process(consumers), consumers, NUMBERS, END)
    assert rows(clients) == [(0, 2, 100, False), (0, 3, 47, False)]
    assert prior(clients) == [(0, 2), (0, 3)]


def test_a_process_has_to_run_the_task_that_one_of_its_threads_restores() -> None:
    consumers = {
        "a1": ConsumerMetadata(
            info(A, {TaskId(1, 1): 3}), owned_partitions=(TopicPartition("y", 1),)
        ),
        "a2": ConsumerMetadata(info(A, {TaskId(1, 0): 9, TaskId(1, 1): 5})),
    }
    clients = build_client_states(group_by_process(consumers), consumers, NUMBERS, END)
    assert rows(clients) == [(0, 2, 91, False), (0, 3, 45, False)]
    assert prior(clients) == [(0, 3)]


def test_before_version_7_who_owns_a_task_cannot_say_more_and_runs_it() -> None:
    consumers = {
        "a": ConsumerMetadata(SubscriptionInfo(6, 6, A), owned_partitions=(TopicPartition("y", 1),))
    }
    assert rows(build_client_states(group_by_process(consumers), consumers, NUMBERS, END)) == [
        (0, 3, 0, True)
    ]


def test_a_member_of_a_future_version_runs_the_tasks_that_it_owns() -> None:
    consumers = {
        "a": ConsumerMetadata(FutureInfo(12, 12), owned_partitions=(TopicPartition("y", 1),))
    }
    assert rows(build_client_states(group_by_process(consumers), consumers, NUMBERS, END)) == [
        (0, 3, 0, True)
    ]


def test_a_sum_that_is_no_offset_is_nothing() -> None:
    consumers = {"a": ConsumerMetadata(info(A, {TaskId(1, 0): -(2**63), TaskId(1, 1): -4}))}
    assert rows(build_client_states(group_by_process(consumers), consumers, NUMBERS, END)) == [
        (0, 2, 100, False),
        (0, 3, 50, False),
    ]


def test_tasks_are_arrays_in_order_of_their_ids() -> None:
    tasks = task_arrays(NUMBERS, END)
    assert [array.tolist() for array in tasks] == [
        [0, 0, 1, 1],
        [0, 1, 0, 1],
        [False, False, True, True],
        [0, 0, 100, 50],
    ]


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("h:1", HostInfo("h", 1)),
        ("[::1]:8080", HostInfo("::1", 8080)),
        ("", None),
        ("h", None),
        (":1", None),
        ("h:x", None),
        ("http://h:8080/", None),
        ("http://h:8080", HostInfo("h", 8080)),
        ("h:70000", HostInfo("h", 70000)),
        ("h:2147483648", None),
        ("h:" + "9" * 5_000, None),
        ("h" * 70_000 + ":1", None),
    ],
)
def test_an_endpoint_is_what_kafkas_clients_read_in_it(
    endpoint: str, host: HostInfo | None
) -> None:
    assert host_or_none(endpoint) == host
