"""The laws of a Streams application in a consumer group break where the bugs are planted that they
are there for, and hold without them.
"""

from dataclasses import replace
from typing import Any

import pytest

from apportion.sim.kernel.scenario import Fault, Scenario
from apportion.streams import client_side
from apportion.streams.client_side import ClientSideSettings
from apportion.streams.task_assignment.threads import ThreadTasks
from apportion.streams.task_planning import GroupTasks, consumer_tasks
from tests.sim.bug import violation

# A third process finds two that have built their stores: this seed lets them build in time.
LATE = Fault(4_000, "crash", target=2, amount=15_000)
SCENARIO = Scenario(
    seed=3,
    streams=3,
    workers=0,
    readers=0,
    topics=1,
    partitions=8,
    duration_ms=30_000,
    produce_every_ms=100,
    batch_ms=300,
    heartbeat_ms=500,
    faults=(LATE,),
)

encode_tasks, plan_tasks = client_side._encode_tasks, client_side._plan_tasks


def copies_beside_the_original(group: GroupTasks, assignment: Any) -> Any:
    for process, member, share in consumer_tasks(group, assignment):
        yield process, member, ThreadTasks(share.active, (*share.standby, *share.active))


def forgets_a_task(group: GroupTasks, assignment: Any, own_hash: bytes) -> Any:
    encoded = encode_tasks(group, assignment, own_hash)
    return {
        member: tasks._replace(partitions=tasks.partitions[1:]) for member, tasks in encoded.items()
    }


def warms_up_without_limit(
    settings: ClientSideSettings, known: Any, consumers: Any, assignable: Any
) -> Any:
    configs = settings.configs._replace(max_warmup_replicas=100)
    return plan_tasks(replace(settings, configs=configs), known, consumers, assignable)


@pytest.mark.parametrize(
    ("law", "name", "faulty"),
    [
        ("one-role", "consumer_tasks", copies_beside_the_original),
        ("all-owned", "_encode_tasks", forgets_a_task),
        ("few-warmups", "_plan_tasks", warms_up_without_limit),
    ],
)
def test_a_planted_bug_breaks_its_law(law: str, name: str, faulty: Any) -> None:
    broken = violation(SCENARIO, (client_side, name, faulty))
    assert broken.law == law, broken
