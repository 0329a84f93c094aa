"""`.ci/run` and `make all`: which lanes a commit must pass, played one after the other.

`.ci/run` plays `make check`, `make docs`, all of `make test`, the slow lanes of the third that the
commit's hash draws, and those whose code has changed since every lane was last run
(`tests/touched.py`). `--all` plays every lane, and notes the commit in tests/whole_run.toml when
all have passed. What is drawn, and every seed, follows from the commit alone, so a run before a
submission says what the run after it will say.

Every step is run, whatever became of those before it. The last lines name what was drawn, what was
touched, what was not run and what failed; `bench-out/ci.json` has the same.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from tools.long import SEARCHES

from tests.lanes import (
    BY_NAME,
    ROOT,
    TEST,
    drawn,
    lane_of_search,
    quarantined,
    seed_of,
    third_of,
)
from tests.touched import WHOLE_RUN, changed_since, git, last_whole_run, touched_lanes

RESULT = ROOT / "bench-out" / "ci.json"
SEEDED = ("APPORTION_DIFFERENTIAL_FIRST", "APPORTION_KILLS_SEED")
"""Where tests that search take their seed from."""
DECIDING = ("ARGS", "LANES", "MAKEFLAGS", "MFLAGS", "PROFILE", "PYTEST_ADDOPTS", "TESTS")
"""Variables by which a caller would change what is played."""


class Plan(NamedTuple):
    """What a run plays.

    lanes: the slow lanes, in their order. touched: lane -> the changed file that calls for it.
    """

    commit: str
    is_whole: bool
    drawn: list[str]
    touched: dict[str, str]
    lanes: list[str]

    @property
    def seed(self) -> int:
        """The seed of every search."""
        return seed_of(self.commit)

    @property
    def not_run(self) -> list[str]:
        """The lanes that this run leaves out, and the tests in quarantine."""
        left = [name for name in BY_NAME if name not in self.lanes]
        return [*left, *(f"{test} (in quarantine, {why})" for test, why in quarantined().items())]

    def steps(self) -> list[list[str]]:
        """Return the commands of the run."""
        tests = [name for name in self.lanes if BY_NAME[name].tests]
        searches = [
            search.name
            for search in SEARCHES
            if search.sample and lane_of_search(search.name) in self.lanes
        ]
        steps = [["make", "check"], ["make", "docs"]]
        if self.is_whole:  # with all examples of every property
            steps.append(["make", "lanes", f"LANES={','.join([TEST, *tests])}", "PROFILE=all"])
        else:
            steps.append(["make", "test"])
            steps += [["make", "lanes", f"LANES={','.join(tests)}"]] if tests else []
        only = " ".join(f"--only {each}" for each in searches)
        if searches:
            steps.append(["make", "long", f"ARGS=--sample --seed {self.seed} {only}"])
        return steps

    def summary(self) -> list[str]:
        """Return the lines that say what the run plays and what it does not."""
        draw = "every lane" if self.is_whole else f"third {third_of(self.commit)} of 0, 1, 2"
        by_file: dict[str, list[str]] = {}
        for name, file in self.touched.items():
            by_file.setdefault(file, []).append(name)
        touched = [
            f"{'every lane' if len(names) == len(BY_NAME) else ', '.join(names)} (by {file})"
            for file, names in by_file.items()
        ]
        return [
            f"commit {self.commit[:12]}: {draw}; every seed is {self.seed}",
            f"drawn: {', '.join(self.drawn)}",
            f"touched since {last_whole_run()[:12]}: {'; '.join(touched) or 'none'}",
            f"NOT run: {', '.join(self.not_run) or 'none'}",
        ]


def plan_for(commit: str, is_whole: bool) -> Plan:
    """Return what a run on this commit plays; commit: the hash of HEAD."""
    picked = list(BY_NAME) if is_whole else drawn(third_of(commit))
    touched = {} if is_whole else dict(touched_lanes(changed_since(last_whole_run())))
    lanes = [name for name in BY_NAME if name in picked or name in touched]
    return Plan(commit, is_whole, picked, touched, lanes)


def environment_of(plan: Plan, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the steps are run with. Only the commit decides what is played."""
    kept = {
        name: value
        for name, value in given.items()
        if name not in DECIDING and not name.startswith("APPORTION_")
    }
    return kept | {
        "APPORTION_REQUIRE_LANES": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": str(plan.seed),
        **{name: str(plan.seed) for name in SEEDED},
    }


def play(steps: Sequence[Sequence[str]], environment: Mapping[str, str]) -> list[str]:
    """Run every step, and return those that failed, as one types them."""
    failed = []
    for step in steps:
        line = " ".join(word if " " not in word else f"'{word}'" for word in step)
        print(f"== {line}", flush=True)
        started = time.monotonic()
        code = subprocess.run(step, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL).returncode
        end = "passed" if code == 0 else f"exit code {code}"
        print(f"== {line}: {end} after {time.monotonic() - started:.0f} s", flush=True)
        if code:
            failed.append(line)
    return failed


def keep(plan: Plan, ok: bool, seconds: float, failed: list[str], path: Path) -> None:
    """Write the result of the run."""
    path.parent.mkdir(exist_ok=True)
    result = {
        "commit": plan.commit,
        "ok": ok,
        "seconds": round(seconds),
        "drawn": plan.drawn,
        "touched": plan.touched,
        "not_run": plan.not_run,
        "failed": failed,
    }
    path.write_text(json.dumps(result, indent=1) + "\n")


def note_whole_run(commit: str, seconds: float, path: Path) -> None:
    """Note the commit as the last one on which every lane passed."""
    comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
    rows = [f'commit = "{commit[:12]}"', f"date = {date.today()}", f"seconds = {seconds:.0f}"]
    path.write_text("\n".join([*comment, *rows]) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Play the run of HEAD. Return the exit code."""
    parser = argparse.ArgumentParser(prog=".ci/run", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--all", action="store_true", help="every lane (make all)")
    parser.add_argument("--show", action="store_true", help="only say what would be run")
    parser.add_argument(
        "--since", type=float, default=time.time(), help="when the run began, in seconds since 1970"
    )
    options = parser.parse_args(arguments)
    try:
        commit = git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        print("== this is no clone: what is played follows from the commit", file=sys.stderr)
        return 2
    plan = plan_for(commit, options.all)
    lines = plan.summary()
    print(*(f"== {line}" for line in lines), sep="\n", flush=True)
    if options.show:
        return 0
    keep(plan, False, 0, ["the run has not ended"], RESULT)
    if changes := git("status", "--porcelain"):
        keep(plan, False, 0, [f"the work tree differs from the commit:\n{changes}"], RESULT)
        print(f"== the work tree differs from the commit, commit first:\n{changes}")
        return 1
    failed = play(plan.steps(), environment_of(plan, os.environ))
    if changes := git("status", "--porcelain"):
        failed.append(f"the run has changed the work tree:\n{changes}")
    seconds = time.time() - options.since
    keep(plan, not failed, seconds, failed, RESULT)
    if options.all and not failed:
        note_whole_run(plan.commit, seconds, WHOLE_RUN)
        print(f"== noted in {WHOLE_RUN.relative_to(ROOT)}: commit it")
    print(*(f"== {line}" for line in lines), sep="\n")
    for each in failed:
        print(f"== FAILED: {each}")
    print(f"== {'all that was run passed' if not failed else 'failed'} after {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
