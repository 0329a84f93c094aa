"""Plays the rehearsal of an upgrade: bounces a Streams application, instance by instance.

The members, the coordinator and the log are the real ones, in a simulated cluster. Nothing happens
to it but the bounces, the crash of `crash_at`, and the faults of the rehearsal.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from apportion.sim.faults import inject
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.outcome import LawBroken, Violation
from apportion.sim.kernel.trace import Trace
from apportion.sim.streams.cluster import InstanceChange, StreamsCluster
from apportion.sim.streams.instance import Instance
from apportion.sim.streams.rehearsal import Rehearsal
from apportion.sim.streams.thread import StreamThread
from apportion.streams.metadata.releases import known_release
from apportion.streams.metadata.upgrades import RollingBounce
from apportion.streams.task_assignment.client_states import AssignmentConfigs

SLICE_US = 250_000  # how often the player checks whether the group is at rest
# A group that has been at rest this long has settled: every heartbeat has been answered since, so a
# pending rebalance would have shown.
AT_REST_MS = 4_000
# `acceptable.recovery.lag`. A store grows by ten records a second here, so Kafka's 10,000 would
# never make a task warm up.
ACCEPTABLE_LAG = 100


class UpgradeStep(NamedTuple):
    """The bounce of one instance, once the group has settled.

    at_ms: when it began. version: the metadata version in use afterwards. led: whether the instance
    led the group before. moved: how many tasks another instance owns than before. stopped: how many
    tasks were active nowhere for a while; unowned_ms: the longest such time. crashed: the victim of
    `crash_at`, or "". died: the instances that cannot be members, with their reasons.
    """

    number: int
    instance: str
    runs_as: RollingBounce
    led: bool
    at_ms: int
    took_ms: int
    version: int
    rebalances: int
    moved: int
    stopped: int
    unowned_ms: int
    crashed: str
    died: dict[str, str]


class RehearsalResult(NamedTuple):
    """The steps and figures of a rehearsal.

    version_before: the metadata version in use before the first step. broken: the law that broke
    and ended the rehearsal.
    """

    rehearsal: Rehearsal
    version_before: int
    steps: tuple[UpgradeStep, ...]
    instance_changes: tuple[InstanceChange, ...]
    longest_unowned_ms: int
    simulated_ms: int
    world_steps: int
    digest: str
    broken: Violation | None

    @property
    def died(self) -> dict[str, str]:
        """The instances that could not be members at some time, with their reasons."""
        return {name: why for step in self.steps for name, why in step.died.items()}

    @property
    def held(self) -> bool:
        """Return whether every law held and no instance failed by itself."""
        return self.broken is None and not self.died

    @property
    def final_version(self) -> int:
        """The metadata version in use after the last step."""
        return self.steps[-1].version if self.steps else self.version_before


def rehearse(
    rehearsal: Rehearsal,
    trace: Trace | None = None,
    on_step: Callable[[UpgradeStep], None] = lambda _step: None,
) -> RehearsalResult:
    """Play the rehearsal of a Streams upgrade; `apportion streams rehearse` calls it.

    on_step: called after each step.
    """
    simulation = Simulation(rehearsal.scenario, trace)
    configs = AssignmentConfigs(
        num_standby_replicas=rehearsal.standbys, acceptable_recovery_lag=ACCEPTABLE_LAG
    )
    first = RollingBounce(known_release(rehearsal.from_))
    instances = [
        Instance[StreamThread](f"app{number}", first)
        for number in range(1, rehearsal.instances + 1)
    ]
    cluster = StreamsCluster(simulation, instances, configs, rehearsal.probing_ms)
    player = _Player(rehearsal, cluster, on_step)
    broken = simulation.violation_or_none(player.play)
    return RehearsalResult(
        rehearsal=rehearsal,
        version_before=player.version_before,
        steps=tuple(player.steps),
        instance_changes=tuple(cluster.instance_changes),
        longest_unowned_ms=cluster.longest_gap_ms(),
        simulated_ms=simulation.now_ms,
        world_steps=simulation.steps,
        digest=simulation.digest(),
        broken=broken,
    )


class _Player:
    """The player of one rehearsal, step by step."""

    def __init__(
        self, rehearsal: Rehearsal, cluster: StreamsCluster, on_step: Callable[[UpgradeStep], None]
    ) -> None:
        self.rehearsal, self.cluster, self.on_step = rehearsal, cluster, on_step
        self.simulation = cluster.simulation
        self.steps: list[UpgradeStep] = []
        self.version_before = -1

    def play(self) -> None:
        """Bounce every instance as often as the upgrade path says. Raises LawBroken."""
        self.cluster.start()
        # The first rebalances are those of the start, which no upgrade should be blamed for.
        self._settle()
        self.version_before = self.cluster.version()
        for fault in self.rehearsal.faults:
            self.simulation.call_later(fault.at_ms * 1_000, inject, self.cluster, fault)
        for bounce in self.rehearsal.upgrade.bounces:
            for instance in self._bounce_order():
                self._bounce_one(instance, bounce)
        if self.rehearsal.faults:
            self.cluster.end_faults()
            self._settle()
            self.cluster.check_alive()
        self.cluster.checker.before_crash()

    def _bounce_order(self) -> Sequence[Instance[StreamThread]]:
        """Return the instances in the order in which a rolling bounce restarts them.

        By name, with the present leader where `rehearsal.leader` says.
        """
        # Looked up for each bounce: the one before may have moved the leadership.
        leader = self.cluster.leader_or_none()
        others = [each for each in self.cluster.instances if each is not leader]
        if leader is not None:
            when = self.rehearsal.leader
            indexes = {"first": 0, "middle": len(others) // 2, "last": len(others)}
            others.insert(indexes[when] if isinstance(when, str) else when - 1, leader)
        return others

    def _bounce_one(self, instance: Instance[StreamThread], bounce: RollingBounce) -> None:
        """Close an instance, start it as `bounce` says, wait until the group settles."""
        cluster, simulation = self.cluster, self.simulation
        number = len(self.steps) + 1
        at_ms = simulation.now_ms
        led = instance is cluster.leader_or_none()
        rebalances = cluster.checker.counters.rebalances
        known_gaps = len(cluster.gaps)
        before = cluster.owners()
        simulation.write_trace("world", f"step {number}: {instance.name} comes back as {bounce}")
        instance.close(bounce)
        for thread in instance.threads:
            cluster.start_later(thread, self.rehearsal.away_ms)
        crashed = self._crash(instance) if number == self.rehearsal.crash_at else ""
        settled_ms = self._run_through_faults() if self.rehearsal.faults else self._settle()
        after, gaps = cluster.owners(), cluster.gaps[known_gaps:]
        step = UpgradeStep(
            number=number,
            instance=instance.name,
            runs_as=bounce,
            led=led,
            at_ms=at_ms,
            took_ms=settled_ms - at_ms,
            version=cluster.version(),
            rebalances=cluster.checker.counters.rebalances - rebalances,
            moved=sum(before.get(task) != name for task, name in after.items()),
            stopped=len({task for task, _ in gaps}),
            unowned_ms=max([0, *(gap_ms for _, gap_ms in gaps)]),
            crashed=crashed,
            died=cluster.died(),
        )
        self.steps.append(step)
        self.on_step(step)
        self._check_served(step)

    def _check_served(self, step: UpgradeStep) -> None:
        """Check the law `always-served`: no task was without an owner for longer than allowed.

        The law is not checked with faults, or when an instance failed by itself.
        """
        rehearsal = self.rehearsal
        if not step.died and not rehearsal.faults and step.unowned_ms > rehearsal.max_unowned_ms:
            why = (
                f"in step {step.number} a task was active nowhere for {step.unowned_ms} ms; "
                f"{rehearsal.max_unowned_ms} are allowed."
            )
            raise LawBroken("always-served", why)

    def _crash(self, bounced: Instance[StreamThread]) -> str:
        """Kill the victim of `crash_at` while `bounced` is away; return its name, or "".

        The victim comes back after `away_ms`, like the bounced instance.
        """
        cluster, away_ms = self.cluster, self.rehearsal.away_ms
        self.simulation.run(self.simulation.now_us + away_ms * 500)
        if self.rehearsal.victim == "broker":
            cluster.crash_broker(None, True)
            self.simulation.call_later(away_ms * 1_000, cluster.start_broker)
            return "broker"
        live = [each for each in cluster.instances if each is not bounced and each.is_up]
        leader = cluster.leader_or_none()
        if not live:
            return ""
        victim = leader if self.rehearsal.victim == "leader" and leader in live else live[0]
        assert victim is not None
        for thread in victim.threads:
            # As a host that is lost: nobody leaves the group, and the session timeout decides.
            thread.die(closes_connections=False)
            cluster.start_later(thread, away_ms)
        return victim.name

    def _run_through_faults(self) -> int:
        """Let the bounced instance come back; under faults the group may never be at rest."""
        self.simulation.run(
            self.simulation.now_us
            + (self.rehearsal.away_ms + self.rehearsal.scenario.session_ms) * 1_000
        )
        return self.simulation.now_ms

    def _settle(self) -> int:
        """Run until the Streams group has been at rest for AT_REST_MS; return since when it is.

        Raises LawBroken if that takes too long, or if a law of groups at rest does not hold then.
        """
        simulation, cluster = self.simulation, self.cluster
        until_ms = simulation.now_ms + self.rehearsal.settle_timeout_ms
        since_ms: int | None = None
        while since_ms is None or simulation.now_ms - since_ms < AT_REST_MS:
            if since_ms is None and simulation.now_ms >= until_ms:
                raise LawBroken(
                    "converges",
                    f"the group has not settled within {self.rehearsal.settle_timeout_ms} ms.",
                )
            simulation.run(simulation.now_us + SLICE_US)
            is_complete = all(each.is_up or each.instance.died_of for each in cluster.threads)
            since_ms = (
                (since_ms or simulation.now_ms) if is_complete and cluster.is_at_rest() else None
            )
        cluster.check_rest()
        return since_ms
