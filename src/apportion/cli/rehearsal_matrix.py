"""The command `apportion streams rehearse --matrix`: every upgrade of KIP-268's test matrix.

The upgrades are played in processes here or on Spark; the output is one table.
"""

import json
import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from apportion.cli.failures import FAILED
from apportion.cli.lines import print_sentence, report_console
from apportion.cli.spark_sessions import spark_session
from apportion.sim.seed_pool import usable_cores
from apportion.sim.streams.matrix import (
    BACKPORTED,
    FROM,
    TO,
    MatrixResult,
    MatrixRun,
    cells,
    matrix_runs,
    play_run,
)
from apportion.sim.streams.rehearsal import RehearsalRefused

PIPED_COLUMNS = 120


class Cell(NamedTuple):
    """One upgrade of the matrix, with the results of all its plays."""

    from_: str
    to: str
    plays: tuple[MatrixResult, ...]

    @property
    def failed(self) -> tuple[MatrixResult, ...]:
        """The plays in which a law broke."""
        return tuple(each for each in self.plays if not each.holds)

    @property
    def longest_unowned_ms(self) -> int:
        """The longest time in any play that a task had no owner."""
        return max(each.longest_unowned_ms for each in self.plays)

    def __str__(self) -> str:
        """Return the text of the table's cell: bounces, then the longest time without an owner.

        Where rehearsals failed it has their number in place of the time.
        """
        text = (
            f"{len(self.failed)} of {len(self.plays)} fail"
            if self.failed
            else f"{self.longest_unowned_ms / 1000:.1f} s"
        )
        mark = "*" if self.to in BACKPORTED else " "
        return f"{self.plays[0].bounces} x {text:>6}{mark}"


def run_matrix(seed: int, as_json: bool, spark: str | None, jobs: int | None) -> int:
    """Play and print the whole matrix; return the exit code.

    jobs: processes to play in; None for as many as there are cores.
    """
    runs = matrix_runs(seed)
    outcomes = _play_on_spark(spark, runs) if spark else _play_here(runs, jobs or usable_cores())
    by_cell: dict[tuple[str, str], list[MatrixResult]] = {cell: [] for cell in cells()}
    for result in outcomes:
        by_cell[result.from_, result.to].append(result)
    # Sorted, because Spark returns the rows in any order.
    table = [Cell(*cell, tuple(sorted(results))) for cell, results in by_cell.items()]
    if as_json:
        print(json.dumps([_cell_json(cell) for cell in table], indent=2))
    else:
        _show(table)
    return FAILED if any(cell.failed for cell in table) else 0


def _play_here(runs: list[MatrixRun], jobs: int) -> list[MatrixResult]:
    """Play the rehearsals of the matrix in processes of this machine, with a progress bar.

    Raises RehearsalRefused if one of the processes was killed.
    """
    console = Console(stderr=True)
    try:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            return list(
                track(
                    pool.map(play_run, runs, chunksize=4),
                    "upgrades",
                    total=len(runs),
                    console=console,
                    transient=True,
                    disable=not console.is_terminal,
                )
            )
    except BrokenProcessPool:
        raise RehearsalRefused(
            "a process that played some of the upgrades was killed: is there enough memory?"
        ) from None


def _play_on_spark(master: str, runs: list[MatrixRun]) -> list[MatrixResult]:
    """Play the rehearsals of the matrix on Spark; return their results.

    Raises RehearsalRefused if Spark is not installed or fails.
    """
    with spark_session(master, RehearsalRefused) as spark:
        from apportion.spark.rehearsals import rehearsals

        rows = rehearsals(spark, runs).collect()
    return [MatrixResult(**dict(row.asDict(), versions=tuple(row.versions))) for row in rows]


def _show(cells: Iterable[Cell]) -> None:
    """Print the matrix as a table: a row for each old release, a column for each new one.

    Below it stand the rehearsals that failed, each with its reason.
    """
    at = {(cell.from_, cell.to): cell for cell in cells}
    table = Table(
        "from",
        *(f"to {to}" for to in TO),
        title="KIP-268's matrix: rolling bounces, and the longest time without an owner",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for from_ in FROM:
        row = (at.get((from_, to)) for to in TO)
        table.add_row(from_, *("" if cell is None else str(cell) for cell in row))
    console = report_console(PIPED_COLUMNS)
    console.print(table)
    results = [result for cell in at.values() for result in cell.plays]
    console.print(
        "* needs KAFKA-6054 brought back to that release. post-2.0 speaks a metadata "
        "version that no release speaks yet."
    )
    print_sentence(
        console,
        f"{len(at)} upgrades, {len(results)} ways to play them: the leader bounced first, "
        "in between and last; "
        "nobody, an instance, the leader or the broker dies in the middle.",
    )
    for result in results:
        if not result.holds:
            print_sentence(
                console,
                f"{result.from_} to {result.to}, leader {result.leader}, {result.crash} dies: "
                f"{result.why}",
            )
    failed = sum(not result.holds for result in results)
    console.print(f"{failed} of them fail" if failed else "all hold")


def _cell_json(cell: Cell) -> dict[str, Any]:
    """Return one upgrade of the matrix, with all its rehearsals, for --json."""
    first = cell.plays[0]
    return {
        "from": cell.from_,
        "to": cell.to,
        "backported": cell.to in BACKPORTED,
        "bounces": first.bounces,
        "upgrade_from": first.upgrade_from,
        "held": not cell.failed,
        "longest_unowned_ms": cell.longest_unowned_ms,
        "plays": [
            {
                "leader": result.leader,
                "crash": result.crash,
                "versions": result.versions,
                "longest_unowned_ms": result.longest_unowned_ms,
                "allowed_ms": result.allowed_ms,
                "rebalances": result.rebalances,
                "why": result.why,
            }
            for result in cell.plays
        ],
    }
