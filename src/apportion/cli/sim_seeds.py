"""The command `apportion sim --runs`: thousands of histories, in processes here or on Spark."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from apportion.cli.failures import FAILED
from apportion.cli.sim_options import SimOptions
from apportion.cli.spark_sessions import spark_session
from apportion.sim.kernel.outcome import Violation
from apportion.sim.kernel.scenario import ScenarioRefused
from apportion.sim.seed_pool import PlayScenario, RunTotals, outcomes, usable_cores

INTERRUPTED = 130  # exit code after Ctrl-C
EXTREMES = ("slowest_convergence_s", "longest_unowned_s")  # figures whose sum says nothing


class _Speed(ProgressColumn):
    """Seeds a second, of the terminal alone."""

    def render(self, task: Task) -> Text:
        """Return the speed so far."""
        return Text(f"{task.finished_speed or task.speed or 0:.1f} seeds/s", style="dim")


class Failure(NamedTuple):
    """A seed that fails, and the law that it breaks."""

    seed: int
    broken: Violation


def play_here(options: SimOptions, play: PlayScenario) -> int:
    """Play the seeds in processes of this machine, print the verdict, and return the exit code.

    After Ctrl-C the verdict is on the seeds that were played.
    """
    runs, first = options.runs or 1, options.first or 0
    figures, failures, stopped = RunTotals(), list[Failure](), False
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    try:
        with (
            Progress(
                *columns,
                console=console,
                disable=not console.is_terminal,
                redirect_stdout=False,
                transient=True,
            ) as progress,
            closing(
                outcomes(
                    range(first, first + runs), options.jobs or usable_cores(), options.draw, play
                )
            ) as played,
        ):
            seeds = progress.add_task("seeds", total=runs)
            for outcome in played:
                figures = figures.plus(outcome)
                if outcome.broken is not None:
                    failures.append(Failure(outcome.seed, outcome.broken))
                    progress.update(
                        seeds, description=f"seeds ({len(failures):,} failed, {outcome.seed} last)"
                    )
                progress.advance(seeds)
    except KeyboardInterrupt:
        stopped = True
    # By seed: processes end in any order, and the same seeds must print the same report.
    _print_verdict(options, figures, sorted(failures))
    return INTERRUPTED if stopped else FAILED if failures else 0


def play_on_spark(options: SimOptions, play: PlayScenario) -> int:
    """Play the seeds on a Spark master, print a summary and the verdict; return the exit code."""
    if options.out and Path(options.out).exists():
        raise ScenarioRefused(
            f"--out {options.out} is there already: name a directory that is not."
        )
    with spark_session(options.spark or "local", ScenarioRefused) as spark:
        from apportion.spark import seeds as spark_seeds

        frame = spark_seeds.seeds(
            spark,
            options.runs or 1,
            options.first or 0,
            kinds=options.draw.kinds,
            play=play,
            **options.draw.sizes,
        )
        if options.out:
            frame.write.parquet(options.out)
            # Read back instead of simulated again: each action on the first frame would play all
            # the seeds once more.
            frame = spark.read.parquet(options.out)
        frame = frame.cache()
        summary = spark_seeds.summary(frame).collect()
        broken = frame.where(frame.verdict != spark_seeds.HOLDS).orderBy("seed").collect()
    failures = [
        Failure(row.seed, Violation(row.verdict, round(row.broken_at_s * 1_000), row.why))
        for row in broken
    ]
    if not options.as_json:
        _print_summary(summary)
    _print_verdict(options, _figures(summary), failures)
    return FAILED if failures else 0


def _figures(summary: list[Any]) -> RunTotals:
    """Return the totals of all seeds, from the rows of the summary."""
    total = {row.figure: row.total for row in summary}
    most = {row.figure: row.most for row in summary}
    return RunTotals(
        seeds=summary[0].seeds,
        steps=round(total["steps"]),
        simulated_ms=round(total["simulated_s"] * 1_000),
        rebalances=round(total["rebalances"]),
        slowest_convergence_ms=round(most["slowest_convergence_s"] * 1_000),
        longest_unowned_ms=round(most["longest_unowned_s"] * 1_000),
        rows=round(total["rows"]),
        commits=round(total["commits"]),
        crashes=round(total["crashes"]),
    )


def _print_summary(summary: list[Any]) -> None:
    """Print the figures of all seeds as a table: total, median, 99th percentile, most."""
    table = Table("of a seed", "total", "median", "99 %", "most")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in summary:
        decimals = 1 if row.figure.endswith("_s") else 0
        name = row.figure.removesuffix("_s").replace("_", " ") + (", seconds" if decimals else "")
        total = "" if row.figure in EXTREMES else f"{row.total:,.{decimals}f}"
        table.add_row(
            name, total, *(f"{value:,.{decimals}f}" for value in (row.median, row.p99, row.most))
        )
    Console(highlight=False).print(table)


def _print_verdict(options: SimOptions, figures: RunTotals, failures: list[Failure]) -> None:
    """Print the failing seeds with their commands and the verdict; or one JSON object."""
    if options.as_json:
        verdict = (
            "broken" if failures else "holds" if figures.seeds == options.runs else "interrupted"
        )
        failed = [
            {"seed": seed, **broken._asdict(), "command": options.command(seed)}
            for seed, broken in failures
        ]
        report = {
            "verdict": verdict,
            "first": options.first or 0,
            "runs": options.runs,
            "figures": figures._asdict(),
            "failed": failed,
        }
        print(json.dumps(report, indent=2))
        return
    for seed, broken in failures:
        print(f"seed {seed} breaks {broken}\n    {options.command(seed)}")
    print(verdict_line(figures, len(failures), options.runs or 1))


def verdict_line(figures: RunTotals, failed: int, runs: int) -> str:
    """Return the result of all seeds in one line."""
    played = f"{figures.seeds:,} seed{'s' * (figures.seeds != 1)}"
    counted = (
        f"{failed:,} of {played} fail{'s' * (failed == 1)}"
        if failed
        else f"{played} hold{'s' * (figures.seeds == 1)}"
    )
    cut = "" if figures.seeds == runs else f"interrupted before {runs:,}: "
    return f"{cut}{counted}: {figures}"
