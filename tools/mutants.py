"""Measure whether tests find small bugs: mutants of the packages that `tools/mutation.py` names.

A mutant is one small change that cosmic-ray knows (a comparison, a number, a condition, a loop...).
A seeded sample of those that change code is tried: first the unit tests of its package, then the
tests elsewhere, then, where all miss it in a package that the simulator plays, the simulator under
its first seeds. The results are kept in
`mutants-out/results.json` and not tried again: a killed mutant while its file stays, a survivor
while nothing below it changes; where its file did, the test that killed it is run first.
`tools/survivors.txt` explains each survivor. `tools/mutation.py` makes the mutants,
`tools/trial.py` tries one; docs/mutants.md says what the figures mean.
"""

import argparse
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that `tools` can be imported when this file is run as a script

from tools.mutant_report import (  # noqa: E402
    SIMULATED,
    TARGET,
    Finding,
    explanations,
    killed,
    report,
    verdict,
)
from tools.mutation import Mutant, sample  # noqa: E402
from tools.trial import ELSEWHERE, Tree, copies, digest  # noqa: E402

OUT = ROOT / "mutants-out" / "results.json"
SURVIVORS = ROOT / "tools" / "survivors.txt"
SEED, SAMPLE, SEEDS = 848, 300, 100
# of processor time: several times what all tests of a part, and a long seed, need
TESTS_LIMIT_S, SEED_LIMIT_S = 60, 30


class Findings:
    """What is known of each mutant, on the disk as soon as it is known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        known = json.loads(path.read_text()) if path.exists() else {}
        self.baseline: Finding = known.get("baseline", {})
        self.of: dict[str, Finding] = {each["name"]: each for each in known.get("mutants", [])}

    def row(self, mutant: Mutant) -> Finding:
        """Return the row of the mutant; a new one if its file has changed since."""
        fresh = {
            "name": mutant.name,
            "line": mutant.line,
            "minus": mutant.minus,
            "plus": mutant.plus,
            "digest": mutant.digest,
        }
        row = self.of.get(mutant.name)
        if row is None or row["digest"] != mutant.digest:
            # A hint for the next trial, which runs the test that found the change before.
            suspect = row.get("tests", {}).get("what", row.get("suspect", "")) if row else ""
            row = self.of[mutant.name] = fresh | {"suspect": suspect}
        return row

    def keep(self) -> None:
        """Everything known is in the file."""
        self.path.parent.mkdir(exist_ok=True)
        text = json.dumps(
            {"baseline": self.baseline, "mutants": [self.of[name] for name in sorted(self.of)]},
            indent=1,
        )
        draft = self.path.with_suffix(".new")
        draft.write_text(text + "\n")
        draft.replace(self.path)


def is_known(row: Finding, by: str, state: str) -> bool:
    """Return whether another trial would have the same result.

    state: the digest of all files that the trial reads.
    """
    return killed(row, by) or row.get(by, {}).get("state") == state


def run_all(
    mutants: list[Mutant],
    findings: Findings,
    by: str,
    state: str,
    jobs: int,
    trial: Callable[[Tree, Mutant], Finding],
) -> None:
    """Try each mutant without a known result, `jobs` at a time, in private copies of the tree."""
    todo = [mutant for mutant in mutants if not is_known(findings.row(mutant), by, state)]
    print(
        f"{by}: {len(todo)} mutants to try, {len(mutants) - len(todo)} known from before",
        flush=True,
    )
    if not todo:
        return
    with copies(ROOT, jobs) as made, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for tree in made:
            trees.put(tree)

        def tried(mutant: Mutant) -> Finding:
            tree = trees.get()
            try:
                with tree.holding(mutant):
                    return trial(tree, mutant)
            finally:
                trees.put(tree)

        waiting = {pool.submit(tried, mutant): mutant for mutant in todo}
        for count, done in enumerate(as_completed(waiting), 1):
            mutant, finding = waiting[done], done.result()
            findings.row(mutant)[by] = finding | {"state": state}
            findings.keep()
            end = f"killed by {finding['what']}" if finding["killed"] else "LIVES"
            print(
                f"{by} {count:3}/{len(todo)}  {finding['seconds']:6.1f} s  "
                f"{mutant.file}:{mutant.line}  {end}",
                flush=True,
            )


def try_tests(mutants: list[Mutant], findings: Findings, jobs: int) -> None:
    """Run the unit tests on every mutant. Those that any of them is given pass without one."""
    state = digest(ROOT, ("src/apportion", "tests"))
    rooms = {
        mutant.room: None
        for mutant in mutants
        if not is_known(findings.row(mutant), "tests", state)
    }
    if not rooms:
        return
    with copies(ROOT, 1) as (tree,), ThreadPoolExecutor(jobs) as pool:
        given = dict.fromkeys([*rooms, *ELSEWHERE])
        for sound in pool.map(lambda room: tree.sound_tests([room], TESTS_LIMIT_S), given):
            if sound["killed"]:
                raise SystemExit(
                    "mutants: the unit tests must pass before mutants are tried; "
                    f"{sound['what']} does not."
                )
    run_all(
        mutants,
        findings,
        "tests",
        state,
        jobs,
        lambda tree, mutant: tree.tests(
            mutant, TESTS_LIMIT_S, findings.row(mutant).get("suspect", "")
        ),
    )


def try_seeds(mutants: list[Mutant], findings: Findings, jobs: int, count: int) -> None:
    """Run the simulator on each of these mutants.

    Seeds that fail without any mutant are left out.
    """
    if not mutants:
        return
    state = f"{digest(ROOT, ('src/apportion',))} {count}"
    if findings.baseline.get("state") != state:
        with copies(ROOT, 1) as (sound,):
            failing: list[int] = []
            while (found := sound.seeds(None, count, failing, SEED_LIMIT_S))["killed"]:
                if found["seed"] < 0:
                    raise SystemExit(f"mutants: the simulator does not start: {found['why']}")
                print(
                    f"seeds: without any mutant, seed {found['seed']} breaks "
                    f"{found['what']}: left out",
                    flush=True,
                )
                failing.append(found["seed"])
        findings.baseline = {"state": state, "failing": failing}
        findings.keep()
    left_out = findings.baseline["failing"]
    run_all(
        mutants,
        findings,
        "seeds",
        state,
        jobs,
        lambda tree, mutant: tree.seeds(mutant, count, left_out, SEED_LIMIT_S),
    )


def main(arguments: list[str] | None = None) -> int:
    """Try the mutants without a known result, and print the report.

    Exit code 1 if too few were killed or a survivor is not explained. Raises SystemExit with a
    sentence if the tests do not pass without a mutant.
    """
    parser = argparse.ArgumentParser(
        prog="make mutants ARGS=...", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=SAMPLE,
        help=f"how many mutants (a smaller sample is part of a larger; {SAMPLE})",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=SEED,
        help=f"of the sample: another seed, other mutants ({SEED})",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=SEEDS,
        help=f"simulator seeds for each that the tests miss ({SEEDS}; 0: none)",
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many are tried at a time (2)")
    parser.add_argument(
        "--alone", action="store_true", help="give the simulator also those that the tests kill"
    )
    parser.add_argument("--report", action="store_true", help="only print what is known")
    options = parser.parse_args(arguments)
    findings = Findings(OUT)
    mutants = sample(ROOT / "src" / "apportion", options.sample, options.seed)
    if not options.report:
        try_tests(mutants, findings, options.jobs)
        if options.seeds and (ROOT / "src/apportion/sim/play.py").exists():
            played = [
                mutant
                for mutant in mutants
                if mutant.room in SIMULATED
                and (options.alone or not killed(findings.row(mutant), "tests"))
            ]
            try_seeds(played, findings, options.jobs, options.seeds)
    known = explanations(SURVIVORS.read_text())
    rows = [(mutant, findings.row(mutant)) for mutant in mutants]
    share = report(rows, known, Console(width=None if sys.stdout.isatty() else 160))
    explained = all(
        (mutant.file, mutant.minus, mutant.plus) in known
        for mutant, row in rows
        if verdict(row) == "lives"
    )
    return 0 if share >= TARGET and explained else 1


if __name__ == "__main__":
    sys.exit(main())
