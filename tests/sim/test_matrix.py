"""KIP-268's test matrix: what the document says of each upgrade, and what happens to the group in
the simulator.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from apportion.sim.seed_pool import usable_cores
from apportion.sim.streams.matrix import (
    CRASHES,
    INSTANCES,
    MatrixResult,
    MatrixRun,
    cells,
    matrix_runs,
    play_run,
)

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


@pytest.fixture(scope="module")
def everything() -> list[MatrixResult]:
    with ProcessPoolExecutor(
        min(usable_cores(), 4), mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        return list(pool.map(play_run, matrix_runs(), chunksize=14))


def test_the_cells_are_those_of_the_document() -> None:
    rows = (row.split(": ") for row in TABLE.strip().splitlines())
    assert list(cells()) == [(from_, to) for from_, tos in rows for to in tos.split()]


def test_every_law_holds_in_every_upgrade_however_it_is_played(
    everything: list[MatrixResult],
) -> None:
    assert [
        (one.from_, one.to, one.leader, one.crash, one.why) for one in everything if not one.holds
    ] == []
    assert len(everything) == 28 * 3 * len(CRASHES)


def test_every_upgrade_takes_the_bounces_of_the_document_and_speaks_its_versions(
    everything: list[MatrixResult],
) -> None:
    results = [
        (one.from_, one.to, one.leader, one.crash, one.bounces, one.upgrade_from, one.versions)
        for one in everything
    ]
    assert results == [(*play[:4], *expected(play.from_, play.to)) for play in matrix_runs()]


def test_the_application_never_stands_still_for_longer_than_one_session_and_a_little(
    everything: list[MatrixResult],
) -> None:
    assert [
        one
        for one in everything
        if one.longest_unowned_ms > (UNDISTURBED_MS if one.crash == "nobody" else DISTURBED_MS)
    ] == []


def test_a_play_is_the_same_whenever_it_is_played() -> None:
    play = MatrixRun("1.1", "2.0", "middle", "leader", seed=7)
    assert play_run(play) == play_run(play)
