"""Bugs of Streams groups to be found by rehearsals: see `planted.py`."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from apportion.assign.by_name import Given, Subscription
from apportion.coord.consumer.state import ConsumerGroupMember
from apportion.member.classic import leader as any_leader
from apportion.member.records.record_consumer import RecordConsumer
from apportion.sim.streams import thread
from apportion.sim.streams.rehearsal import Rehearsal
from apportion.streams import consumer_assignments, leader, task_planning
from apportion.streams.metadata import probing
from apportion.streams.metadata.probing import NextVersion
from apportion.streams.metadata.releases import VersionNegotiation
from apportion.streams.task_assignment.client_states import (
    AssignmentConfigs,
    ClientStates,
    TaskAssignment,
    Tasks,
)
from apportion.streams.task_assignment.task_assignors import TASK_ASSIGNORS
from apportion.streams.task_assignment.threads import (
    ProcessTasks,
    ThreadTasks,
    assign_tasks_to_threads,
)
from tests.sim.bug import Patch, Swap
from tests.sim.planted_records import adopt_first

next_versions = probing._NEXT_VERSION
assign_consumers = leader.assign_consumers  # type: ignore[attr-defined]


def gives_what_others_own(self: Any, task: int, member: ConsumerGroupMember) -> bool:
    return False


def checks_nothing(members: dict[str, Subscription], given: dict[str, Given]) -> None:
    pass


def never_steps_up(
    sent: int, received: probing.MetadataVersions, latest: int, leads_unfinished: bool
) -> NextVersion:
    return next_versions[VersionNegotiation.SHARES](
        sent, received, latest, leads_unfinished
    )._replace(used=min(sent, received.used), rejoin_reason=None)


def leaves_it_to_others(
    sent: int, received: probing.MetadataVersions, latest: int, leads_unfinished: bool
) -> NextVersion:
    return next_versions[VersionNegotiation.PROBES](sent, received, latest, False)


def everybody_triggers(
    sent: int, received: probing.MetadataVersions, latest: int, leads_unfinished: bool
) -> NextVersion:
    step = next_versions[VersionNegotiation.PROBES](sent, received, latest, leads_unfinished)
    return (
        NextVersion(step.used, f"all understand version {step.used} now")
        if step.used > received.used
        else step
    )


def copies_beside_the_original(
    consumers: tuple[str, ...], work: ProcessTasks
) -> dict[str, ThreadTasks]:
    roles = assign_tasks_to_threads(consumers, work)
    return {
        member: ThreadTasks(each.active, (*each.standby, *each.active))
        for member, each in roles.items()
    }


def gives_what_another_thread_owns(self: Any, task: int, member: Any) -> Any:
    owner = self.owners.get(task, member)
    return owner != member and owner.split("-")[0] != member.split("-")[0]


def moves_on_to_the_next_thread(
    consumers: tuple[str, ...], work: ProcessTasks
) -> dict[str, ThreadTasks]:
    roles = assign_tasks_to_threads(consumers, work._replace(previous={}))
    return dict(
        zip(consumers, (roles[each] for each in (*consumers[1:], consumers[0])), strict=True)
    )


def copies_in_the_next_thread(
    consumers: tuple[str, ...], work: ProcessTasks
) -> dict[str, ThreadTasks]:
    roles = assign_tasks_to_threads(consumers, work)
    after = dict(zip(consumers, (*consumers[1:], consumers[0]), strict=True))
    return {
        member: ThreadTasks(each.active, (*each.standby, *roles[after[member]].active))
        for member, each in roles.items()
    }


def warms_up_without_limit(
    tasks: Tasks, clients: ClientStates, configs: AssignmentConfigs
) -> TaskAssignment:
    return TASK_ASSIGNORS["highavailability"](
        tasks, clients, configs._replace(max_warmup_replicas=1_000)
    )


def forgets_a_task(
    group: Any, assignment: Any, decision: Any
) -> dict[str, consumer_assignments.ConsumerAssignment]:
    plan = assign_consumers(group, assignment, decision)
    first = min(plan)
    share = plan[first]
    info = share.info
    kept = [
        pair for pair in zip(share.partitions, info.active, strict=True) if str(pair[1]) != "1_0"
    ]
    plan[first] = share._replace(
        partitions=tuple(partition for partition, _ in kept),
        info=replace(info, active=tuple(task for _, task in kept)),
    )
    return plan


def answering(negotiation: VersionNegotiation, faulty: Callable[..., NextVersion]) -> Swap:
    """A leader that negotiates so answers by this."""
    return probing, "_NEXT_VERSION", next_versions | {negotiation: faulty}


@dataclass(frozen=True)
class PlantedInStreams:
    """One bug, and the law that it breaks. sizes: the rehearsal that shows it."""

    name: str
    why: str
    law: str
    swaps: tuple[Swap, ...]
    sizes: dict[str, Any] = field(default_factory=dict)

    @property
    def rehearsal(self) -> Rehearsal:
        return Rehearsal(
            **{"from_": "2.8", "to": "4.0", "instances": 3, "partitions": 3, **self.sizes}
        )

    def plant(self, patch: Patch) -> None:
        for target, name, value in self.swaps:
            patch.setattr(target, name, value)


BY_KIP = {"from_": "2.0", "to": "post-2.0"}
MOVES = {"away_ms": 60_000}  # longer than a session: tasks move, and come back

PLANTED = (
    PlantedInStreams(
        "withheld",
        "the plan says whose a task is, so it can be given at once",
        "one-active",
        (
            (task_planning.GroupTasks, "is_owned_by_another", gives_what_others_own),
            (any_leader, "check_cooperative", checks_nothing),
        ),
        MOVES | {"seed": 6},  # with others the old owner commits before the new one starts
    ),
    PlantedInStreams(
        "steps-up",
        "a group that works need not rebalance once more",
        "one-version",
        (answering(VersionNegotiation.SHARES, never_steps_up),),
        {"to": "future", "from_": "2.8", "leader": "first"},
    ),
    PlantedInStreams(
        "last-rebalance",
        "somebody will rebalance soon anyway",
        "one-version",
        (answering(VersionNegotiation.PROBES, leaves_it_to_others),),
        BY_KIP | {"leader": "last"},
    ),
    PlantedInStreams(
        "leader-alone",
        "the sooner the better: whoever sees that all understand more says so",
        "leader-triggers",
        (answering(VersionNegotiation.PROBES, everybody_triggers),),
        BY_KIP | {"leader": "last"},
    ),
    PlantedInStreams(
        "one-role",
        "a copy does no harm",
        "one-role",
        ((task_planning, "assign_tasks_to_threads", copies_beside_the_original),),
    ),
    PlantedInStreams(
        "withheld-from-threads",
        "it stays in the process, whose threads know of each other",
        "one-active",
        (
            (
                task_planning.GroupTasks,
                "is_owned_by_another",
                gives_what_another_thread_owns,
            ),
            (task_planning, "assign_tasks_to_threads", moves_on_to_the_next_thread),
            (any_leader, "check_cooperative", checks_nothing),
        ),
        {"threads": 2, "seed": 18},  # with others a commit is fenced before
    ),
    PlantedInStreams(
        "one-role-in-a-process",
        "the other thread of a process is somebody else",
        "one-role",
        ((task_planning, "assign_tasks_to_threads", copies_in_the_next_thread),),
        {"threads": 2},
    ),
    PlantedInStreams(
        "acknowledged-first",
        "the task is closed in a moment, so the group may know of it already",
        "one-active",
        ((RecordConsumer, "_adopt_target", adopt_first),),
        MOVES,
    ),
    PlantedInStreams(
        "few-warmups",
        "the sooner all are warm the better",
        "few-warmups",
        (
            (
                task_planning,
                "TASK_ASSIGNORS",
                dict(TASK_ASSIGNORS, highavailability=warms_up_without_limit),
            ),
        ),
        {"partitions": 12, "away_ms": 120_000},
    ),
    PlantedInStreams(
        "all-owned",
        "what the first member does not get, the next one will",
        "all-owned",
        ((leader, "assign_consumers", forgets_a_task),),
    ),
    PlantedInStreams(
        "always-served",
        "a task may finish whatever it has begun",
        "always-served",
        ((thread, "TASK_CLOSE_MS", 60_000),),
        {"from_": "1.1", "to": "2.0"},
    ),
)
