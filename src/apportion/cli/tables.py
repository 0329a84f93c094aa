"""Tables without frames, for people and for awk.

In a pipe each row is one line, and every name is whole. On a terminal that is too narrow lists are
folded between their words; then names are shortened to what tells them apart; then columns that the
table can do without are left out, the last one first.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from rich.text import Text

from apportion.cli.lines import row_console
from apportion.cli.short_names import least_width, shortened_or_none
from apportion.readable import readable

GAP = "  "
NOTHING = "-"
LEAST_LIST_WIDTH = 16
WORD = re.compile(r"[^\s,]+,?\s*")


class Kind(Enum):
    """The kind of a column's cells, which decides how they are aligned and made narrower."""

    TEXT = auto()  # such as a state: never shortened
    NUMBER = auto()  # at the right edge of its column
    NAME = auto()  # shortened, but still different from all others
    LIST = auto()  # folded between its words


class Column(NamedTuple):
    """A column. is_optional: it may be left out where the terminal is too narrow.

    is_rare: it is left out where no row has anything in it.
    """

    heading: str
    kind: Kind = Kind.TEXT
    is_optional: bool = False
    is_rare: bool = False


class Layout(NamedTuple):
    """The lines of a table, the first of which is the heading. is_whole: nothing is left out."""

    lines: list[str]
    is_whole: bool


Row = Sequence[object]


def print_table(columns: Mapping[str, Column], rows: Iterable[Mapping[str, object]]) -> bool:
    """Print the table to stdout; return whether it shows everything, and every name whole.

    columns: by the key of the rows whose values they show.
    """
    console, every = row_console(), list(rows)
    shown = {
        key: column
        for key, column in columns.items()
        if not column.is_rare or any(row.get(key) for row in every)
    }
    layout = lay_out(
        [*shown.values()],
        [[row.get(key) for key in shown] for row in every],
        console.width if sys.stdout.isatty() else None,
    )
    for number, line in enumerate(layout.lines):
        console.print(Text(line, style="" if number else "bold"), soft_wrap=True)
    return layout.is_whole


def lay_out(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> Layout:
    """Return the lines of the table, each at most `width` characters where that is possible.

    width: None for as many as the table needs.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    shown = list(range(len(columns)))
    while True:
        headings = [columns[each] for each in shown]
        lists = [[row[each] for row in cells] for each in shown]
        widths = _widths(headings, lists, width)
        optional = [each for each in shown if columns[each].is_optional]
        if width is None or _total(widths) <= width or not optional:
            break
        shown.remove(optional[-1])
    short = [
        _shortened(column, values, wide)
        for column, values, wide in zip(headings, lists, widths, strict=True)
    ]
    widths = [
        _tight(column, values, wide)
        for column, values, wide in zip(headings, short, widths, strict=True)
    ]
    if width is not None:
        _widen(headings, lists, (short, widths), width)
    lines = [_line([column.heading for column in headings], headings, widths)]
    for number in range(len(cells)):
        lines += _row_lines([values[number] for values in short], headings, widths)
    is_whole = len(shown) == len(columns) and all(
        column.kind is not Kind.NAME or values == whole
        for column, values, whole in zip(headings, short, lists, strict=True)
    )
    return Layout(lines, is_whole)


def _cell(value: object) -> str:
    return NOTHING if value is None or value == "" else readable(str(value))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _widths(columns: list[Column], lists: list[list[str]], width: int | None) -> list[int]:
    """Return the width of each column, together at most `width` if no column must go for it."""
    widths = [
        max(map(len, [column.heading, *values]))
        for column, values in zip(columns, lists, strict=True)
    ]
    if width is None:
        return widths
    # Lists first: folded, they lose nothing. Then the names, the last column first.
    for kind in (Kind.LIST, Kind.NAME):
        for number in reversed(range(len(columns))):
            excess = _total(widths) - width
            if excess > 0 and columns[number].kind is kind:
                least = max(len(columns[number].heading), _least(kind, lists[number]))
                widths[number] = min(widths[number], max(least, widths[number] - excess))
    return widths


def _least(kind: Kind, values: list[str]) -> int:
    """Return the width below which a column of names, or a list, cannot be read."""
    if kind is Kind.NAME:
        return least_width(_names(values))
    words = (len(word.rstrip()) for value in values for word in WORD.findall(value))
    return max(LEAST_LIST_WIDTH, max(words, default=0))


def _shortened(column: Column, values: list[str], width: int) -> list[str]:
    if column.kind is not Kind.NAME:
        return values
    short = shortened_or_none(_names(values), width) or {}
    return [short.get(value, value) for value in values]


def _tight(column: Column, values: list[str], width: int) -> int:
    """Return the width that the cells need, as a shortened name may be shorter than its column."""
    if column.kind is Kind.LIST:
        return width
    return min(width, max(map(len, [column.heading, *values])))


def _widen(
    columns: list[Column],
    lists: list[list[str]],
    result: tuple[list[list[str]], list[int]],
    width: int,
) -> None:
    """Use the room that is left: first for lists, so that fewer are folded, then for names.

    result: the cells and the width of each column, which are replaced.
    """
    short, widths = result
    for kind in (Kind.LIST, Kind.NAME):
        for number, column in enumerate(columns):
            room = width - _total(widths)
            if column.kind is kind and room > 0:
                needed = max(map(len, [column.heading, *lists[number]]))
                short[number] = _shortened(
                    column, lists[number], min(needed, widths[number] + room)
                )
                widths[number] = _tight(column, short[number], min(needed, widths[number] + room))


def _names(values: list[str]) -> list[str]:
    """Return the cells that hold a name: an empty one has no beginning in common with them."""
    return [value for value in values if value != NOTHING]


def _row_lines(values: list[str], columns: list[Column], widths: list[int]) -> list[str]:
    """Return the lines of one row: more than one if a list is folded."""
    folded = [
        _folded(value, wide) if column.kind is Kind.LIST else [value]
        for value, column, wide in zip(values, columns, widths, strict=True)
    ]
    height = max(map(len, folded))
    return [
        _line([each[number] if number < len(each) else "" for each in folded], columns, widths)
        for number in range(height)
    ]


def _folded(value: str, width: int) -> list[str]:
    """Return a list in lines of at most `width` characters, broken between its words."""
    lines = [""]
    for word in WORD.findall(value):
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _line(values: Sequence[str], columns: list[Column], widths: list[int]) -> str:
    cells = (
        value.rjust(wide) if column.kind is Kind.NUMBER else value.ljust(wide)
        for value, column, wide in zip(values, columns, widths, strict=True)
    )
    return GAP.join(cells).rstrip()
