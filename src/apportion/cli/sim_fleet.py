"""`apportion sim --runs`: thousands of histories, in processes here or on Spark, and one line that says what they came to."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from apportion.cli.sim_options import Wish
from apportion.sim.fleet import Figures, Play, cores, outcomes
from apportion.sim.kernel.outcome import Broken
from apportion.sim.kernel.scenario import ScenarioRefused

BROKEN = 1  # exit code where a law broke
INTERRUPTED = 130  # exit code after Ctrl-C
EXTREMES = ("slowest_convergence_s", "longest_unowned_s")  # figures whose sum says nothing


class _Speed(ProgressColumn):
    """Seeds a second, of the terminal alone."""

    def render(self, task: Task) -> Text:
        """The speed so far."""
        return Text(f"{task.finished_speed or task.speed or 0:.1f} seeds/s", style="dim")


class Failure(NamedTuple):
    """A seed that fails, and the law that it breaks."""

    seed: int
    broken: Broken


def play_here(wish: Wish, play: Play) -> int:
    """The seeds are played in processes of this machine, and told; the exit code. After Ctrl-C those that were played are told."""
    runs, first = wish.runs or 1, wish.first or 0
    figures, failures, stopped = Figures(), list[Failure](), False
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Speed(), TimeRemainingColumn())
    console = Console(stderr=True)
    try:
        with (
            Progress(*columns, console=console, disable=not console.is_terminal, redirect_stdout=False, transient=True) as progress,
            closing(outcomes(range(first, first + runs), wish.jobs or cores(), wish.draw, play)) as found,
        ):
            shown = progress.add_task("seeds", total=runs)
            for outcome in found:
                figures = figures.plus(outcome)
                if outcome.broken is not None:
                    failures.append(Failure(outcome.seed, outcome.broken))
                    progress.update(shown, description=f"seeds ({len(failures):,} failed, {outcome.seed} last)")
                progress.advance(shown)
    except KeyboardInterrupt:
        stopped = True
    _tell(wish, figures, sorted(failures))
    return INTERRUPTED if stopped else BROKEN if failures else 0


def play_on_spark(wish: Wish, play: Play) -> int:
    """The seeds are played on the Spark master of the wish, summed up in a table, and told; the exit code."""
    try:
        from apportion.spark import seeds as spread
    except ModuleNotFoundError as error:
        library = (error.name or "pyspark").split(".")[0]
        raise ScenarioRefused(f"--spark needs {library}, which is not installed: pip install 'apportion[spark]'.") from None
    if wish.out and Path(wish.out).exists():
        raise ScenarioRefused(f"--out {wish.out} is there already: name a directory that is not.")
    try:
        spark = spread.session(wish.spark or "local")
        try:
            frame = spread.seeds(spark, wish.runs or 1, wish.first or 0, kinds=wish.draw.kinds, play=play, **wish.draw.sizes)
            if wish.out:
                frame.write.parquet(wish.out)
                frame = spark.read.parquet(wish.out)
            frame = frame.cache()
            summary = spread.summary(frame).collect()
            broken = frame.where(frame.verdict != spread.HOLDS).orderBy("seed").collect()
        finally:
            spark.stop()
    except spread.SparkError as error:
        raise ScenarioRefused(f"Spark says: {str(error).strip().splitlines()[0]}") from error
    failures = [Failure(row.seed, Broken(row.verdict, round(row.broken_at_s * 1_000), row.why)) for row in broken]
    if not wish.as_json:
        _print_summary(summary)
    _tell(wish, _figures(summary), failures)
    return BROKEN if failures else 0


def _figures(summary: list[Any]) -> Figures:
    """The figures that stand in the rows of a summary."""
    total = {row.figure: row.total for row in summary}
    most = {row.figure: row.max_extra for row in summary}
    return Figures(
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
    table = Table("of a seed", "total", "median", "99 %", "most")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in summary:
        places = 1 if row.figure.endswith("_s") else 0
        name = row.figure.removesuffix("_s").replace("_", " ") + (", seconds" if places else "")
        total = "" if row.figure in EXTREMES else f"{row.total:,.{places}f}"
        table.add_row(name, total, *(f"{value:,.{places}f}" for value in (row.median, row.p99, row.max_extra)))
    Console(highlight=False).print(table)


def _tell(wish: Wish, figures: Figures, failures: list[Failure]) -> None:
    """The failing seeds with their commands, then the verdict in one line; or one JSON object."""
    if wish.as_json:
        verdict = "broken" if failures else "holds" if figures.seeds == wish.runs else "interrupted"
        failed = [{"seed": seed, **broken._asdict(), "command": wish.command(seed)} for seed, broken in failures]
        told = {"verdict": verdict, "first": wish.first or 0, "runs": wish.runs, "figures": figures._asdict(), "failed": failed}
        print(json.dumps(told, indent=2))
        return
    for seed, broken in failures:
        print(f"seed {seed} breaks {broken}\n    {wish.command(seed)}")
    print(verdict_line(figures, len(failures), wish.runs or 1))


def verdict_line(figures: Figures, failed: int, runs: int) -> str:
    """All that the seeds came to, in one line."""
    played = f"{figures.seeds:,} seed{'s' * (figures.seeds != 1)}"
    said = f"{failed:,} of {played} fail{'s' * (failed == 1)}" if failed else f"{played} hold{'s' * (figures.seeds == 1)}"
    cut = "" if figures.seeds == runs else f"interrupted before {runs:,}: "
    return f"{cut}{said}: {figures}"
