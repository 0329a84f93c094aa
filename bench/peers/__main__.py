"""Measure apportion beside Apache Kafka, kfake and Spark's own Kafka source, in one run.

Each row is measured in rounds, A B C A B C, so that all sides meet the same machine. A figure is
the median of its rounds; a ratio above 1 means that apportion is better. A peer that cannot be had
is named with the reason, and no figure stands without a peer of the same run.

Needs Java 17 or newer and Maven for Kafka and the connector, Go for kfake and for the load of small
requests. What they fetch goes to bench/peers/target, at pinned versions. Leave the machine alone
meanwhile: two cores are shared by load and broker.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers import bulk, membership, scale, small, spark_rows, steady
from bench.peers.brokers import Brokers
from bench.peers.report import markdown, terminal_table
from bench.peers.rounds import Samples, Say
from bench.peers.rows import OURS, ROWS, merged, result
from rich.console import Console

OUT = Path(__file__).parents[2] / "bench-out" / "peers.json"
FILES = 8_192  # connections and log segments of a broker


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


def epilog() -> str:
    """Return what --help says of the rows and of examples."""
    more = {name for each in MORE_MEASUREMENTS for name in each.rows}
    lines = {row.name: f"  {row.name} [{row.unit}, {row.better} is better]" for row in ROWS}
    usual = "\n".join(line for name, line in lines.items() if name not in more)
    others = "\n".join(line for name, line in lines.items() if name in more)
    return f"""rows:
{usual}

rows with --more, which take some twenty minutes:
{others}

examples:
  python -m bench.peers                      the first rows, under 15 minutes on two cores
  python -m bench.peers --more               the others; rows of an earlier run stay
  python -m bench.peers --only heartbeats    the rows whose name holds this text
  python -m bench.peers --more --only storm  the same of the others
  python -m bench.peers --rounds 7           more rounds: a narrower spread takes more time
  python -m bench.peers --table              print bench-out/peers.json as Markdown, measure nothing
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        epilog=epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--only",
        metavar="NAME",
        help="only rows whose name holds NAME; other rows of an earlier run stay",
    )
    made.add_argument(
        "--more",
        action="store_true",
        help="the rows that a run without it leaves out; other rows of an earlier run stay",
    )
    made.add_argument(
        "--rounds",
        type=rounds,
        metavar="N",
        help="rounds of each row; without it, as many as fit into 15 minutes",
    )
    made.add_argument("--json", action="store_true", help="print the rows as JSON, not as a table")
    made.add_argument(
        "--table", action="store_true", help="print the rows of the last run as Markdown"
    )
    return made


def rounds(text: str) -> int:
    """Return the number of rounds. Raises ArgumentTypeError."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds; give 1 or more")
    return int(text)


def chosen(only: str | None, *, more: bool = False) -> list[tuple[Measurement, tuple[str, ...]]]:
    """Return the measurements that have a chosen row, with the chosen ones of their rows.

    more: of the rows that a run leaves out unless it is asked for them, instead of the others.
    """
    matches = [
        (each, tuple(row for row in each.rows if only is None or only in row))
        for each in (MORE_MEASUREMENTS if more else MEASUREMENTS)
    ]
    return [(each, rows) for each, rows in matches if rows]


def no_row(only: str, *, more: bool) -> str:
    """Return the sentence about a text that no row's name of this kind of run holds."""
    if chosen(only, more=not more):
        return f"rows whose name holds {only!r} are measured {'without' if more else 'with'} --more"
    names = ", ".join(row.name for row in ROWS)
    return f"no row's name holds {only!r}; there are: {names}"


def measure(
    measurement: Measurement, rows: Sequence[str], brokers: Brokers, count: int, say: Say
) -> list[dict[str, Any]]:
    """Run one measurement and return its rows."""
    started = time.monotonic()
    samples = measurement.measure(brokers, count, say)
    took = time.monotonic() - started
    return [
        result(row, samples.values.get(row.name, {}), samples.missing, took)
        for row in ROWS
        if row.name in rows
    ]


def main() -> int:
    """Measure the chosen rows and write OUT; return 0 if apportion has a figure in each of them."""
    options = parser().parse_args()
    progress, console = Console(stderr=True, highlight=False, soft_wrap=True), Console(width=200)
    before = json.loads(OUT.read_text()) if OUT.exists() else []
    if options.table:
        if not before:
            progress.print(f"there is no bench-out/{OUT.name} yet: run make bench-peers first")
            return 2
        print(markdown(before))
        return 0
    wanted = chosen(options.only, more=options.more)
    if not wanted:
        progress.print(no_row(options.only, more=options.more))
        return 2
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, limit), limit))
    measured = {row for each, _ in chosen(None, more=options.more) for row in each.rows}
    # A run of all rows of its kind replaces them all, even those that it does not come to.
    earlier = [row for row in before if options.only or row["name"] not in measured]
    results: list[dict[str, Any]] = []
    OUT.parent.mkdir(exist_ok=True)
    with Brokers() as brokers:
        for measurement, rows in wanted:
            count = options.rounds or measurement.rounds
            progress.print(f"{', '.join(rows)}: {count} rounds; warm-up: {measurement.warm_up}")
            results += measure(
                measurement, rows, brokers, count, lambda line: progress.print(f"  {line}")
            )
            progress.print(f"  {results[-1]['seconds']} s")
            # After each measurement: a run that is interrupted keeps what it has.
            rows_so_far = merged(earlier, results)
            OUT.write_text(json.dumps(rows_so_far, indent=1) + "\n")
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        console.print(terminal_table(results))
    progress.print(f"written: bench-out/{OUT.name}")
    return 1 if any(OURS in row["missing"] for row in results) else 0


if __name__ == "__main__":
    sys.exit(main())
