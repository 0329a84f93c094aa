"""The test matrix of KIP-268: plays each of its upgrades, also with a crash in the middle."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from apportion.sim.streams.play import RehearsalResult, rehearse
from apportion.sim.streams.rehearsal import Rehearsal
from apportion.sim.streams.settings import LEADERS, VICTIMS

FROM = ("0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0")
TO = ("0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0", "post-2.0")
BACKPORTED = TO[:5]
"""The targets that the KIP marks with (*): the upgrade needs KAFKA-6054, which they lack."""
NOBODY = "nobody"
CRASHES = (NOBODY, *VICTIMS)
INSTANCES, PARTITIONS = 3, 3


class MatrixRun(NamedTuple):
    """One way to play one cell: when the leader is bounced, and what crashes in the middle."""

    from_: str
    to: str
    leader: str
    crash: str
    seed: int = 0

    @property
    def rehearsal(self) -> Rehearsal:
        """The rehearsed upgrade of this run of KIP-268's matrix."""
        without_crash = Rehearsal(
            from_=self.from_,
            to=self.to,
            instances=INSTANCES,
            partitions=PARTITIONS,
            leader=self.leader,
            seed=self.seed,
        )
        if self.crash == NOBODY:
            return without_crash
        steps = INSTANCES * len(without_crash.upgrade.bounces)
        return replace(without_crash, crash_at=steps // 2 + 1, victim=self.crash)


class MatrixResult(NamedTuple):
    """The result of one run.

    versions: the metadata versions in use before the first step and after each. why: the law that
    broke, or the instance that failed; "" if every law held.
    """

    from_: str
    to: str
    leader: str
    crash: str
    seed: int
    bounces: int
    upgrade_from: str | None
    versions: tuple[int, ...]
    longest_unowned_ms: int
    allowed_ms: int
    rebalances: int
    why: str

    @property
    def holds(self) -> bool:
        """True where every law held."""
        return not self.why


def cells() -> Iterator[tuple[str, str]]:
    """Return every upgrade of the matrix as (from, to), row by row."""
    order = (FROM[0], *TO)
    return ((from_, to) for from_ in FROM for to in TO if order.index(to) > order.index(from_))


def matrix_runs(
    seed: int = 0, leaders: Iterable[str] = LEADERS, crashes: Sequence[str] = CRASHES
) -> list[MatrixRun]:
    """Return every rehearsal of every upgrade in KIP-268's matrix.

    Each upgrade is played with the leader bounced first, in between and last, and for each of these
    without a crash and with a crash of each kind.
    """
    return [
        MatrixRun(*cell, leader, crash, seed)
        for cell in cells()
        for leader in leaders
        for crash in crashes
    ]


def play_run(run: MatrixRun) -> MatrixResult:
    """Play that run."""
    return _result(run, rehearse(run.rehearsal))


def _result(run: MatrixRun, result: RehearsalResult) -> MatrixResult:
    """Return the figures of a played rehearsal of KIP-268's matrix."""
    why = str(result.broken or "") or next(
        (f"{name} died: {why}" for name, why in result.died.items()), ""
    )
    path = run.rehearsal.upgrade
    return MatrixResult(
        *run,
        bounces=len(path.bounces),
        upgrade_from=path.upgrade_from,
        versions=(result.version_before, *(step.version for step in result.steps)),
        longest_unowned_ms=result.longest_unowned_ms,
        allowed_ms=run.rehearsal.max_unowned_ms,
        rebalances=sum(step.rebalances for step in result.steps),
        why=why,
    )
