"""One history, from the opening of a world to its last law: faults, then calm, then convergence within a bound, then silence."""

import gc
from collections.abc import Iterator

from apportion.coord.classic.state import ClassicGroup
from apportion.member.batch.plan import EARLIEST
from apportion.member.membership import MembershipState
from apportion.sim.actors.cluster import Stage
from apportion.sim.actors.reader import Reader
from apportion.sim.actors.sink import Sink
from apportion.sim.actors.worker import Worker, starting_of
from apportion.sim.checks.classic_laws import unsettled
from apportion.sim.checks.offset_laws import ByTopic, of_group
from apportion.sim.faults import befall
from apportion.sim.kernel.clock import World
from apportion.sim.kernel.outcome import Broken, LawBroken, Outcome
from apportion.sim.kernel.scenario import CONSUMER, Scenario
from apportion.sim.kernel.trace import Chronicle
from apportion.store.disk import ROOT
from apportion.store.memory_disk import MemoryDisk
from apportion.topics import TopicIdPartition

SLICE_US = 500_000  # how often it is asked whether the world has settled


def play(scenario: Scenario, chronicle: Chronicle | None = None) -> Outcome:
    """What becomes of that world. The first law that breaks ends it; a machine that raises has broken the law no-defect.

    chronicle: gets a line for each thing that happens.
    """
    world = World(scenario, chronicle)
    stage = Stage(world)
    collects = gc.isenabled()
    gc.disable()  # a history makes few cycles, and they are as young as it: collected afterwards, in one go
    try:
        broken = _broken_or_none(stage)
    finally:
        if collects:
            gc.enable()
    if broken is not None:
        world.say("world", f"law broken: {broken}")
    history = stage.watch.history
    return Outcome(
        seed=scenario.seed,
        steps=world.steps,
        simulated_ms=world.now_ms,
        rebalances=history.rebalances,
        slowest_convergence_ms=history.slowest_convergence_ms,
        longest_unowned_ms=history.longest_unowned_ms,
        rows=stage.sink.count,
        commits=stage.watch.offsets.commits,
        crashes=stage.broker.crashes,
        digest=world.digest(*_bytes(stage)),
        broken=broken,
    )


def _broken_or_none(stage: Stage) -> Broken | None:
    """The first law that broke."""
    try:
        _play(stage)
    except LawBroken as law:
        return Broken(law.law, stage.world.now_ms, law.why)
    except Exception as error:
        return Broken("no-defect", stage.world.now_ms, f"{type(error).__name__}: {error} ({place_of(error)})")
    return None


def _play(stage: Stage) -> None:
    world, scenario = stage.world, stage.world.scenario
    stage.opens()
    for fault in scenario.faults:
        world.after(fault.at_ms * 1_000, befall, stage, fault)
    world.run(scenario.duration_ms * 1_000)
    stage.calm_down()
    _converge(stage)
    _be_silent(stage)
    stage.watch.crashing()


def bound_ms(scenario: Scenario) -> int:
    """How long a calm world may take to settle.

    Members that were lost are found out after a session, and their instances free for others after it; a revocation may wait for
    the longest batch, which began while all was slow, or for the rebalance timeout; lost requests time out; then a few heartbeats.
    """
    longest_batch_ms = 4 * 10 * scenario.batch_ms
    heartbeats_ms = 12 * scenario.heartbeat_ms
    bound = 3 * scenario.session_ms + 2 * scenario.rebalance_ms + longest_batch_ms + heartbeats_ms + 20 * scenario.batch_ms + 40_000
    rounds = 0 if scenario.protocol == CONSUMER else 4  # of joining, each as long as the slowest may take
    return bound + rounds * (scenario.rebalance_ms + scenario.session_ms)


def _converge(stage: Stage) -> None:
    """Everything is as it shall be, and the last commits are made."""
    world, scenario = stage.world, stage.world.scenario
    until_us = world.now_us + bound_ms(scenario) * 1_000
    nudge_us = world.now_us + bound_ms(scenario) * 500 if scenario.protocol != CONSUMER else None
    ends: list[int] = []
    while True:
        unsettled, unread = next(_unsettled(stage), None), next(_unread(stage), None)
        missing = unsettled or unread
        if missing is None and ends == _ends(stage):
            return
        if nudge_us is not None and world.now_us >= nudge_us:
            nudge_us = None
            if _may_miss_something(stage):
                until_us = world.now_us + bound_ms(scenario) * 1_000
                stage.nudge()
        if world.now_us >= until_us:
            law = "all-is-read" if unread and not unsettled else "converges"
            raise LawBroken(law, f"{bound_ms(scenario)} ms after the last fault {missing or 'offsets are still being committed'}.")
        ends = [] if missing else _ends(stage)
        world.run(world.now_us + (SLICE_US if missing else 3_000 * (scenario.batch_ms + 1_000)))


def _may_miss_something(stage: Stage) -> bool:
    """Whether a classic group with static members is at rest and a partition nobody's: so it stays until its topics change.

    What changed while a static leader was away nobody sees (KIP-814), and who comes back as the instance of a member that owed a
    partition to others does not know that it did.
    """
    if stage.broker.node is None:
        return False
    topics, shards = stage.broker.node.topics, stage.broker.node.shards()
    groups = [group for _, shard in shards for group in shard.ledger.groups.values() if isinstance(group, ClassicGroup)]
    return any(group.live.instances and next(unsettled(group, topics), None) for group in groups)


def _be_silent(stage: Stage) -> None:
    """Nothing is written to the groups' logs while nothing happens."""
    before = _ends(stage)
    stage.world.run(stage.world.now_us + (stage.world.scenario.session_ms + 2 * stage.world.scenario.heartbeat_ms) * 1_000)
    after = _ends(stage)
    if after != before:
        raise LawBroken("silent", f"the groups' logs grew from {before} to {after} while nothing happened.")
    missing = next(_unsettled(stage), None)
    if missing is not None:
        raise LawBroken("silent", f"the world had settled, and now {missing}.")


def _ends(stage: Stage) -> list[int]:
    if stage.broker.node is None:
        return []
    return [partition.log.next_offset for partition, _ in stage.broker.node.shards()]


def _unsettled(stage: Stage) -> Iterator[str]:
    """What is not yet as it shall be."""
    if not stage.broker.is_listening or stage.broker.node is None:
        yield "the broker is not up"
        return
    if not stage.clerk.is_idle:
        yield "a topic is still to be made"
    if stage.producer.is_working:
        yield "a record is still to be written"
    groups = {group_id: group for _, shard in stage.broker.node.shards() for group_id, group in shard.ledger.groups.items()}
    wanted: dict[str, list[str]] = {}
    for each in stage.applications:
        if not each.is_up or not each.is_working:
            yield f"{each.name} is not up"
            continue
        if each.behind_until_us > stage.world.now_us:
            yield f"{each.name} is still at what it began slowly"
        view = each.member.view()
        wanted.setdefault(each.group, []).append(view.member_id)
        if each.speaks_classic and view.state is not MembershipState.STABLE:
            yield f"{each.name} is on its way: it {view.state.value}"
        if view.target is None or view.target != view.owned or len(each.hand[1]) != len(view.owned):
            yield f"{each.name} has not what it shall have"
    for group_id, members in wanted.items():
        group = groups.get(group_id)
        if isinstance(group, ClassicGroup):
            if sorted(group.live.members) != sorted(members):
                yield f"group {group_id} has not the members that live"
            yield from unsettled(group, stage.broker.node.topics)
            continue
        if group is None or sorted(group.saved.members) != sorted(members):
            yield f"group {group_id} has not the members that live"
        elif not group.has_converged():
            yield f"group {group_id} has not converged"
    yield from _unwritten(stage)
    yield from _uncommitted(stage)


def _unwritten(stage: Stage) -> Iterator[str]:
    """Records of living topics that are not in the sink."""
    if not any(isinstance(each, Worker) for each in stage.applications):
        return
    assert stage.broker.node is not None
    sink, first = stage.sink, stage.watch.offsets.first
    for partition in stage.broker.node.partitions():
        if partition.topic.name not in stage.names:
            continue
        place, end = TopicIdPartition(partition.topic.name, partition.topic.id, partition.index), partition.high_watermark
        rows = sink.rows.get(place)
        begins = rows[0][0] if rows else first.get(place, 0)
        if begins and starting_of(stage.world.scenario) == EARLIEST:
            raise LawBroken("sink-once", f"rows [0, {begins}) of {place} are not in the sink.")
        if (rows[-1][1] if rows else begins) != end:
            yield f"the sink has not all rows of {place} up to {end}"


def _uncommitted(stage: Stage) -> Iterator[str]:
    """Offsets that the workers' group has not yet stored."""
    assert stage.broker.node is not None
    offsets = _committed(stage, Worker.group)
    for place, fence in stage.sink.fences.items():
        if stage.broker.node.topics.with_id(place.topic_id) is None:
            continue  # deleted, and its offsets with it
        value = offsets.get(place.topic, {}).get(place.partition)
        if value is None or value.offset != fence:
            stands = "not committed" if value is None else f"committed up to {value.offset}"
            yield f"{place} is in the sink up to {fence} and {stands}"


def _committed(stage: Stage, group_id: str) -> ByTopic:
    """What the group has stored; nothing while the broker is down."""
    shards = () if stage.broker.node is None else stage.broker.node.shards()
    return of_group([shard for _, shard in shards], group_id)


def _unread(stage: Stage) -> Iterator[str]:
    """Where the readers' group does not stand at the end of the log."""
    if not any(isinstance(each, Reader) for each in stage.applications):
        return
    if stage.broker.node is None:
        return
    offsets = _committed(stage, Reader.group)
    for partition in stage.broker.node.partitions():
        topic, end = partition.topic, partition.high_watermark
        value = offsets.get(topic.name, {}).get(partition.index)
        stands = value.offset if value is not None and value.topic_id == topic.id else 0
        if topic.name in stage.names and stands != end:
            yield f"{topic.name}-{partition.index} ends at {end}, and the group {Reader.group} stands at {stands}."


def _bytes(stage: Stage) -> Iterator[bytes]:
    """What the broker's disk and the sink hold."""
    yield from _files(stage.broker.disk, ROOT)
    yield _rows_text(stage.sink).encode()


def _rows_text(sink: Sink) -> str:
    """Return the rows of the sink as they go into the digest.

    Written out, not taken from `repr`: no digest may change because a class or a field gets another name.
    """
    rows = (
        f"(Place(topic={topic!r}, topic_id={topic_id!r}, partition={partition}), {ranges!r})"
        for (topic, topic_id, partition), ranges in sorted(sink.rows.items())
    )
    return f"[{', '.join(rows)}]"


def _files(disk: MemoryDisk, directory: str) -> Iterator[bytes]:
    for name in disk.list_dir(directory):
        path = name if directory == ROOT else f"{directory}/{name}"
        yield path.encode()
        yield bytes(disk.view(path, 0, disk.size(path))) if disk.size(path) else b""
        yield from _files(disk, path)


def place_of(error: Exception) -> str:
    """File and line where the error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
