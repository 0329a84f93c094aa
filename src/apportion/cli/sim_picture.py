"""A picture of who owned which partition over time, as lines of a terminal, for `apportion sim`.

Each partition is a row, with time from left to right and the faults above.
"""

import re
from collections.abc import Container, Iterable, Sequence
from itertools import zip_longest
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from rich.text import Text

from apportion.sim.kernel.outcome import Outcome
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.trace import OwnershipChange

LETTERS = ascii_uppercase + ascii_lowercase  # of applications; those beyond share the last
MARKS = "123456789abcdefghijklmnopqrstuvwxyz"  # of kinds of faults
COLOURS = (
    "cyan",
    "green",
    "yellow",
    "magenta",
    "blue",
    "bright_red",
    "bright_cyan",
    "bright_green",
    "bright_yellow",
    "bright_magenta",
)
NOBODY, BOTH = ".", "!"
MAX_MARKS = 4  # fault marks in one column; the topmost is a + if there are more faults
LEAST_COLUMNS = 10
TICK_COLUMNS = 14


class OwnershipSpan(NamedTuple):
    """A time in which `owner` owned a partition. "": no owner; "a+b": two at the same time."""

    start_us: int
    end_us: int
    owner: str


class Axis(NamedTuple):
    """The simulated time that the columns of the picture share."""

    span_us: int
    columns: int

    def column(self, at_us: int) -> int:
        """Return the column of that time; the last one for all later times."""
        return max(0, min(self.columns - 1, at_us * self.columns // self.span_us))


def picture(
    scenario: Scenario, outcome: Outcome, changes: Sequence[OwnershipChange], width: int
) -> list[Text]:
    """Return the lines of the picture of owners over time.

    Each line is at most `width` wide if that leaves LEAST_COLUMNS.
    """
    end_us = max(1, outcome.simulated_ms * 1_000, changes[-1].at_us if changes else 0)
    rows = _ownership_spans(changes, end_us)
    label = max((len(f"{group} {partition}") for group, partition in rows), default=0) + 1
    axis = Axis(end_us, max(LEAST_COLUMNS, width - label))
    letters = _letters({name for change in changes for name in change.owner.split("+") if name})
    marks = {
        kind: MARKS[number]
        for number, kind in enumerate(dict.fromkeys(fault.kind for fault in scenario.faults))
    }
    lines = [
        Text(" " * label + line, style="bold red") for line in _fault_lines(scenario, marks, axis)
    ]
    lines.append(Text(" " * label + _ticks(axis, scenario, outcome), style="dim"))
    for (group, partition), spans in rows.items():
        line = Text(f"{f'{group} {partition}':<{label}}")
        for owner in _cells(spans, axis):
            letter, style = (
                (BOTH, "bold white on red") if "+" in owner else letters.get(owner, (NOBODY, "dim"))
            )
            line.append(letter if owner is not ABSENT else " ", style)
        lines.append(line)
    return [*lines, Text(), *_legend(letters, marks, scenario)]


ABSENT = "\0"  # in the place of a name: the partition is not there yet


def _ownership_spans(
    changes: Iterable[OwnershipChange], end_us: int
) -> dict[tuple[str, str], list[OwnershipSpan]]:
    """Return the ownership spans of each (group, partition), in order of names.

    The spans follow each other without a gap from the first change of owner to the end.
    """
    changes_by_partition: dict[tuple[str, str], list[OwnershipChange]] = {}
    for change in changes:
        changes_by_partition.setdefault((change.group, change.partition), []).append(change)
    rows = {}
    for key in sorted(changes_by_partition, key=lambda key: (key[0], _natural(key[1]))):
        ends = [*(change.at_us for change in changes_by_partition[key][1:]), end_us]
        rows[key] = [
            OwnershipSpan(change.at_us, end, change.owner)
            for change, end in zip(changes_by_partition[key], ends, strict=True)
        ]
    return rows


def _cells(spans: list[OwnershipSpan], axis: Axis) -> list[str]:
    """Return the owner of a partition in each column of the picture of a simulated history.

    Two owners at the same time are shown even if it was for a moment: that is what a reader looks
    for. Otherwise it is the one that owned the partition longest within the column.
    """
    shares: list[dict[str, int]] = [{} for _ in range(axis.columns)]
    for span in spans:
        for column in range(axis.column(span.start_us), axis.column(span.end_us) + 1):
            start = max(span.start_us, column * axis.span_us // axis.columns)
            end = min(span.end_us, (column + 1) * axis.span_us // axis.columns)
            if end > start or (end == start and "+" in span.owner):
                shares[column][span.owner] = shares[column].get(span.owner, 0) + end - start
    return [
        next(
            (owner for owner in share if "+" in owner),
            max(share, key=lambda owner: share[owner], default=ABSENT),
        )
        for share in shares
    ]


def _fault_lines(scenario: Scenario, marks: dict[str, str], axis: Axis) -> list[str]:
    """Return the picture's lines with the marks of the faults over their columns, stacked."""
    stacks: list[list[str]] = [[] for _ in range(axis.columns)]
    for fault in scenario.faults:
        if fault.at_ms * 1_000 <= axis.span_us:
            stacks[axis.column(fault.at_ms * 1_000)].append(marks[fault.kind])
    stacks = [
        stack if len(stack) <= MAX_MARKS else [*stack[: MAX_MARKS - 1], "+"] for stack in stacks
    ]
    return [
        "".join(level).rstrip()
        for level in reversed(list(zip_longest(*stacks, fillvalue=" ")))
        if any(level)
    ]


def _ticks(axis: Axis, scenario: Scenario, outcome: Outcome) -> str:
    """Return the picture's time axis: seconds, | where the faults end, X where a law broke."""
    marks: dict[int, str] = {}
    if scenario.duration_ms * 1_000 < axis.span_us:
        marks[axis.column(scenario.duration_ms * 1_000)] = "|"
    if outcome.broken is not None:
        marks[axis.column(outcome.broken.at_ms * 1_000)] = "X"
    line = [" "] * (axis.columns + TICK_COLUMNS)
    ticks = max(1, axis.columns // TICK_COLUMNS)
    for tick in range(ticks):
        column = tick * axis.columns // ticks
        seconds = f"{tick * axis.span_us / ticks / 1_000_000:.0f} s"
        line[column] = "'"
        start = _label_start_or_none(column, len(seconds), marks)
        if start is not None:
            line[start : start + len(seconds)] = seconds
    for column, mark in marks.items():
        line[column] = mark
    return "".join(line[: axis.columns]).rstrip()


def _label_start_or_none(column: int, length: int, marks: Container[int]) -> int | None:
    """Return where the label of the tick at that column begins: beside it, or after a mark.

    None if the marks leave no room before the next tick.
    """
    for start in range(column + 1, column + TICK_COLUMNS - length):
        # A mark in the tick's own column would look like the label's first character.
        if not any(at in marks for at in range(start - 1, start + length)):
            return start
    return None


def _legend(
    letters: dict[str, tuple[str, str]], marks: dict[str, str], scenario: Scenario
) -> list[Text]:
    """Return the lines that explain the picture's letters, marks and signs."""
    owners = Text()
    for name, (letter, style) in letters.items():
        owners.append(letter, style)
        owners.append(f" {name}   ")
    counts = [fault.kind for fault in scenario.faults]
    faults = Text(
        "   ".join(f"{mark} {kind} x{counts.count(kind)}" for kind, mark in marks.items()),
        style="red",
    )
    both = f"{BOTH} two, one of which has been removed from the group and cannot know it"
    signs = Text(
        f"{NOBODY} none   {both}   ' time   | no new faults from here on   X a law was broken",
        style="dim",
    )
    return [line for line in (owners, faults, signs) if line]


def _letters(names: set[str]) -> dict[str, tuple[str, str]]:
    """Return the letter and style of each owner in the picture of a simulated history."""
    ordered = sorted(names, key=_natural)
    return {
        name: (LETTERS[min(number, len(LETTERS) - 1)], f"bold {COLOURS[number % len(COLOURS)]}")
        for number, name in enumerate(ordered)
    }


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key with numbers in their order: t-2 before t-10."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
