"""Measure apportion beside Apache Kafka, kfake and Spark's own Kafka source: the program."""

import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers import bulk, membership, scale, small, spark_rows, steady
from bench.peers.brokers import Brokers
from bench.peers.command_line import parsed
from bench.peers.report import markdown, terminal_table
from bench.peers.results_file import UnreadableResults, merged, read_results, write_results
from bench.peers.rounds import Samples, Say
from bench.peers.rows import OURS, ROWS, result
from rich.console import Console
from tools.pythons import build_of

OUT = Path(__file__).parents[2] / "bench-out" / "peers.json"
FILES = 8_192  # connections and log segments of a broker
UNUSABLE, INTERRUPTED = 2, 130


class Measurement(NamedTuple):
    """What measures some rows at once: its rows, its rounds unless told, and its warm-up."""

    rows: tuple[str, ...]
    rounds: int
    warm_up: str
    measure: Callable[[Brokers, int, Say], Samples]


def spark_measurement(*jobs: str) -> Measurement:
    """Return the measurement of jobs that one session of each round has in this order."""
    return Measurement(jobs, 2, spark_rows.WARM_UP, partial(spark_rows.measure, jobs))


MEASUREMENTS = (
    Measurement(("produce_100b", "fetch_100b"), 3, bulk.WARM_UP, bulk.measure),
    # Before the rows that leave members in groups: apportion's intervals depend on how many rest.
    Measurement(("join_10x900", "leave_10x900"), 2, membership.WARM_UP, membership.measure),
    *(Measurement((row.name,), 3, row.warm_up(), row.measure) for row in steady.STEADY_ROWS),
    *(
        spark_measurement(*jobs)
        for jobs in (
            ("spark_first_batch", "spark_one_row", "spark_noop_plain", "spark_noop_lz4"),
            ("spark_available_now_3m",),
            ("spark_delta",),
        )
    ),
)

MORE_MEASUREMENTS = (
    Measurement(scale.STORM_ROWS, 3, scale.STORM_WARM_UP, scale.measure_storm),
    Measurement(scale.MANY_ROWS, 1, scale.MANY_WARM_UP, scale.measure_many_groups),
    *(Measurement((row.name,), 3, row.warm_up(), row.measure) for row in small.MORE_STEADY_ROWS),
    spark_measurement("spark_available_now_0"),
    spark_measurement("spark_available_now_10k"),
)
"""What takes too long for every run, or matters less."""


def chosen(only: str | None, *, more: bool = False) -> list[Measurement]:
    """Return the measurements that have a chosen row.

    more: of the rows that a run leaves out unless it is asked for them, instead of the others.
    """
    return [
        each
        for each in (MORE_MEASUREMENTS if more else MEASUREMENTS)
        if only is None or any(only in row for row in each.rows)
    ]


def no_row(only: str, *, more: bool) -> str:
    """Return the sentence about a text that no row's name of this kind of run holds."""
    if chosen(only, more=not more):
        return f"rows whose name holds {only!r} are measured {'without' if more else 'with'} --more"
    names = ", ".join(row.name for row in ROWS)
    return f"no row's name holds {only!r}; there are: {names}"


def measure(
    measurement: Measurement, brokers: Brokers, count: int, say: Say
) -> list[dict[str, Any]]:
    """Run one measurement of so many rounds and return its rows."""
    started = time.monotonic()
    samples = measurement.measure(brokers, count, say)
    took = time.monotonic() - started
    return [
        result(row, samples.values.get(row.name, {}), samples.missing, took)
        for row in ROWS
        if row.name in measurement.rows
    ]


def measure_all(measurements: Sequence[Measurement], rounds: int | None, say: Say) -> list[Any]:
    """Run these measurements, each kept in OUT when it is done; return their rows.

    Each row also says how the Python of this run was built, which is apportion's.
    rounds: of each; None for its own number.
    """
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, limit), limit))
    before = read_results(OUT)
    python = str(build_of(sys.executable))
    results: list[dict[str, Any]] = []
    with Brokers() as brokers:
        for measurement in measurements:
            count = rounds or measurement.rounds
            named = f"{count} round{'s' if count > 1 else ''}"
            say(f"{', '.join(measurement.rows)}: {named}; warm-up: {measurement.warm_up}")
            rows = measure(measurement, brokers, count, lambda line: say(f"  {line}"))
            results += ({**row, "python": python} for row in rows)
            say(f"  {results[-1]['seconds']} s")
            # After each measurement: a run that is interrupted keeps what it has.
            write_results(OUT, merged(before, results))
    return results


def interrupt(number: int, _frame: object) -> None:
    """End the run in order, as Ctrl-C does (a handler of signals)."""
    raise KeyboardInterrupt(number)


def main() -> int:
    """Measure the chosen rows and write OUT; return 0 if apportion has a figure in each of them."""
    options = parsed([row for each in MORE_MEASUREMENTS for row in each.rows])
    progress, console = Console(stderr=True, highlight=False, soft_wrap=True), Console(width=200)
    try:
        if options.table:
            return print_table(progress)
        wanted = chosen(options.only, more=options.more)
        if not wanted:
            progress.print(no_row(options.only, more=options.more))
            return UNUSABLE
        results = measure_all(wanted, options.rounds, progress.print)
    except UnreadableResults as error:
        progress.print(str(error))
        return UNUSABLE
    except KeyboardInterrupt:
        progress.print(f"interrupted: bench-out/{OUT.name} has the rows that were done")
        return INTERRUPTED
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        console.print(terminal_table(results))
    progress.print(f"written: bench-out/{OUT.name}")
    without = [row["name"] for row in results if row["ours"] is None]
    if without:
        progress.print(f"no figure of {', '.join(without)}: those of an earlier run stay")
    return 1 if any(OURS in row["missing"] for row in results) else 0


def print_table(progress: Console) -> int:
    """Print the results of earlier runs; return the exit code. Raises UnreadableResults."""
    results = read_results(OUT)
    if not results:
        progress.print(f"there is no bench-out/{OUT.name} yet: run make bench-peers first")
        return UNUSABLE
    print(markdown(results))
    return 0


if __name__ == "__main__":
    # From `timeout`, and from a terminal that closes: brokers and their directories are to go, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    sys.exit(main())
