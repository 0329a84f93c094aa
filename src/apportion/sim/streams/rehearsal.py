"""A rehearsal: a rolling upgrade of a Streams application, simulated before it is done.

Set by the user of `apportion streams rehearse` or drawn from a seed. `play.py` plays it against the
simulated broker, in simulated time. A rolling bounce restarts all instances one after the other;
each restart is one step.
"""

from dataclasses import dataclass, replace

from apportion.member.settings import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from apportion.settings import Setting, declared, fault_or_none, takes_number
from apportion.sim.kernel.scenario import Fault, Scenario
from apportion.sim.kernel.settings import CLASSIC
from apportion.sim.streams.settings import LEADERS, VICTIMS, BounceSettings, UpgradeSettings
from apportion.streams.metadata.releases import RELEASES, known_release
from apportion.streams.metadata.upgrades import UpgradePath, forced_upgrade_path, upgrade_path
from apportion.streams.settings import PROBING_REBALANCE_INTERVAL_MS

SETTINGS = {**declared(UpgradeSettings), **declared(BounceSettings)}
PROBING_MS = Setting(
    "probing.rebalance.interval.ms.",
    PROBING_REBALANCE_INTERVAL_MS.default,
    at_least=1_000,  # less than Kafka Streams takes, for short histories
    at_most=86_400_000,
    name="probing_ms",
    type=int,
)
# `session.timeout.ms` of consumers before 3.0 and since (KIP-735)
EARLY_SESSION_MS, SESSION_MS = 10_000, SESSION_TIMEOUT_MS.default

REBALANCE_MS = 60_000
SETTLE_ALLOWANCE_MS = 60_000
"""Simulated time, besides waiting for dead members, for a group to settle."""

REBALANCE_ALLOWANCE_MS = 5_000
"""Simulated time for one rebalance, in which its tasks have no owner."""


class RehearsalRefused(ValueError):
    """The rehearsal is impossible; the text is one sentence for the user."""


def _check_number(setting: Setting, value: object) -> None:
    """Raise RehearsalRefused for a value that is no whole number or is out of bounds."""
    if (fault := fault_or_none(setting, value)) is not None:
        raise RehearsalRefused(f"{setting.name} must {fault}, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """One rehearsed rolling upgrade, in simulated time. Impossible values raise RehearsalRefused.

    from_, to: releases of Kafka Streams.

    threads: `num.stream.threads`. leader: when the group's leader is bounced: "first", "middle",
    "last", or as the N-th; the leader is looked up when a rolling bounce begins. crash_at: the
    step, counted through all bounces, at which `victim` dies while the instance of that step is
    away. bounces: how many rolling bounces, even if they are too few; None: as many as are needed.
    away_ms: how long an instance needs to come back. session_ms: the session timeout; None: the
    default of the releases' consumers. probing_ms: `probing.rebalance.interval.ms`.
    """

    from_: str
    to: str
    instances: int = SETTINGS["instances"].default
    partitions: int = SETTINGS["partitions"].default
    standbys: int = SETTINGS["standbys"].default
    threads: int = SETTINGS["threads"].default
    leader: str | int = SETTINGS["leader"].default
    crash_at: int | None = None
    victim: str = SETTINGS["victim"].default
    bounces: int | None = None
    seed: int = SETTINGS["seed"].default
    away_ms: int = SETTINGS["away_ms"].default
    session_ms: int | None = None
    probing_ms: int = PROBING_MS.default
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        """Check the sizes and names of the rehearsal; raise RehearsalRefused."""
        for setting in (*SETTINGS.values(), PROBING_MS):
            if takes_number(setting):
                _check_number(setting, getattr(self, setting.name))
        try:
            steps = self.instances * len(self.upgrade.bounces)
        except ValueError as error:
            raise RehearsalRefused(str(error)) from error
        _check_number(replace(SETTINGS["crash_at"], at_most=steps), self.crash_at)
        if self.leader not in LEADERS:
            leader = replace(
                SETTINGS["leader"], type=int, at_least=1, at_most=self.instances, choices=()
            )
            _check_number(leader, self.leader)
        if self.victim not in VICTIMS:
            raise RehearsalRefused(
                f"there is no victim {self.victim!r}; there are {', '.join(VICTIMS)}"
            )
        if self.crash_at is not None and self.instances == 1 and self.victim != "broker":
            raise RehearsalRefused(
                "with one instance, which is away, there is nobody else to die; but "
                "victim broker can"
            )

    @property
    def upgrade(self) -> UpgradePath:
        """The rolling bounces of the rehearsed upgrade, in order.

        As many as the upgrade needs, or as many as the user asks for (`bounces`). Raises ValueError
        if there is no way from the release of Kafka Streams `from_` to `to`.
        """
        return (
            upgrade_path(self.from_, self.to)
            if self.bounces is None
            else forced_upgrade_path(self.from_, self.to, self.bounces)
        )

    @property
    def scenario(self) -> Scenario:
        """The simulated cluster in which the upgrade is rehearsed."""
        session = self.session_ms or min(session_ms(self.from_), session_ms(self.to))
        return Scenario(
            seed=self.seed,
            workers=self.instances * self.threads,
            readers=0,
            topics=1,
            partitions=self.partitions,
            duration_ms=max([1_000, *(fault.at_ms for fault in self.faults)]),
            session_ms=session,
            # Kafka's default, but no more than a third of the session timeout, as Kafka advises.
            heartbeat_ms=min(HEARTBEAT_INTERVAL_MS.default, session // 3),
            rebalance_ms=REBALANCE_MS,
            protocol=CLASSIC,
            faults=self.faults,
        )

    @property
    def settle_timeout_ms(self) -> int:
        """Simulated time within which the group must settle after a step of a rehearsed upgrade.

        If the group is not at rest by then, the law `converges` is broken. A dead member is noticed
        after its session timeout. Then all rejoin, up to twice, and each time may wait for a member
        that is away, and for its session timeout.
        """
        return 3 * self.scenario.session_ms + 2 * self.away_ms + SETTLE_ALLOWANCE_MS

    @property
    def max_unowned_ms(self) -> int:
        """Simulated time for which a task may be active nowhere in one step without faults.

        The task's instance is away and sends no LeaveGroup, so the group waits for its session
        timeout and then rebalances. A second crash costs as much again.
        """
        interruptions = 1 if self.crash_at is None else 2
        return interruptions * (self.scenario.session_ms + self.away_ms + REBALANCE_ALLOWANCE_MS)


def session_ms(release: str) -> int:
    """Return the default session timeout of that release's consumers: KIP-735 raised it in 3.0."""
    names = list(RELEASES)
    return (
        SESSION_MS
        if names.index(known_release(release).name) >= names.index("3.0")
        else EARLY_SESSION_MS
    )
