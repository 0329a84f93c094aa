"""What became of the mutants, in tables: killed by whom, and why the others live."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from tools.mutation import Mutant, kind_of

from tests.lanes import is_quick

TARGET = 0.95
SIMULATED = ("coord", "member", "node", "store")
"""The mutated packages that the simulator plays."""
REASONS = {
    "equivalent": "no run can tell it from the original",
    "text": "only words for people differ",
    "shortcut": "the same is done, by more work or less",
    "guard": "a second guard behind a first one, which the world never passes",
    "limit": "differs at sizes or values that no test and no world has",
    "unseen": "a hole: a test is missing",
}
"""Why a mutant may live, as `tools/survivors.txt` says it."""
ENDS = {
    "quick": "killed by make quick",
    "test": "by the rest of make test",
    "seeds": "by seeds",
    "lives": "live",
    "open": "not tried to the end",
}
"""What became of a mutant -> its column."""

Finding = dict[str, Any]


def killed(row: Finding, by: str) -> bool:
    """Return whether the tests or the seeds (`by`) have killed the mutant."""
    return bool(row.get(by, {}).get("killed"))


def verdict(row: Finding) -> str:
    """Return "tests" or "seeds" (which killed the mutant), "lives", or "open" (not tried yet)."""
    if killed(row, "tests"):
        return "tests"
    if killed(row, "seeds"):
        return "seeds"
    is_played = row["name"].split("/")[0] in SIMULATED
    return "lives" if "tests" in row and ("seeds" in row or not is_played) else "open"


def explanations(text: str) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Parse `survivors.txt`: (file, line before, line after) -> (reason, why).

    Raises ValueError for a block of another form.
    """
    known = {}
    for block in text.split("\n\n"):
        lines = [line for line in block.strip().splitlines() if not line.startswith("#")]
        if not lines:
            continue
        explanation = [line for line in lines[1:] if line[:2] not in ("- ", "+ ")]
        reason, _, why = " ".join(explanation).partition(": ")
        if reason not in REASONS or not why:
            raise ValueError(
                f"survivors.txt: after the change of {lines[0]} stands one of "
                f"{', '.join(REASONS)}, a colon, and why."
            )
        minus, plus = (
            "\n".join(line[2:].strip() for line in lines[1:] if line[0] == sign) for sign in "-+"
        )
        known[lines[0], minus, plus] = (reason, why)
    return known


def report(
    rows: list[tuple[Mutant, Finding]],
    known: dict[tuple[str, str, str], tuple[str, str]],
    console: Console,
) -> float:
    """Print the tables, and return the share of mutants that were killed.

    Mutants that were not tried to the end do not count.
    """
    ends = [(mutant.room, kind_of(mutant.operator), end_of(row)) for mutant, row in rows]
    for title, column in (("package", 0), ("what is changed", 1)):
        console.print(_table(title, [(end[column], end[2]) for end in ends]))
    sums = Counter(verdict(row) for _, row in rows)
    _report_seeds([(mutant, row) for mutant, row in rows if verdict(row) == "seeds"], console)
    _report_living([mutant for mutant, row in rows if verdict(row) == "lives"], known, console)
    alone = [killed(row, "seeds") for _, row in rows if "seeds" in row]
    console.print(
        f"The simulator, which was given {len(alone)} of these, killed {sum(alone)}; the "
        f"tests missed {sums['seeds'] + sums['lives']}."
    )
    tried = len(rows) - sums["open"]
    dead = sums["tests"] + sums["seeds"]
    share = dead / tried if tried else 0.0
    console.print(
        f"{dead} of {tried} mutants killed: {share:.1%} (aim: {TARGET:.0%}); "
        f"{sums['open']} not tried to the end."
    )
    return share


def end_of(row: Finding) -> str:
    """Return the column of ENDS that the mutant belongs to."""
    end = verdict(row)
    if end != "tests":
        return end
    what = row["tests"]["what"]
    # The time limit, or a failing import, is of no lane.
    return "quick" if "::" in what and is_quick(what) else "test"


def _table(title: str, ends: list[tuple[str, str]]) -> Table:
    """Return the table of (row, column of ENDS) of each mutant."""
    table = Table(title, "mutants", *ENDS.values())
    counts = Counter(ends)
    for name in sorted({row for row, _ in ends}):
        cells = [counts[name, end] for end in ENDS]
        table.add_row(name, *(str(count or "") for count in (sum(cells), *cells)))
    table.add_section()
    sums = Counter(end for _, end in ends)
    cells = [sums[end] for end in ENDS]
    table.add_row("all", *(str(count or "") for count in (len(ends), *cells)), style="bold")
    return table


def _report_seeds(rows: list[tuple[Mutant, Finding]], console: Console) -> None:
    if rows:
        table = Table("missed by the tests, killed by the simulator", "seed", "law")
        for mutant, row in rows:
            table.add_row(
                f"{mutant.file}:{mutant.line}  {mutant.change}",
                str(row["seeds"]["seed"]),
                row["seeds"]["what"],
            )
        console.print(table)


def _report_living(
    mutants: Iterable[Mutant], known: dict[tuple[str, str, str], tuple[str, str]], console: Console
) -> None:
    by_reason: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        reason = known.get((mutant.file, mutant.minus, mutant.plus), ("", ""))[0]
        by_reason.setdefault(reason, []).append(mutant)
    if by_reason:
        table = Table("why it lives", "mutants", "that is")
        for reason, living in sorted(by_reason.items()):
            table.add_row(
                reason or "[red]not explained[/]",
                str(len(living)),
                REASONS.get(reason, "say it in tools/survivors.txt"),
            )
        console.print(table)
    for mutant in by_reason.get("", []):
        console.print(
            f"not explained, line {mutant.line}:\n{mutant.file}\n{mutant.change}\n",
            markup=False,
            highlight=False,
        )
