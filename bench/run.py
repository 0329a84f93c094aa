"""Run every `bench/bench_*.py`, print one table, write `bench-out/results.json`.

A bench module has `run() -> list[dict]`, each row {name, value, unit, target, better}: `target`
None where a figure is only reported, `better` "higher" or "lower". A module that fails is reported,
the others still run, and the exit code is 1. A target that is missed is no failure: it is a row,
and its bottleneck stands in docs/performance.md. In the file each row also has `python`, how the
interpreter was built.
"""

import argparse
import importlib.util
import json
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
# the benches of Spark read the demonstration's flights
sys.path.insert(0, str(HERE.parent))
from tools.pythons import build_of  # noqa: E402

OUT = HERE.parent / "bench-out" / "results.json"
FIELDS = ("name", "value", "unit", "target", "better")


def met_or_none(row: dict[str, Any]) -> bool | None:
    """Return whether the value reaches its target; None without a target."""
    if row["target"] is None:
        return None
    return bool(
        row["value"] >= row["target"]
        if row["better"] == "higher"
        else row["value"] <= row["target"]
    )


def check_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows; raise ValueError for one that has other fields than FIELDS."""
    clean = []
    for row in rows:
        if sorted(row) != sorted(FIELDS) or row["better"] not in ("higher", "lower"):
            raise ValueError(f"a bench row has the fields {', '.join(FIELDS)}; this is {row}")
        clean.append({field: row[field] for field in FIELDS})
    return clean


def run_module(path: Path) -> list[dict[str, Any]]:
    """Run the bench module at `path` and return its rows."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return check_rows(module.run())


def table_of(rows: list[dict[str, Any]]) -> Table:
    """Return the rows as a table for people."""
    table = Table("name", "value", "unit", "target", "met")
    for row in rows:
        sign = "≥" if row["better"] == "higher" else "≤"
        target = "report" if row["target"] is None else f"{sign} {row['target']:,}"
        verdict = {None: "", True: "yes", False: "[bold red]no[/]"}[met_or_none(row)]
        table.add_row(
            row["name"],
            f"{row['value']:,.4g}" if row["value"] < 1000 else f"{row['value']:,.0f}",
            row["unit"],
            target,
            verdict,
        )
    return table


def merge(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of an earlier run, those of the same name replaced, in order of name."""
    return sorted(
        ({row["name"]: row for row in before} | {row["name"]: row for row in now}).values(),
        key=lambda row: row["name"],
    )


def main() -> int:
    """Run the chosen modules and write OUT; return 0 if all of them ran, whatever they measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        metavar="TEXT",
        help="only modules whose name holds TEXT; other rows of an earlier run stay",
    )
    only = parser.parse_args().only
    console = Console()
    paths = [path for path in sorted(HERE.glob("bench_*.py")) if not only or only in path.stem]
    if not paths:
        console.print(
            f"no bench/bench_*.py matches {only!r}" if only else "there is no bench/bench_*.py"
        )
        return 1
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for path in paths:
        console.print(f"[dim]{path.stem} …[/]")
        try:
            rows += run_module(path)
        except Exception:
            traceback.print_exc()
            failed.append(path.stem)
    console.print(table_of(rows))
    python = str(build_of(sys.executable))
    console.print(python)
    rows = [{**row, "python": python} for row in rows]
    OUT.parent.mkdir(exist_ok=True)
    before = json.loads(OUT.read_text()) if only and OUT.exists() else []
    OUT.write_text(json.dumps(merge(before, rows), indent=1) + "\n")
    console.print(f"written: bench-out/{OUT.name}")
    if failed:
        console.print(f"[bold red]did not run: {', '.join(failed)}[/]")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
