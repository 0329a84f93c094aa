"""KIP-268's test matrix: what the document says of each upgrade, and what happens to the group in
the simulator.

Every upgrade is played here in one of the twelve ways, and each way in two upgrades at least. The
searches of `tools/long.py` play every upgrade in every way, and the ways of other seeds.
"""

from collections import Counter

import pytest

from apportion.sim.streams.matrix import (
    CRASHES,
    INSTANCES,
    MatrixResult,
    MatrixRun,
    cells,
    matrix_runs,
    play_run,
)
from apportion.sim.streams.settings import LEADERS
from tests.profiles import simulated_seeds

SIMULATED = 12
VERSIONS = {
    "0.10.0": 1,
    **dict.fromkeys(("0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"), 2),
    "2.0": 3,
    "post-2.0": SIMULATED,
}
"""Of the document: "version 1 (0.10.0.x) and 2 (0.10.1.x, ..., 1.1.x) ... 3 in 2.0 release", and
one that is simulated.
"""
TABLE = """
0.10.0: 0.10.1 0.10.2 0.11.0 1.0 1.1 2.0 post-2.0
0.10.1: 0.10.2 0.11.0 1.0 1.1 2.0 post-2.0
0.10.2: 0.11.0 1.0 1.1 2.0 post-2.0
0.11.0: 1.0 1.1 2.0 post-2.0
1.0: 1.1 2.0 post-2.0
1.1: 2.0 post-2.0
2.0: post-2.0
"""
# a session of 10 s, 3 s away and 5 s to agree; twice that if somebody dies
UNDISTURBED_MS, DISTURBED_MS = 18_000, 36_000


def expected(from_: str, to: str) -> tuple[int, str | None, tuple[int, ...]]:
    """Bounces, upgrade.from, and the versions before the first step and after each.

    Before 2.0 no leader answers a version that it does not know, so all speak the old one until
    nobody is left who does not know the new one: a first bounce. Old assignments are made as long
    as one old subscription is received, so the version changes with the last step of the last
    bounce.
    """
    old, new = VERSIONS[from_], VERSIONS[to]
    bounces = 2 if old < 3 and old != new else 1
    return bounces, from_ if bounces == 2 else None, (*[old] * (bounces * INSTANCES), new)


WAYS = len(LEADERS) * len(CRASHES)
RUNS = [
    matrix_runs(seed)[cell * WAYS + (5 * cell + seed) % WAYS]
    for seed in simulated_seeds(1)
    for cell in range(len([*cells()]))
]
"""One run of each upgrade: five and twelve have no common divisor, so every way comes up."""


@pytest.fixture(scope="module")
def results() -> list[MatrixResult]:
    return [play_run(run) for run in RUNS]


def test_the_cells_are_those_of_the_document() -> None:
    rows = (row.split(": ") for row in TABLE.strip().splitlines())
    assert list(cells()) == [(from_, to) for from_, tos in rows for to in tos.split()]


def test_every_way_is_played_in_two_upgrades_at_least() -> None:
    assert [(run.from_, run.to) for run in RUNS[: len([*cells()])]] == [*cells()]
    ways = Counter((run.leader, run.crash) for run in RUNS)
    assert len(ways) == WAYS
    assert min(ways.values()) >= 2


def test_every_law_holds_in_every_upgrade(results: list[MatrixResult]) -> None:
    assert [result for result in results if not result.holds] == []


def test_every_upgrade_takes_the_bounces_of_the_document_and_speaks_its_versions(
    results: list[MatrixResult],
) -> None:
    assert [
        (one.from_, one.to, one.leader, one.crash, one.bounces, one.upgrade_from, one.versions)
        for one in results
    ] == [(*run[:4], *expected(run.from_, run.to)) for run in RUNS]


def test_the_application_never_stands_still_for_longer_than_one_session_and_a_little(
    results: list[MatrixResult],
) -> None:
    assert [
        one
        for one in results
        if one.longest_unowned_ms > (UNDISTURBED_MS if one.crash == "nobody" else DISTURBED_MS)
    ] == []


def test_a_play_is_the_same_whenever_it_is_played() -> None:
    play = MatrixRun("1.1", "2.0", "middle", "leader", seed=7)
    assert play_run(play) == play_run(play)
