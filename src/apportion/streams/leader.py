"""The rebalance of a Streams group by its leader (Kafka's StreamsPartitionAssignor).

The leader turns the subscriptions of a JoinGroup response into the assignments of a SyncGroup
request. The rebalance is a generator: it yields what it must ask the cluster (`queries.py`) and
goes on with the answers.
1. Decide the metadata versions (`metadata/probing.py`), and stop if a member requested a shutdown.
2. Create internal topics, fetch the end offsets of changelogs, and run the task assignor
   (`task_planning.py`).
3. Give each client's tasks to its consumers, and withhold every task that another consumer still
   owns (`consumer_assignments.py`).

Faulty subscriptions and missing topics do not raise: all members get an empty assignment with an
error code. Only incompatible versions make a leader of a release before 2.4 fail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from apportion.errors import Refused
from apportion.rules import Rule
from apportion.streams.consumer_assignments import ConsumerAssignment, assign_consumers
from apportion.streams.metadata.model import LATEST, AssignmentInfo, AssignorError, SubscriptionInfo
from apportion.streams.metadata.probing import MetadataVersions, VersionDecision, decide_versions
from apportion.streams.metadata.releases import Release, VersionNegotiation
from apportion.streams.settings import PROBING_REBALANCE_INTERVAL_MS, TASK_ASSIGNOR
from apportion.streams.task_assignment.client_metadata import ClientMetadata, ConsumerMetadata
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.task_planning import (
    MAX_OFFSET_SUM,
    KnownTasks,
    TaskAssignorChoice,
    create_topics_and_index_tasks,
    fetch_end_offset_sums,
    plan_tasks,
)
from apportion.streams.topology import MissingSources, Topology, TopologyRefused

UNREADABLE_SUBSCRIPTION = AssignmentInfo(LATEST, LATEST, error=AssignorError.ASSIGNMENT_ERROR)
"""The assignment of a member whose subscription cannot be decoded."""


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """The leading member and its settings.

    member_id: its own. release: the release that it behaves like. assignor: a name in
    TASK_ASSIGNORS. probing_interval_ms: `probing.rebalance.interval.ms`, how long until the group
    checks again whether warm-ups have caught up (KIP-441).
    """

    member_id: str
    topology: Topology
    release: Release
    assignor: str = TASK_ASSIGNOR.default
    configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    probing_interval_ms: int = PROBING_REBALANCE_INTERVAL_MS.default


class GroupAssignment(NamedTuple):
    """The assignment of each consumer, by member id.

    upgrade_pending: see `VersionDecision`. notes: for the leader's log, one sentence each.
    missing: the source topics that do not exist, if the error is that some are missing.
    """

    assignments: dict[str, ConsumerAssignment]
    upgrade_pending: bool = False
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def assign_as_leader(
    settings: LeaderSettings,
    existing: Mapping[str, int],
    subscriptions: Mapping[str, ConsumerMetadata],
    wall_ms: int,
) -> Rule[GroupAssignment]:
    """Compute the assignments of one Streams rebalance, for the leader's SyncGroup request.

    A generator without I/O. `member/streams/assignor.py` drives it after the leader's JoinGroup
    response and answers the queries that it yields (`queries.py`).

    existing: the partition counts of the topics that exist. subscriptions: of each consumer, by
    member id. A member whose subscription cannot be read, or that subscribes to other topics, gets
    nothing; what it owns is withheld from the others all the same.

    Raises Refused if the versions of the members are incompatible and the leader's release fails
    then.
    """
    versions = {
        member: MetadataVersions(info.used, info.supported)
        for member, (info, _, _) in subscriptions.items()
        if info is not None
    }
    try:
        decision = decide_versions(versions, settings.release)
    except Refused as refused:
        if settings.release.negotiation is not VersionNegotiation.SHARES:
            raise
        # In the oldest version in use, so that everybody can read the code.
        oldest = min((version.used for version in versions.values()), default=LATEST)
        return _assign_nothing(subscriptions, oldest, AssignorError.ASSIGNMENT_ERROR, refused.why)
    used = decision.versions.used
    # KIP-671: one member's request is answered with the same code to all, whatever else is wrong.
    for member, consumer in sorted(subscriptions.items()):
        if _requests_shutdown(consumer):
            return _assign_nothing(
                subscriptions,
                used,
                AssignorError.SHUTDOWN_REQUESTED,
                f"{member} asks all instances to shut down",
            )
    try:
        index = yield from create_topics_and_index_tasks(settings.topology, existing)
    except MissingSources as missing:
        error = AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA
        nothing = _assign_nothing(subscriptions, used, error, missing.why)
        return nothing._replace(missing=missing.topics)
    except TopologyRefused as refused:
        return _assign_nothing(subscriptions, used, AssignorError.ASSIGNMENT_ERROR, refused.why)
    assignable = {
        member: subscriptions[member]
        for member in versions
        if subscriptions[member].subscribes_to_topology and member not in decision.empty_members
    }
    empty = _empty_assignments(
        [member for member in subscriptions if member not in assignable], versions, decision
    )
    # Those from the future still hear the versions, by which they step down and rejoin.
    if not assignable:
        return GroupAssignment(empty)
    end_offset_sums, notes = yield from fetch_end_offset_sums(index, settings.topology)
    group, assignment = plan_tasks(
        KnownTasks(index, end_offset_sums),
        subscriptions,
        assignable,
        TaskAssignorChoice(settings.assignor, settings.configs),
    )
    assignments = assign_consumers(group, assignment, decision)
    if assignment.needs_probing_rebalance:
        _schedule_probing_rebalance(assignments, group.processes, settings, wall_ms)
    return GroupAssignment(assignments | empty, decision.upgrade_pending, notes)


def _requests_shutdown(consumer: ConsumerMetadata) -> bool:
    """Return whether the consumer's Streams subscription asks all instances to stop (KIP-671)."""
    return (
        isinstance(consumer.info, SubscriptionInfo)
        and consumer.info.error == AssignorError.SHUTDOWN_REQUESTED
    )


def _empty_assignments(
    members: Sequence[str], versions: Mapping[str, MetadataVersions], decision: VersionDecision
) -> dict[str, ConsumerAssignment]:
    """Return the Streams leader's assignments for the members that get no tasks.

    Where the subscription could be decoded, the assignment has only metadata versions, so that the
    member can use an older version and rejoin (version probing, KIP-268). Otherwise it has an error
    code.
    """
    future = AssignmentInfo(decision.future_versions.used, decision.future_versions.supported)
    return {
        member: ConsumerAssignment((), future if member in versions else UNREADABLE_SUBSCRIPTION)
        for member in members
    }


def _assign_nothing(
    subscriptions: Mapping[str, ConsumerMetadata], used: int, error: AssignorError, why: str
) -> GroupAssignment:
    """Return the Streams leader's empty assignments with an error code, for all members.

    `assign_as_leader` returns them where no assignment is possible. used: the lowest metadata
    version in use, in which they are encoded; versions below 4 have no field for the code.
    """
    # The members may all come from the future; then this leader's newest version is the answer.
    used = max(1, min(used, LATEST))
    info = AssignmentInfo(used, used if used >= 3 else -1, error=error)
    return GroupAssignment(
        {member: ConsumerAssignment((), info) for member in subscriptions},
        notes=(f"nobody gets anything: {why}",),
    )


def _schedule_probing_rebalance(
    assignments: dict[str, ConsumerAssignment],
    processes: Sequence[ClientMetadata],
    settings: LeaderSettings,
    wall_ms: int,
) -> None:
    """Schedule a probing rebalance (KIP-441) in the Streams assignment of one consumer.

    The leader's process gets it, as in Kafka: one rejoining member is enough to start a rebalance.
    Changes nothing if a consumer of that process rejoins at once anyway.
    """
    own = next(
        (process.consumers for process in processes if settings.member_id in process.consumers), ()
    )
    if own and all(assignments[member].info.next_rebalance_ms is None for member in own):
        first = assignments[own[0]]
        # The greatest int64 stands for "no rebalance" on the wire, so it may not be the time.
        at_ms = min(MAX_OFFSET_SUM - 1, wall_ms + settings.probing_interval_ms)
        info = replace(first.info, next_rebalance_ms=at_ms)
        assignments[own[0]] = first._replace(info=info)
