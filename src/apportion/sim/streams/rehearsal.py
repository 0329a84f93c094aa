"""The rehearsal of an upgrade: a Streams application is bounced, instance by instance, in a world
of its own, and what happened.

Members, coordinator and log are the real ones. Nothing befalls the world but the bounces, and what
`crash_at` wants, or the faults that somebody gives it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from apportion.sim.faults import inject
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.outcome import LawBroken, Violation
from apportion.sim.kernel.scenario import CLASSIC, Fault, Scenario, draw_faults
from apportion.sim.kernel.trace import Trace
from apportion.sim.play import raise_site
from apportion.sim.streams.cluster import InstanceChange, StreamsCluster
from apportion.sim.streams.instance import Instance
from apportion.sim.streams.thread import StreamThread
from apportion.streams.metadata.releases import RELEASES, known_release
from apportion.streams.metadata.upgrades import (
    RollingBounce,
    UpgradePath,
    forced_upgrade_path,
    upgrade_path,
)
from apportion.streams.task_assignment.client_states import AssignmentConfigs

SLICE_US = 250_000  # how often it is asked whether the group is at rest
# a group that has been at rest for so long has settled: everybody's heartbeat has been answered
# since
AT_REST_MS = 4_000
LEADERS = ("first", "middle", "last")
VICTIMS = ("instance", "leader", "broker")
# session.timeout.ms of consumers before 3.0, and since
EARLY_SESSION_MS, SESSION_MS = 10_000, 45_000
REBALANCE_MS = 60_000
REBALANCE_ALLOWANCE_MS = 5_000
# acceptable.recovery.lag, in a world in which a store grows by ten records a second
ACCEPTABLE_LAG = 100


class RehearsalRefused(ValueError):
    """An upgrade that cannot be played; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What is played. Values that cannot be are refused (RehearsalRefused).

    threads: num.stream.threads. leader: when the group's leader is bounced: "first", "middle",
    "last", or as the N-th; who leads is asked when a bounce begins. crash_at: at that step, counted
    through all bounces, `victim` dies while the step's instance is away. bounces: so many, right or
    wrong; None: as many as are needed. away_ms: how long an instance needs to come back.
    session_ms: None: as the releases' consumers have it. probing_ms: probing.rebalance.interval.ms.
    """

    from_: str
    to: str
    instances: int = 6
    partitions: int = 6
    standbys: int = 0
    threads: int = 1
    leader: str | int = "last"
    crash_at: int | None = None
    victim: str = "instance"
    bounces: int | None = None
    seed: int = 0
    away_ms: int = 3_000
    session_ms: int | None = None
    probing_ms: int = 600_000
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        try:
            steps = self.instances * len(self.upgrade.bounces)
        except ValueError as error:
            raise RehearsalRefused(str(error)) from error
        for name, value, least, most in (
            ("instances", self.instances, 1, 100),
            ("partitions", self.partitions, 1, 1_000),
            ("standbys", self.standbys, 0, 100),
            ("threads", self.threads, 1, 10),
            ("crash_at", 1 if self.crash_at is None else self.crash_at, 1, steps),
            ("leader", 1 if self.leader in LEADERS else self.leader, 1, self.instances),
            ("away_ms", self.away_ms, 1, 600_000),
            ("probing_ms", self.probing_ms, 1_000, 86_400_000),
            ("session_ms", 6_000 if self.session_ms is None else self.session_ms, 2_000, 1_800_000),
        ):
            if not isinstance(value, int) or not least <= value <= most:
                raise RehearsalRefused(
                    f"{name} must be a number from {least} to {most}, not {value!r}"
                )
        if self.victim not in VICTIMS:
            raise RehearsalRefused(
                f"there is no victim {self.victim!r}; there are {', '.join(VICTIMS)}"
            )
        if self.crash_at is not None and self.instances == 1 and self.victim != "broker":
            raise RehearsalRefused(
                "with one instance, which is away, there is nobody else to die; but "
                "victim broker can"
            )

    def with_crash(self, step: int, victim: str) -> "Rehearsal":
        """The same, but for a death at that step."""
        return replace(self, crash_at=step, victim=victim)

    @property
    def upgrade(self) -> UpgradePath:
        """The bounces that are played. ValueError if there is no way."""
        return (
            upgrade_path(self.from_, self.to)
            if self.bounces is None
            else forced_upgrade_path(self.from_, self.to, self.bounces)
        )

    @property
    def scenario(self) -> Scenario:
        """The world in which it is played. Members beat often enough for their session, as the
        clients' guide has it.
        """
        session = self.session_ms or min(session_ms(self.from_), session_ms(self.to))
        return Scenario(
            seed=self.seed,
            workers=self.instances * self.threads,
            readers=0,
            topics=1,
            partitions=self.partitions,
            duration_ms=max([1_000, *(fault.at_ms for fault in self.faults)]),
            session_ms=session,
            heartbeat_ms=min(3_000, session // 3),
            rebalance_ms=REBALANCE_MS,
            protocol=CLASSIC,
            faults=self.faults,
        )

    @property
    def bound_ms(self) -> int:
        """How long the group may need to settle after a step: who died is found out after a
        session, then all join again, twice.
        """
        return 3 * self.scenario.session_ms + 2 * self.away_ms + 60_000

    @property
    def served_ms(self) -> int:
        """How long a task may be active nowhere while nothing but this befalls the group.

        Its instance is away, is missed after a session, and all have to agree; whoever dies
        meanwhile costs as much again.
        """
        disturbed = 1 if self.crash_at is None else 2
        return disturbed * (self.scenario.session_ms + self.away_ms + REBALANCE_ALLOWANCE_MS)


class UpgradeStep(NamedTuple):
    """One step, once the group has settled.

    at_ms: when it began. version: in which all work then. led: the instance led the group before.
    moved: tasks that another instance owns than before. stopped: tasks that were active nowhere for
    a while; unowned_ms: for how long at the longest.
    crashed: who died on the way, "" if nobody. died: instances that cannot be members, with their
    reasons.
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
    """What came of it. version_before: of the group's metadata at the beginning. broken: the law
    that broke, and ended it.
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
        """Every instance that could not be a member at some time, and why."""
        return {name: why for step in self.steps for name, why in step.died.items()}

    @property
    def held(self) -> bool:
        """True where every law held and nobody died that was not killed."""
        return self.broken is None and not self.died

    @property
    def final_version(self) -> int:
        """The metadata version in the end."""
        return self.steps[-1].version if self.steps else self.version_before


FAULTS = (
    *("broker-crash", "broker-pause", "disk-refuses", "crash", "restart", "roll", "pause", "slow"),
    *("cut", "half-open-up", "half-open-down", "lost-reply", "clock-jump"),
)
"""Faults that may befall the world of a rehearsal: those that leave its topics and its topology as
they are.
"""
UPGRADES = (
    *(
        ("0.10.0", "1.1"),
        ("1.1", "2.0"),
        ("2.0", "post-2.0"),
        ("2.0", "2.3"),
        ("2.3", "3.9"),
        ("1.1", "4.0"),
        ("2.4", "4.3"),
    ),
    *(
        ("4.3", "future"),
        ("future", "4.3"),
        ("4.0", "2.3"),
        ("3.9", "1.1"),
        ("2.3", "1.1"),
        ("post-2.0", "2.0"),
    ),
)


def draw_rehearsal(seed: int, kinds: Sequence[str] = FAULTS, threads: int = 1) -> Rehearsal:
    """The upgrade of that seed, in a world with faults of these kinds, each of which befalls a
    thread or the broker.
    """
    rng = Random(f"{seed} rehearsal")
    from_, to = rng.choice(UPGRADES)
    plain = Rehearsal(
        from_=from_,
        to=to,
        instances=rng.randint(2, 5),
        partitions=rng.randint(1, 6),
        standbys=rng.choice((0, 0, 1, 2)),
        threads=threads,
        leader=rng.choice(LEADERS),
        seed=seed,
        away_ms=rng.choice((500, 3_000, 15_000)),
        session_ms=rng.choice((4_000, 6_000, 10_000)),
        probing_ms=rng.choice((20_000, 600_000)),
    )
    steps = plain.instances * len(plain.upgrade.bounces)
    world = replace(plain.scenario, duration_ms=steps * (plain.away_ms + plain.scenario.session_ms))
    return replace(plain, faults=draw_faults(world, tuple(kinds)))


def session_ms(release: str) -> int:
    """The session timeout of that release's consumers."""
    names = list(RELEASES)
    return (
        SESSION_MS
        if names.index(known_release(release).name) >= names.index("3.0")
        else EARLY_SESSION_MS
    )


def rehearse(
    rehearsal: Rehearsal,
    trace: Trace | None = None,
    on_step: Callable[[UpgradeStep], None] = lambda step: None,
) -> RehearsalResult:
    """What becomes of that upgrade. told: hears of each step when it has ended."""
    simulation = Simulation(rehearsal.scenario, trace)
    policy = AssignmentConfigs(
        num_standby_replicas=rehearsal.standbys, acceptable_recovery_lag=ACCEPTABLE_LAG
    )
    first = RollingBounce(known_release(rehearsal.from_))
    instances = [
        Instance[StreamThread](f"app{number}", first)
        for number in range(1, rehearsal.instances + 1)
    ]
    cluster = StreamsCluster(simulation, instances, policy, rehearsal.probing_ms)
    player = _Player(rehearsal, cluster, on_step)
    broken = None
    try:
        player.play()
    except LawBroken as law:
        broken = Violation(law.law, simulation.now_ms, law.why)
    except Exception as error:
        broken = Violation(
            "no-defect", simulation.now_ms, f"{type(error).__name__}: {error} ({raise_site(error)})"
        )
    if broken is not None:
        simulation.write_trace("world", f"law broken: {broken}")
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
    """Plays one rehearsal, step by step."""

    def __init__(
        self, rehearsal: Rehearsal, cluster: StreamsCluster, on_step: Callable[[UpgradeStep], None]
    ) -> None:
        self.rehearsal, self.cluster, self.on_step = rehearsal, cluster, on_step
        self.simulation = cluster.simulation
        self.steps: list[UpgradeStep] = []
        self.version_before = -1

    def play(self) -> None:
        """Every instance has been bounced as often as it must be, and the group has settled."""
        self.cluster.start()
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
        """The instances in order of name, but for the one that leads now, which comes when it
        shall.
        """
        leader = self.cluster.leader_or_none()
        others = [each for each in self.cluster.instances if each is not leader]
        if leader is not None:
            wanted = self.rehearsal.leader
            places = {"first": 0, "middle": len(others) // 2, "last": len(others)}
            others.insert(places[wanted] if isinstance(wanted, str) else wanted - 1, leader)
        return others

    def _bounce_one(self, instance: Instance[StreamThread], bounce: RollingBounce) -> None:
        """The instance has come back as `bounce` says, and the group has settled."""
        cluster, simulation = self.cluster, self.simulation
        number, at_ms, led = (
            len(self.steps) + 1,
            simulation.now_ms,
            instance is cluster.leader_or_none(),
        )
        rebalances, known, before = (
            cluster.checker.counters.rebalances,
            len(cluster.gaps),
            cluster.owners(),
        )
        simulation.write_trace("world", f"step {number}: {instance.name} comes back as {bounce}")
        instance.close(bounce)
        for thread in instance.threads:
            cluster.start_later(thread, self.rehearsal.away_ms)
        crashed = self._crash(instance) if number == self.rehearsal.crash_at else ""
        rests_since_ms = self._run_through_faults() if self.rehearsal.faults else self._settle()
        after, gaps = cluster.owners(), cluster.gaps[known:]
        step = UpgradeStep(
            number=number,
            instance=instance.name,
            runs_as=bounce,
            led=led,
            at_ms=at_ms,
            took_ms=rests_since_ms - at_ms,
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
        """No task was active nowhere for too long, if it was nobody's mistake."""
        rehearsal = self.rehearsal
        if not step.died and not rehearsal.faults and step.unowned_ms > rehearsal.served_ms:
            why = (
                f"in step {step.number} a task was active nowhere for {step.unowned_ms} ms; "
                f"{rehearsal.served_ms} are allowed."
            )
            raise LawBroken("always-served", why)

    def _crash(self, bounced: Instance[StreamThread]) -> str:
        """While that instance is away another dies without a word, or the broker does; it comes
        back after the same time.
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
            thread.die(closes_connections=False)
            cluster.start_later(thread, away_ms)
        return victim.name

    def _run_through_faults(self) -> int:
        """While there are faults nobody waits for rest for long."""
        self.simulation.run(
            self.simulation.now_us
            + (self.rehearsal.away_ms + self.rehearsal.scenario.session_ms) * 1_000
        )
        return self.simulation.now_ms

    def _settle(self) -> int:
        """The group has been at rest for a while, and is as it shall be; since when. Raises
        LawBroken where that takes too long.
        """
        simulation, cluster = self.simulation, self.cluster
        until_ms = simulation.now_ms + self.rehearsal.bound_ms
        since_ms: int | None = None
        while since_ms is None or simulation.now_ms - since_ms < AT_REST_MS:
            if since_ms is None and simulation.now_ms >= until_ms:
                raise LawBroken(
                    "converges", f"the group has not settled within {self.rehearsal.bound_ms} ms."
                )
            simulation.run(simulation.now_us + SLICE_US)
            here = all(each.is_up or each.instance.died_of for each in cluster.threads)
            since_ms = (since_ms or simulation.now_ms) if here and cluster.is_at_rest() else None
        cluster.check_rest()
        return since_ms
