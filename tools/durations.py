"""`make durations`: where the time of the tests goes, as `tests/durations.py` has recorded it.

Prints the longest set-ups, calls and tear-downs, and the sums by directory and lane. `--check`
compares the sums with `tests/durations.toml`, so that growth is a decision: who adds to a directory
raises its row in the same commit, or makes something else quicker. A lane that was recorded beside
other work, with the cases of `make all`, or not at all, is not compared; each is named.
"""

import argparse
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.durations import PHASES, RECORD, Lane, read_record
from tests.lanes import ROOT

RATCHET = ROOT / "tests" / "durations.toml"
IDLE = 2.0
"""The load average before a run up to which its seconds count as those of an idle machine: what the
step before it in `.ci/run` leaves behind is below.
"""

Sums = dict[str, float]


def directory_of(nodeid: str) -> str:
    """Return the directory below tests/ that a test belongs to; `tests` for a file right there."""
    parts = nodeid.partition("::")[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def sums_by_directory(lane: Lane) -> Sums:
    """Return directory -> seconds of all its tests in the run, the longest first."""
    sums: Counter[str] = Counter()
    for nodeid, seconds in lane["tests"].items():
        sums[directory_of(nodeid)] += sum(seconds)
    return dict(sums.most_common())


def sums_by_lane(lanes: Mapping[str, Lane]) -> dict[str, Sums]:
    """Return directory -> lane -> seconds, the longest directory and its longest lane first."""
    sums: dict[str, Sums] = defaultdict(dict)
    for name, lane in lanes.items():
        for directory, seconds in sums_by_directory(lane).items():
            sums[directory][name] = seconds
    by_length = sorted(sums.items(), key=lambda row: -sum(row[1].values()))
    return {
        directory: dict(sorted(by_lane.items(), key=lambda lane: -lane[1]))
        for directory, by_lane in by_length
    }


def longest(lanes: Mapping[str, Lane], count: int) -> list[tuple[float, str, str, str]]:
    """Return the longest phases of all lanes, as (seconds, phase, lane, node id)."""
    phases = (
        (seconds, phase, name, nodeid)
        for name, lane in lanes.items()
        for nodeid, of_test in lane["tests"].items()
        for phase, seconds in zip(PHASES, of_test, strict=True)
    )
    return sorted(phases, reverse=True)[:count]


def is_compared(lane: Lane) -> bool:
    """Return whether a record is of an idle machine and of the cases that the rows are for.

    Records from before there was `whole` are of usual runs.
    """
    return bool(lane["load"]["before"] <= IDLE and not lane.get("whole"))


def faults(lanes: Mapping[str, Lane], allowed: Mapping[str, Sums]) -> Iterator[str]:
    """Yield the directories that took longer than their row, and those without a row."""
    for name, lane in lanes.items():
        if not is_compared(lane):
            continue
        for directory, seconds in sums_by_directory(lane).items():
            row = allowed.get(name, {}).get(directory)
            if row is None:
                yield f"{name}: {directory} took {seconds:.0f} s and has no row"
            elif seconds > row:
                yield f"{name}: {directory} took {seconds:.0f} s, its row allows {row:.0f}"


def check(lanes: Mapping[str, Lane], allowed: Mapping[str, Sums]) -> int:
    """Print what is over its row, and which lanes could not be compared. Return the exit code."""
    compared = [name for name, lane in lanes.items() if is_compared(lane)]
    print(f"durations: compared {', '.join(compared) or 'no lane (none was recorded when idle)'}")
    for name, lane in lanes.items():
        if name not in compared:
            played = "with all cases" if lane.get("whole") else "beside other work"
            load = lane["load"]["before"]
            print(f"durations: {name} was recorded {played} (load {load}), not compared")
    if unrecorded := [name for name in allowed if name not in lanes]:
        print(f"durations: not recorded: {', '.join(unrecorded)}")
    found = list(faults(lanes, allowed))
    for fault in found:
        print(f"durations: {fault} ({RATCHET.relative_to(ROOT)})", file=sys.stderr)
    return 1 if found else 0


def show(lanes: Mapping[str, Lane], count: int, console: Console) -> None:
    """Print the runs, the sums by directory and the longest phases."""
    table = Table("lane", "commit", "seconds", "workers", "load before", "mean", "most", "tests")
    for name, lane in lanes.items():
        load = lane["load"]
        table.add_row(
            *(name, lane["commit"], f"{lane['seconds']:.0f}", str(lane["workers"])),
            *(str(load[key]) for key in ("before", "mean", "most")),
            str(len(lane["tests"])),
        )
    console.print(table)
    sums = Table("directory", "seconds", "by lane", title="all set-ups, calls and tear-downs")
    for directory, by_lane in sums_by_lane(lanes).items():
        parts = ", ".join(f"{name} {seconds:.0f}" for name, seconds in by_lane.items())
        sums.add_row(directory, f"{sum(by_lane.values()):.0f}", parts)
    console.print(sums)
    phases = Table("seconds", "phase", "lane", "test", title=f"the {count} longest")
    for seconds, phase, name, nodeid in longest(lanes, count):
        phases.add_row(f"{seconds:.1f}", phase, name, nodeid)
    console.print(phases)


def main(arguments: list[str] | None = None) -> int:
    """Print the record or check it. Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="make durations ARGS=...", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="compare with tests/durations.toml")
    parser.add_argument("--longest", type=int, default=40, help="how many rows (40)")
    parser.add_argument("--record", type=Path, default=RECORD, help="another durations.json")
    options = parser.parse_args(arguments)
    lanes = read_record(options.record)
    if options.check:
        return check(lanes, tomllib.loads(RATCHET.read_text()))
    if not lanes:
        print(f"durations: nothing is recorded in {options.record}; `make test` records its run")
        return 0
    width = None if sys.stdout.isatty() else 160
    show(lanes, options.longest, Console(width=width, markup=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
