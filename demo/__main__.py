"""The demonstration on the command line: `python -m demo`, or `make demo`."""

import argparse
import json
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console

from demo.brokers import KINDS, NoBroker
from demo.check import Verdict, check_table
from demo.cluster_stage import ClusterStage
from demo.flights import figures, flights
from demo.observe import SAMPLE_INTERVAL_S
from demo.picture import ownership_svg
from demo.play import GROUP, MEMBERS, PARTITIONS, RunRecord, Script, Stage, Stopped, play
from demo.screen import screen
from demo.timeline import Event, commit_gaps, events, ownership_periods, worker_events

ALL_FLIGHTS = 336_776
SECONDS = 100.0

DESCRIPTION = """\
Spark applications share one Kafka consumer group, lose one of them without warning, roll to a new
version while events flow, and still write every real event exactly once.

You will see, in two to three minutes:
  1. A broker starts, with a topic "flights" of 12 partitions.
  2. Two Spark applications start, members of the group "flights-etl", and write into one Delta
     table.
  3. The 336,776 flights that left New York in 2013 are produced, paced.
  4. At a third of the rows the host of one application is lost: all of its processes are killed at
     one instant. None of them leaves the group; the coordinator finds out when the session (6 s)
     ends, and the other application takes over.
  5. At two thirds version 2 of the pipeline starts beside the survivor, with a checkpoint of its
     own; then version 1 stops.
  6. The table is read again and compared with the CSV.

With --cluster the applications run on a Spark standalone cluster of this machine, a Master and two
Workers, each with an executor of each application. It takes about a minute longer:
  3a. At a sixth of the rows a Worker is lost with its executors: all of its processes are killed at
      one instant. Spark runs their tasks again on the other Worker. No member has gone, so no
      partition moves.
  3b. A new Worker takes its place.

What remains:
  demo-out/summary.json    the figures; exit code 1 if any check failed
  demo-out/ownership.svg   who owned which partition when
  demo-out/flights         the Delta table
  demo-out/logs            what each application printed
"""


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; `words` are for tests, None takes sys.argv."""
    parser = argparse.ArgumentParser(
        "python -m demo",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--broker",
        choices=KINDS,
        default="embedded",
        help="apportion's own inside this process, or a real Apache Kafka",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="on a Spark standalone cluster of this machine, which loses a Worker",
    )
    parser.add_argument(
        "--flights",
        type=int,
        default=ALL_FLIGHTS,
        metavar="N",
        help="only the first N flights, at least 1000",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"how long they take to depart (default {SECONDS:.0f})",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo-out"),
        metavar="DIR",
        help="where the results go (default demo-out)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print summary.json at the end, everything else on stderr",
    )
    options = parser.parse_args(words)
    if not 1000 <= options.flights <= ALL_FLIGHTS:
        parser.error(f"--flights {options.flights}: give a number from 1000 to {ALL_FLIGHTS}")
    if options.seconds <= 0:
        parser.error(f"--seconds {options.seconds}: give a number above 0")
    return options


def all_events(record: RunRecord) -> list[Event]:
    """Return the rebalances, and what the losses of Workers cost, in the order of time."""
    return sorted(
        [
            *events(record.samples, record.host_losses, PARTITIONS),
            *worker_events(record.samples, record.worker_losses, PARTITIONS),
        ],
        key=lambda event: event.at_ms,
    )


def summary(record: RunRecord, verdict: Verdict, rows_in: int, seconds: float) -> dict[str, Any]:
    """Return the figures of a run, as summary.json has them."""
    rebalances = events(record.samples, record.host_losses, PARTITIONS)
    gaps = commit_gaps(record.samples, rebalances, PARTITIONS)
    return {
        "broker": record.broker,
        "rows_in": rows_in,
        "rows_out": verdict.rows_out,
        "duplicates": verdict.duplicates,
        "missing": verdict.missing,
        "checks_ok": not verdict.problems,
        "problems": list(verdict.problems),
        "seconds": round(seconds, 1),
        "peak_memory_mb": record.peak_memory_mb,
        "events": [event.as_json() for event in all_events(record)],
        "longest_commit_gap_during_rebalances_ms": gaps.during_rebalances_ms,
        "longest_commit_gap_outside_rebalances_ms": gaps.outside_ms,
        "longest_commit_gap_with_a_change_of_owner_ms": gaps.across_owners_ms,
    }


def ownership_picture(record: RunRecord, title: str) -> str:
    """Return the run as an SVG document."""
    owned = ownership_periods(record.samples, record.host_losses, PARTITIONS)
    end_ms = record.samples[-1].at_ms
    return ownership_svg(owned, all_events(record), PARTITIONS, end_ms, title, MEMBERS)


def run(options: argparse.Namespace) -> int:
    """Run the demonstration, check its table, write and print the results; return the exit code."""
    started_s = monotonic()
    script = Script(options.broker, options.flights, options.seconds, options.out.resolve())
    stream = sys.stderr if options.json else sys.stdout
    with screen(stream) as view:
        record = play(script, view, ClusterStage if options.cluster else Stage)
    verdict = check_table(str(script.table), figures(flights(script.rows)))
    result = summary(record, verdict, script.rows, monotonic() - started_s)
    (script.out / "summary.json").write_text(json.dumps(result, indent=2) + "\n")
    (script.out / "ownership.svg").write_text(
        ownership_picture(record, f"Who owned which partition: group {GROUP} on {record.broker}")
    )
    if options.json:
        print(json.dumps(result, indent=2))
    print_result(result, options.out, Console(file=stream, highlight=False))
    return exit_code(result)


def exit_code(result: dict[str, Any]) -> int:
    """Return 0 if every check holds and the loss of the host was noticed; else 1.

    A Worker that was lost must have cost no partition its owner, and the queries must have gone on.
    """
    lost_workers = [event for event in result["events"] if event["cause"] == "worker"]
    shown = (
        result["checks_ok"],
        any(event["cause"] == "session" for event in result["events"]),
        all(event["partitions_moved"] == 0 for event in lost_workers),
        all(event["converged_ms"] is not None for event in lost_workers),
    )
    return 0 if all(shown) else 1


def print_result(result: dict[str, Any], out: Path, console: Console) -> None:
    """Print the result in sentences."""
    lines = ["", *(f"[red]Wrong:[/red] {problem}" for problem in result["problems"])]
    if result["checks_ok"]:
        rows = (
            f"{result['rows_in']:,} flights in, {result['rows_out']:,} rows out, 0 duplicates, "
            "0 missing; the sums are the CSV's."
        )
        lines.append(f"[green]Every flight exactly once:[/green] {rows}")
    lines += [_sentence(event) for event in result["events"]]
    lines.append(
        f"{result['seconds']:.0f} s, at most {result['peak_memory_mb']:,} MB in all "
        "processes together."
    )
    lines.append(
        f"The figures are in {out}/summary.json, the picture is {out}/ownership.svg, the "
        f"table is {out}/flights."
    )
    for line in lines:
        console.print(line, soft_wrap=not console.is_terminal)


def _sentence(event: dict[str, Any]) -> str:
    if event["cause"] == "worker":
        return _sentence_on_worker(event)
    what = {"join": "joined", "leave": "left", "session": "lost its host"}[event["cause"]]
    if event["converged_ms"] is None:
        return f"  {event['member']} {what}: the group never settled"
    unowned_ms = event["longest_unowned_ms"]
    unowned = (
        f"{unowned_ms / 1000:.1f} s at most" if unowned_ms else f"less than {SAMPLE_INTERVAL_S} s"
    )
    settled = (
        f"settled after {event['converged_ms'] / 1000:.1f} s, {event['partitions_moved']} "
        "partitions moved"
    )
    return f"  {event['member']} {what}: {settled}, each without an owner for {unowned}"


def _sentence_on_worker(event: dict[str, Any]) -> str:
    what = f"  {event['member']} was lost with its executors: "
    if event["converged_ms"] is None:
        return f"{what}the queries did not go on"
    return (
        f"{what}all that was in the topic was written after {event['converged_ms'] / 1000:.1f} s, "
        f"{event['partitions_moved']} partitions moved"
    )


def main(words: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    Whatever ends the run, none of its processes is left: SIGTERM unwinds the stack, too.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(arguments(words))
    except (Stopped, NoBroker) as problem:
        print(f"\nThe demonstration stopped. {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; every process is gone.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
