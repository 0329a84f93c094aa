"""Runs of the client-side assignor of Streams groups, and what their plans say."""

from typing import Any

from apportion.streams.client_side import (
    AssignableInstance,
    ClientSideAssignment,
    ClientSideSettings,
    assign_client_side,
    hash_of_topology,
)
from apportion.streams.metadata.kip848 import Kip848MemberMetadata, Kip848TaskLag, Reason
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.topics import TopicPartition
from tests.streams.leader_runs import STATE, lines, run_queries

ENDS = {TopicPartition("g-changelog", number): 1_000 for number in range(6)}
FEW = AssignmentConfigs(acceptable_recovery_lag=10)


def instance(
    process: str,
    topology: Topology = STATE,
    *,
    target: tuple[int, ...] | range = (),
    lags: dict[int, int] | None = None,
    reason: int = Reason.NONE,
    **rest: Any,
) -> AssignableInstance:
    metadata = Kip848MemberMetadata(
        process_id=process.encode().rjust(16),
        topology_hash=hash_of_topology(topology),
        task_lags=tuple(
            Kip848TaskLag(subtopology=0, partition=number, lag=lag)
            for number, lag in (lags or {}).items()
        ),
        **rest,
    )
    return AssignableInstance(topology.source_topics, metadata, reason, lines(*target))


def compute(
    members: dict[str, AssignableInstance],
    topology: Topology = STATE,
    *,
    existing: dict[str, int] | None = None,
    configs: AssignmentConfigs = FEW,
    **known: Any,
) -> ClientSideAssignment:
    plan = assign_client_side(
        ClientSideSettings(topology, configs=configs), existing or {"lines": 4}, members
    )
    result: ClientSideAssignment = run_queries(plan, **({"ends": ENDS} | known))
    return result


def numbers(tasks: Any) -> list[int]:
    return [task.partition for task in tasks]


def active(plan: ClientSideAssignment, member: str) -> list[int]:
    assigned = plan.assignments[member]
    assert numbers(assigned.partitions) == numbers(assigned.metadata.active_tasks)
    return numbers(assigned.metadata.active_tasks)


def warmups(plan: ClientSideAssignment) -> dict[str, list[int]]:
    return {
        member: numbers(each.metadata.warmup_tasks)
        for member, each in sorted(plan.assignments.items())
    }
