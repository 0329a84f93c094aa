"""The table of peers.json: on the terminal, in Markdown, and what is not comparable."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.peers.rows import OURS, ROWS, PeerRow, figure
from rich.table import Table


def side_cell(result: Mapping[str, Any], side: str) -> str:
    """Return the median of one side with its least and greatest, or what is missing."""
    value = result["ours"] if side == OURS else result["peers"].get(side)
    if value is None:
        return "missing" if side in result["missing"] else "–"
    low, high = result["spread"][side]
    if result["rounds"] == 1:
        return f"{figure(value)} (one round)"
    return f"{figure(value)} ({figure(low)} to {figure(high)})"


def ratio_cell(result: Mapping[str, Any]) -> str:
    """Return the ratios by peer; above 1 apportion is better."""
    return ", ".join(f"{name} {ratio:.2f}" for name, ratio in result["ratios"].items()) or "–"


def cells(result: Mapping[str, Any], row: PeerRow) -> tuple[str, ...]:
    """Return the cells of one row: name, unit, apportion, its peers, ratios."""
    peers = "; ".join(f"{name} {side_cell(result, name)}" for name in row.peers)
    return (row.name, row.unit, side_cell(result, OURS), peers, ratio_cell(result))


HEADINGS = ("name", "unit", "apportion", "peers", "ratio, above 1: apportion is better")


def terminal_table(results: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table for a terminal."""
    table = Table(*HEADINGS)
    for result, row in known(results):
        table.add_row(*cells(result, row))
    return table


def markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the table in Markdown, and below it the Python, what each row is and is not alike."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    for result, row in known(results):
        name, *others = cells(result, row)
        lines.append("| " + " | ".join((f"`{name}`", *others)) + " |")
    pythons = dict.fromkeys(each["python"] for each in results if "python" in each)
    lines += [line for python in pythons for line in ("", f"Apportion ran on {python}.")]
    lines.append("")
    for result, row in known(results):
        lines.append(f"- `{row.name}`: {row.what}. {row.unlike}")
        lines += [f"  {side} is missing: {why}" for side, why in result["missing"].items()]
    return "\n".join(lines)


def known(results: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], PeerRow]]:
    """Return each result with its declaration; those of rows that are no more are left out."""
    rows = {row.name: row for row in ROWS}
    return [(result, rows[result["name"]]) for result in results if result["name"] in rows]
