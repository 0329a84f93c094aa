"""`make sim`: search the first seed that finds each planted bug.

The seeds are written into tests/sim/found.txt and docs/guards.md.

At most 5,000 seeds are played for each bug, in two processes, in simulations of the protocol that
the bug concerns. The result is the lowest seed that breaks a law with the bug and none without it.
`make test` replays these seeds, with the bug and without.
"""

import argparse
import re
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the planted bugs stand beside the tests

from apportion.sim.kernel.outcome import Outcome, Violation  # noqa: E402
from apportion.sim.kernel.scenario import Scenario  # noqa: E402
from apportion.sim.kernel.trace import Trace  # noqa: E402
from apportion.sim.play import play  # noqa: E402
from apportion.sim.seed_pool import Draw, outcomes  # noqa: E402
from tests.sim.planted import PLANTED  # noqa: E402

FOUND = ROOT / "tests" / "sim" / "found.txt"
PAGE = ROOT / "docs" / "guards.md"
# a bug, its guard, what happens, the seed
ROW = re.compile(r"^(\| `([\w-]+)` \|[^|\n]*\|[^|\n]*\|)[^|\n]*\|$", re.MULTILINE)
SEEDS, JOBS = 5_000, 2


class Found(NamedTuple):
    """The seed that finds a planted bug, and the law that breaks.

    searched: the number of seeds that were played until then.
    """

    name: str
    seed: int
    law: str
    searched: int

    def __str__(self) -> str:
        return " ".join(map(str, self))


def read(path: Path = FOUND) -> dict[str, Found]:
    """Return the results of the last search, by the name of the bug."""
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return {name: Found(name, int(seed), law, int(searched)) for name, seed, law, searched in rows}


def write(kept: dict[str, Found]) -> None:
    """FOUND has these rows, and the page of the guards shows them."""
    FOUND.write_text("".join(f"{kept[name]}\n" for name in PLANTED if name in kept))
    PAGE.write_text(ROW.sub(lambda row: f"{row[1]} {shown(kept.get(row[2]))}|", PAGE.read_text()))


def shown(row: Found | None) -> str:
    """Return the text for the last column of docs/guards.md."""
    return f"{row.seed}: `{row.law}` " if row else ""


def play_planted(name: str, scenario: Scenario, trace: Trace | None = None) -> Outcome:
    """Play the scenario with that bug planted, and remove the bug.

    A scenario that breaks a law without the bug as well says nothing of it: that is a failure of
    its own, and told on stderr.
    """
    with pytest.MonkeyPatch.context() as patcher:
        PLANTED[name].plant(patcher)
        outcome = play(scenario, trace)
    if outcome.holds or (sound := play(scenario)).holds:
        return outcome
    print(
        f"  seed {scenario.seed} breaks {sound.broken} (without a bug that was planted)",
        file=sys.stderr,
    )
    return outcome._replace(broken=None)


def search(name: str, seeds: int = SEEDS, jobs: int = JOBS) -> tuple[Found, Violation] | None:
    """Return the lowest seed that breaks a law with that bug planted; None if none does."""
    played: set[int] = set()
    best: Outcome | None = None
    with closing(
        outcomes(
            range(seeds),
            jobs,
            Draw(PLANTED[name].kinds, PLANTED[name].sizes),
            partial(play_planted, name),
        )
    ) as found:
        for outcome in found:
            played.add(outcome.seed)
            if outcome.broken is not None and (best is None or outcome.seed < best.seed):
                best = outcome
            if best is not None and played.issuperset(range(best.seed)):
                break
    if best is None or best.broken is None:
        return None
    return Found(name, best.seed, best.broken.law, best.seed + 1), best.broken


def main() -> int:
    """0 where every bug is found; what was found is in FOUND."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=list(PLANTED),
        help="this bug alone; others stay as they were",
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    options = parser.parse_args()
    table = Table("planted", "seed", "law", "searched", "why it broke")
    console, kept, deferred = (
        Console(),
        {name: row for name, row in read().items() if name in PLANTED},
        0,
    )
    for name in options.only or PLANTED:
        console.print(f"[dim]{name}: {PLANTED[name].why}[/]", highlight=False, soft_wrap=True)
        kept.pop(name, None)
        write(kept)
        found = search(name, options.seeds, options.jobs)
        if found is None:
            deferred += 1
            table.add_row(name, "-", "[bold red]not found[/]", f"{options.seeds:,}", "")
            continue
        kept[name], broken = found
        write(kept)
        console.print(f"  seed {kept[name].seed}: {broken}", highlight=False, soft_wrap=True)
        table.add_row(
            name, str(kept[name].seed), broken.law, f"{kept[name].searched:,}", broken.why
        )
    console.print(table)
    console.print(f"{len(PLANTED)} planted, {len(kept)} found; written: tests/sim/{FOUND.name}")
    return 1 if deferred else 0


if __name__ == "__main__":
    sys.exit(main())
