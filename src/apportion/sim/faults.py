"""The effect of each kind of fault on the simulated cluster: a table with a function a kind."""

from collections.abc import Callable
from random import Random

from apportion.sim.actors.admin import topic_name
from apportion.sim.actors.application import Application
from apportion.sim.actors.reader import Reader
from apportion.sim.actors.stray import StrayConsumer, StrayQuery
from apportion.sim.actors.worker import Worker
from apportion.sim.cluster import EVERY_TOPIC, SimulatedCluster
from apportion.sim.kernel.network import DOWN, UP
from apportion.sim.kernel.scenario import Fault
from apportion.sim.streams.process import StreamsProcess

US_PER_MS = 1_000


def inject(cluster: SimulatedCluster, fault: Fault) -> None:
    """Inject the fault into the simulated cluster now, by the table of fault kinds."""
    cluster.simulation.write_trace("world", str(fault))
    INJECTORS[fault.kind](cluster, fault, Random(fault.twist))


def _broker_crash(cluster: SimulatedCluster, fault: Fault, rng: Random) -> None:
    """Crash the broker now, or in the middle of its next flush; requests go on arriving."""
    tear_bytes, resets_connections = rng.choice((None, 0, 1, 17, 300, 100_000)), rng.random() < 0.7

    def crash() -> None:
        if cluster.broker.is_up:
            cluster.crash_broker(tear_bytes, resets_connections)
            cluster.simulation.call_later(fault.amount * US_PER_MS, cluster.start_broker)

    if rng.random() < 0.5:
        crash()
    else:
        # In the middle of a flush: replies wait for it, and none of them may be sent any more.
        cluster.broker.crash_in_flush = crash


def _broker_pause(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.broker.pause(fault.amount * US_PER_MS)


def _disk_refuses(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.broker.flushes_to_refuse = fault.amount


def _crash(cluster: SimulatedCluster, fault: Fault, rng: Random) -> None:
    victim = cluster.application(fault.target)
    victim.die(closes_connections=rng.random() < 0.5)
    cluster.start_later(victim, fault.amount)


def _restart(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.restart(cluster.application(fault.target), fault.amount)


def _replace(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    victim = cluster.application(fault.target)
    if isinstance(victim, Worker):
        victim.is_replaced = True
    cluster.restart(victim, fault.amount)


def _in_turn(
    cluster: SimulatedCluster, fault: Fault, change: Callable[[Application, int], None]
) -> None:
    """Make this change of every application, one after the other."""
    for number, each in enumerate(cluster.applications):
        cluster.simulation.call_later(
            number * (fault.amount + 500) * US_PER_MS, change, each, fault.amount
        )


def _roll(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    _in_turn(cluster, fault, cluster.restart)


def _switch(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.switch(cluster.application(fault.target), fault.amount)


def _switch_all(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    _in_turn(cluster, fault, cluster.switch)


def _pause(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.application(fault.target).pause(fault.amount * US_PER_MS)


def _slow(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.application(fault.target).slow_until_us = (
        cluster.simulation.now_us + fault.amount * US_PER_MS
    )


def _cut(*ways: int) -> Callable[[SimulatedCluster, Fault, Random], None]:
    """Return the fault that cuts an application's link in these directions for a while."""

    def cut(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
        link = cluster.application(fault.target).link
        for way in ways:
            link.set_cut(way, True)
            cluster.simulation.call_later(fault.amount * US_PER_MS, link.set_cut, way, False)

    return cut


def _lost_reply(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.application(fault.target).link.answers_to_lose += fault.amount


def _lost_join(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.application(fault.target).link.joins_to_lose += 1


def _clock_jump(cluster: SimulatedCluster, fault: Fault, rng: Random) -> None:
    process = cluster.broker if rng.random() < 0.5 else cluster.application(fault.target)
    process.shift_wall_clock(fault.amount)


def _more_partitions(cluster: SimulatedCluster, fault: Fault, _rng: Random) -> None:
    cluster.topic_admin.add_partitions(
        topic_name(fault.target % cluster.simulation.scenario.topics), fault.amount
    )


def _topic_again(cluster: SimulatedCluster, fault: Fault, rng: Random) -> None:
    name = topic_name(fault.target % cluster.simulation.scenario.topics)
    cluster.topic_admin.delete(name)
    cluster.topic_admin.create(name, rng.randint(1, cluster.simulation.scenario.partitions + 1))


def _subscribe(cluster: SimulatedCluster, fault: Fault, rng: Random) -> None:
    names = cluster.names
    topics = tuple(sorted(rng.sample(names, rng.randint(1, len(names)))))
    application = cluster.application(fault.target)
    application.deliver(application.incarnation, application.subscribe, topics)


def _regex(cluster: SimulatedCluster, fault: Fault, rng: Random) -> None:
    """Fault "regex": one reader subscribes by an expression, perhaps beside a name.

    Nothing happens without readers: a Spark source names its topics.
    """
    readers = [each for each in cluster.applications if isinstance(each, Reader)]
    if readers:
        reader = readers[fault.target % len(readers)]
        some = sorted(rng.sample(cluster.names, rng.randint(1, len(cluster.names))))
        expression = rng.choice(("|".join(some), f"^t[0-{len(some)}]$", EVERY_TOPIC, "none.*"))
        topics = tuple(rng.sample(cluster.names, rng.choice((0, 0, 1))))
        reader.deliver(reader.incarnation, reader.subscribe, topics, expression)


def _stray(
    kind: type[StrayQuery | StrayConsumer],
) -> Callable[[SimulatedCluster, Fault, Random], None]:
    """Return the fault "stray" or "stray-consumer": start a stray in the workers' group.

    Nothing happens in scenarios that recreate topics: a group whose topics are all new has no
    committed offset, so any sink may claim it.
    """

    def start(cluster: SimulatedCluster, _fault: Fault, _rng: Random) -> None:
        if all(each.kind != "topic-again" for each in cluster.simulation.scenario.faults):
            cluster.start_stray(kind)

    return start


def _alter_group(cluster: SimulatedCluster, fault: Fault, rng: Random) -> None:
    """Fault "alter-group": give a group another session timeout and heartbeat interval.

    The broker refuses some of them, as they are out of its bounds.
    """
    session_ms = fault.amount
    interval_ms = max(1, int(session_ms * rng.choice((0.1, 0.3, 0.9))))
    group = (Worker.group, Reader.group)[fault.target % 2]
    changes: dict[str, str | None] = {
        "consumer.session.timeout.ms": str(session_ms),
        "consumer.heartbeat.interval.ms": str(interval_ms),
    }
    if rng.random() < 0.2:
        changes = dict.fromkeys(changes)
    cluster.topic_admin.alter_group(group, changes)


def _topology(cluster: SimulatedCluster, fault: Fault, rng: Random) -> None:
    """Fault "topology": every Streams process runs another topology, running or started again."""
    topology = cluster.change_topology()
    is_bounce = rng.random() < 0.5

    def change(application: Application, away_ms: int) -> None:
        if not isinstance(application, StreamsProcess) or application.stays_with(topology):
            return
        # Another fault may have changed the topology once more.
        if topology == cluster.task_checker.topology:
            application.next_topology = topology
            if is_bounce:
                cluster.restart(application, away_ms)
            else:
                application.deliver(application.incarnation, application.change_topology, topology)

    _in_turn(cluster, fault, change)


INJECTORS: dict[str, Callable[[SimulatedCluster, Fault, Random], None]] = {
    "broker-crash": _broker_crash,
    "broker-pause": _broker_pause,
    "disk-refuses": _disk_refuses,
    "crash": _crash,
    "restart": _restart,
    "replace": _replace,
    "roll": _roll,
    "pause": _pause,
    "slow": _slow,
    "cut": _cut(UP, DOWN),
    "half-open-up": _cut(UP),
    "half-open-down": _cut(DOWN),
    "lost-reply": _lost_reply,
    "lost-join": _lost_join,
    "clock-jump": _clock_jump,
    "more-partitions": _more_partitions,
    "topic-again": _topic_again,
    "subscribe": _subscribe,
    "switch": _switch,
    "switch-all": _switch_all,
    "stray": _stray(StrayQuery),
    "stray-consumer": _stray(StrayConsumer),
    "alter-group": _alter_group,
    "regex": _regex,
    "topology": _topology,
}
"""The function that injects each kind of `scenario.FAULTS`; all have one signature."""
