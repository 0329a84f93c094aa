"""The test matrix of KIP-268, as it stands in the document: each upgrade in it is played, also with
somebody dying on the way.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from apportion.sim.streams.play import RehearsalResult, rehearse
from apportion.sim.streams.rehearsal import LEADERS, VICTIMS, Rehearsal

FROM = ("0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0")
TO = ("0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0", "post-2.0")
BACKPORTED = TO[:5]
"""Where the document marks an upgrade with (*): it needs KAFKA-6054 in a release that was made
without it.
"""
NOBODY = "nobody"
CRASHES = (NOBODY, *VICTIMS)
INSTANCES, PARTITIONS = 3, 3


class MatrixRun(NamedTuple):
    """One way to play one cell: when the leader is bounced, and who dies in the middle."""

    from_: str
    to: str
    leader: str
    crash: str
    seed: int = 0

    @property
    def rehearsal(self) -> Rehearsal:
        """What is played."""
        plain = Rehearsal(
            from_=self.from_,
            to=self.to,
            instances=INSTANCES,
            partitions=PARTITIONS,
            leader=self.leader,
            seed=self.seed,
        )
        if self.crash == NOBODY:
            return plain
        steps = INSTANCES * len(plain.upgrade.bounces)
        return plain.with_crash(steps // 2 + 1, self.crash)


class MatrixResult(NamedTuple):
    """What came of it. versions: in use before the first step and after each. why: the law that
    broke, or who died; "" if none.
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
    """Every upgrade of the matrix, row by row."""
    order = (FROM[0], *TO)
    return ((from_, to) for from_ in FROM for to in TO if order.index(to) > order.index(from_))


def matrix_runs(
    seed: int = 0, leaders: Iterable[str] = LEADERS, crashes: Sequence[str] = CRASHES
) -> list[MatrixRun]:
    """Every cell, with the leader bounced first, in between and last, and with everybody alive or
    somebody dead in the middle.
    """
    return [
        MatrixRun(*cell, leader, crash, seed)
        for cell in cells()
        for leader in leaders
        for crash in crashes
    ]


def play_run(play: MatrixRun) -> MatrixResult:
    """What came of that play."""
    return _result(play, rehearse(play.rehearsal))


def _result(play: MatrixRun, rehearsed: RehearsalResult) -> MatrixResult:
    why = str(rehearsed.broken or "") or next(
        (f"{name} died: {why}" for name, why in rehearsed.died.items()), ""
    )
    way = play.rehearsal.upgrade
    return MatrixResult(
        *play,
        bounces=len(way.bounces),
        upgrade_from=way.upgrade_from,
        versions=(rehearsed.version_before, *(step.version for step in rehearsed.steps)),
        longest_unowned_ms=rehearsed.longest_unowned_ms,
        allowed_ms=play.rehearsal.max_unowned_ms,
        rebalances=sum(step.rebalances for step in rehearsed.steps),
        why=why,
    )
