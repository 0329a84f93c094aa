"""Plays one history: faults, then calm, then convergence within a bound, then silent logs."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from re import fullmatch

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.consumer.target_results import LONGEST_PAUSE_MS
from apportion.member.membership import MembershipState
from apportion.sim.actors.application import Application
from apportion.sim.actors.reader import Reader
from apportion.sim.actors.sink import Sink
from apportion.sim.actors.worker import Worker, start_position
from apportion.sim.checks.classic_laws import unconverged
from apportion.sim.checks.client_assignors import ClientAssignorChecker
from apportion.sim.checks.offset_laws import ByTopic, committed_offsets
from apportion.sim.cluster import SimulatedCluster
from apportion.sim.faults import inject
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.outcome import LawBroken, Outcome
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.settings import CONSUMER, UNRELIABLE
from apportion.sim.kernel.trace import Trace
from apportion.sim.streams.process import StreamsProcess
from apportion.store.disk import ROOT
from apportion.store.memory_disk import MemoryDisk
from apportion.topics import TopicIdPartition, Topics
from apportion.wire.messages.list_offsets import EARLIEST

SLICE_US = 500_000  # how often convergence is checked


def play(scenario: Scenario, trace: Trace | None = None) -> Outcome:
    """Play the scenario; return its outcome.

    The first law that breaks ends it; a machine that raises breaks the law no-defect. trace: gets a
    line for each thing that happens.
    """
    simulation = Simulation(scenario, trace)
    cluster = SimulatedCluster(simulation)
    collects = gc.isenabled()
    # A history makes few reference cycles; one collection afterwards costs less than many within.
    gc.disable()
    try:
        broken = simulation.violation_or_none(lambda: _play(cluster))
    finally:
        if collects:
            gc.enable()
    counters = cluster.checker.counters
    return Outcome(
        seed=scenario.seed,
        steps=simulation.steps,
        simulated_ms=simulation.now_ms,
        rebalances=counters.rebalances,
        slowest_convergence_ms=counters.slowest_convergence_ms,
        longest_unowned_ms=counters.longest_unowned_ms,
        rows=cluster.sink.row_count,
        commits=cluster.checker.offsets.commits,
        crashes=cluster.broker.crashes,
        digest=simulation.digest(*_final_bytes(cluster)),
        broken=broken,
    )


def _play(cluster: SimulatedCluster) -> None:
    """Play the scenario to its end. Raises LawBroken."""
    simulation, scenario = cluster.simulation, cluster.simulation.scenario
    cluster.start()
    for fault in scenario.faults:
        simulation.call_later(fault.at_ms * 1_000, inject, cluster, fault)
    simulation.run(scenario.duration_ms * 1_000)
    # A law such as `converges` promises something only once nothing disturbs any more.
    cluster.end_faults()
    _converge(cluster)
    # After the convergence: a group at rest that goes on writing would fill a real log.
    _check_silence(cluster)
    # At the end no crash follows, but the logs must be right all the same.
    cluster.checker.before_crash()


def convergence_bound_ms(scenario: Scenario) -> int:
    """Return how long the simulated cluster may take to converge after the last fault.

    Members that died are removed after a session timeout, and static ones rejoin after it; a
    revocation may wait for the longest batch, which began while its application was slow, or for
    the rebalance timeout; lost requests time out; then a few heartbeats.
    """
    longest_batch_ms = 4 * 10 * scenario.batch_ms
    heartbeats_ms = 12 * scenario.heartbeat_ms
    bound = (
        3 * scenario.session_ms
        + 2 * scenario.rebalance_ms
        + longest_batch_ms
        + heartbeats_ms
        + 20 * scenario.batch_ms
        + 40_000
    )
    if any(fault.kind == "alter-group" for fault in scenario.faults):
        # A session may be 2.6 times as long when the faults end, and so may an interval be.
        bound += 6 * scenario.session_ms
    if UNRELIABLE in (scenario.assignor, scenario.local_assignor):
        # The last answer may be late, and the longest pause begins then.
        bound += 10_000 + LONGEST_PAUSE_MS
    # What comes in an interval waits for its end, and so does the next target.
    bound += 2 * scenario.assignment_interval_ms
    # Classic groups need several rebalances, each as long as the slowest member may take to rejoin.
    rounds = 0 if scenario.protocol == CONSUMER else 4
    return bound + rounds * (scenario.rebalance_ms + scenario.session_ms)


def _converge(cluster: SimulatedCluster) -> None:
    """Run the simulation until everything has converged and the last offsets are committed."""
    simulation, scenario = cluster.simulation, cluster.simulation.scenario
    until_us = simulation.now_us + convergence_bound_ms(scenario) * 1_000
    topic_change_us = (
        simulation.now_us + convergence_bound_ms(scenario) * 500
        if scenario.protocol != CONSUMER
        else None
    )
    ends: list[int] = []
    while True:
        missing = next(_missing(cluster), None)
        # Twice the same ends: the last commits may have been under way at the first look.
        if missing is None and ends == _log_ends(cluster):
            return
        if topic_change_us is not None and simulation.now_us >= topic_change_us:
            topic_change_us = None
            if _is_waiting_for_metadata_change(cluster):
                until_us = simulation.now_us + convergence_bound_ms(scenario) * 1_000
                cluster.add_partitions()
        if simulation.now_us >= until_us:
            law, why = missing or ("converges", "offsets are still being committed")
            raise LawBroken(law, f"{convergence_bound_ms(scenario)} ms after the last fault {why}.")
        ends = [] if missing else _log_ends(cluster)
        simulation.run(
            simulation.now_us + (SLICE_US if missing else 3_000 * (scenario.batch_ms + 1_000))
        )


def _missing(cluster: SimulatedCluster) -> Iterator[tuple[str, str]]:
    """Yield each law that does not hold yet, with a sentence that says what is missing."""
    for law, sentences in (
        ("converges", _unconverged(cluster)),
        ("all-owned", cluster.task_checker.unowned()),
        ("all-is-read", _unread(cluster)),
    ):
        for why in sentences:
            yield law, why


def _is_waiting_for_metadata_change(cluster: SimulatedCluster) -> bool:
    """Return whether a classic group with static members is stable with an unassigned partition.

    The group stays so until its topics change. As in Kafka (KIP-814), nobody notices changes while
    a static leader was away, and a member that comes back as the instance of one that had to
    release a partition does not know of it.
    """
    if cluster.broker.node is None:
        return False
    topics = cluster.broker.node.topics
    return any(
        group.live.instances and next(unconverged(group, topics), None)
        for _, shard in cluster.broker.shards()
        for group in shard.ledger.classic_groups()
    )


def _check_silence(cluster: SimulatedCluster) -> None:
    """Check that the groups' logs do not grow while nothing happens."""
    before = _log_ends(cluster)
    simulation, scenario = cluster.simulation, cluster.simulation.scenario
    simulation.run(simulation.now_us + (scenario.session_ms + 2 * scenario.heartbeat_ms) * 1_000)
    after = _log_ends(cluster)
    if after != before:
        raise LawBroken(
            "silent", f"the groups' logs grew from {before} to {after} while nothing happened."
        )
    missing = next(_unconverged(cluster), None)
    if missing is not None:
        raise LawBroken("silent", f"the world had settled, and now {missing}.")


def _log_ends(cluster: SimulatedCluster) -> list[int]:
    return [partition.log.next_offset for partition, _ in cluster.broker.shards()]


def _unconverged(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield a sentence for each process, topic or group that has not converged yet."""
    if not cluster.broker.is_listening or cluster.broker.node is None:
        yield "the broker is not up"
        return
    if not cluster.topic_admin.is_idle:
        yield "a topic is still to be made"
    if cluster.producer.is_working:
        yield "a record is still to be written"
    living_members: dict[str, list[str]] = {}
    for application in cluster.applications:
        if not application.is_up or not application.is_working:
            yield f"{application.name} is not up"
            continue
        if application.slow_work_until_us > cluster.simulation.now_us:
            yield f"{application.name} is still at what it began slowly"
        view = application.member.view()
        living_members.setdefault(application.group, []).append(view.member_id)
        if application.uses_classic_protocol and view.state is not MembershipState.STABLE:
            yield f"{application.name} is on its way: it {view.state.value}"
        uses_all = len(application.in_use.partitions) == len(view.owned)
        if view.target is None or view.target != view.owned or not uses_all:
            yield f"{application.name} has not what it shall have"
    for group_id, members in living_members.items():
        group = cluster.broker.group_or_none(group_id)
        if isinstance(group, ClassicGroup):
            if sorted(group.live.members) != sorted(members):
                yield f"group {group_id} has not the members that live"
            yield from unconverged(group, cluster.broker.node.topics)
            continue
        if group is None or sorted(group.saved.members) != sorted(members):
            yield f"group {group_id} has not the members that live"
        elif not group.has_converged():
            yield f"group {group_id} has not converged"
        else:
            yield from _unresolved(group, cluster.broker.node.topics)
            yield from _untold(group, cluster.applications)
            yield from _unheard(group, cluster.checker.client_assignors)
    yield from cluster.task_checker.unsettled()
    yield from _unwritten(cluster)
    yield from _uncommitted(cluster)


def _unresolved(group: ConsumerGroup, topics: Topics) -> Iterator[str]:
    """Yield a sentence for each expression whose resolution is not what it matches now."""
    for expression in group.saved.expression_counts:
        # By another library than the coordinator's.
        matched = tuple(topic.name for topic in topics if fullmatch(expression, topic.name))
        if group.saved.resolutions.get(expression) != matched:
            yield f"group {group.group_id} does not know that {expression} matches {matched}"


def _untold(group: ConsumerGroup, applications: Iterable[Application]) -> Iterator[str]:
    """Yield a sentence for each member whose assignor was not told what it is given."""
    for application in applications:
        member = group.saved.members.get(application.member.view().member_id)
        assignor = application.local_assignor.observed
        if assignor is None or member is None:
            continue
        answer, told = member.target_answer, assignor.told
        if told is None or (told.error, told.version, told.user_data or b"") != answer:
            yield f"{application.name} has not told its assignor what the group's has answered"


def _unheard(group: ConsumerGroup, checker: ClientAssignorChecker) -> Iterator[str]:
    """Yield a sentence for each member whose assignors have said what the group has yet to save.

    The member's first heartbeat after the assignment interval saves what came too early. A reason
    that a crash has lost is repeated.
    """
    for member_id in group.saved.members:
        offering = group.live.offering_members.get(member_id)
        if offering is not None and offering.early is not None:
            yield f"group {group.group_id} has yet to save what {member_id} has said"
        if checker.has_lost_reason(group.group_id, member_id):
            yield f"{member_id} has yet to repeat the reason that group {group.group_id} has lost"


def _unwritten(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield a sentence for each partition of which the workers' sink lacks records."""
    if not any(isinstance(each, Worker) for each in cluster.applications):
        return
    assert cluster.broker.node is not None
    sink, first = cluster.sink, cluster.checker.offsets.first
    for partition in cluster.broker.node.partitions():
        if partition.topic.name not in cluster.names:
            continue
        topic_partition = TopicIdPartition(
            partition.topic.name, partition.topic.id, partition.index
        )
        end = partition.high_watermark
        rows = sink.rows.get(topic_partition)
        start_offset = rows[0][0] if rows else first.get(topic_partition, 0)
        if start_offset and start_position(cluster.simulation.scenario) == EARLIEST:
            raise LawBroken(
                "sink-once", f"rows [0, {start_offset}) of {topic_partition} are not in the sink."
            )
        if (rows[-1][1] if rows else start_offset) != end:
            yield f"the sink has not all rows of {topic_partition} up to {end}"


def _uncommitted(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield a sentence for each partition whose rows in the sink the workers have not committed."""
    assert cluster.broker.node is not None
    offsets = _committed(cluster, Worker.group)
    for topic_partition, fence in cluster.sink.fences.items():
        if cluster.broker.node.topics.with_id(topic_partition.topic_id) is None:
            continue  # deleted, and its offsets with it
        value = offsets.get(topic_partition.topic, {}).get(topic_partition.partition)
        if value is None or value.offset != fence:
            status = "not committed" if value is None else f"committed up to {value.offset}"
            yield f"{topic_partition} is in the sink up to {fence} and {status}"


def _committed(cluster: SimulatedCluster, group_id: str) -> ByTopic:
    """Return the group's committed offsets; none while the broker is down."""
    return committed_offsets([shard for _, shard in cluster.broker.shards()], group_id)


def _unread(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield a sentence for each partition that a group has not committed to its end."""
    if cluster.broker.node is None:
        return
    topics: dict[str, Sequence[str]] = {}
    if any(isinstance(each, Reader) for each in cluster.applications):
        topics[Reader.group] = cluster.names
    if cluster.task_checker.processes:
        topics[StreamsProcess.group] = cluster.task_checker.topology.source_topics
    for group, names in topics.items():
        offsets = _committed(cluster, group)
        for partition in cluster.broker.node.partitions():
            topic, end = partition.topic, partition.high_watermark
            value = offsets.get(topic.name, {}).get(partition.index)
            status = value.offset if value is not None and value.topic_id == topic.id else 0
            if topic.name in names and status != end:
                yield (
                    f"{topic.name}-{partition.index} ends at {end}, and the group {group} "
                    f"stands at {status}."
                )


def _final_bytes(cluster: SimulatedCluster) -> Iterator[bytes]:
    """Return the bytes of the broker's disk and the rows of the sink, for the digest."""
    yield from _files(cluster.broker.disk, ROOT)
    yield _rows_text(cluster.sink).encode()


def _rows_text(sink: Sink) -> str:
    """Return the rows of the sink as they go into the digest.

    Written out, not taken from `repr`: no digest may change because a class or a field gets another
    name.
    """
    rows = (
        f"(Place(topic={topic!r}, topic_id={topic_id!r}, partition={partition}), {ranges!r})"
        for (topic, topic_id, partition), ranges in sorted(sink.rows.items())
    )
    return f"[{', '.join(rows)}]"


def _files(disk: MemoryDisk, directory: str) -> Iterator[bytes]:
    """Yield the name and the bytes of each file of the simulated disk, for the digest."""
    for name in disk.list_dir(directory):
        path = name if directory == ROOT else f"{directory}/{name}"
        yield path.encode()
        yield bytes(disk.view(path, 0, disk.size(path))) if disk.size(path) else b""
        yield from _files(disk, path)
