"""`make long`: searches that take hours, each from a fresh seed.

A failure prints the command that repeats it.

A search is a command line with a seed and a size in it. `--sample` takes the small sizes, which
.ci/run can afford, and leaves out what lanes of tests play: scripts on both brokers, kills. The
tests of the simulator search nothing: they play one seed of each world, and the seeds that were
kept. Every search is run, whatever became of those before it; the exit code is 1 where one failed.
"""

import argparse
import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ".venv/bin/python"
FRESH_SEEDS = 10**9
PROPERTIES = (
    "tests/assign tests/columns tests/coord tests/member tests/node tests/store tests/streams "
    "tests/wire"
)


class Search(NamedTuple):
    """One search.

    command: contains {seed} and {size}. full, sample: its size in `make long` and in CI (0: it is
    left out).
    """

    name: str
    command: str
    full: int
    sample: int = 0

    def line(self, seed: int, is_sample: bool) -> str:
        """Return the command line that plays this search from that seed, at any time again."""
        size = (is_sample and self.sample) or self.full
        return self.command.format(python=PYTHON, seed=seed, size=size, properties=PROPERTIES)


DIFFERENTIAL = (
    "env APPORTION_DIFFERENTIAL_FIRST={{seed}} APPORTION_DIFFERENTIAL_SCRIPTS={{size}} "
    "{{python}} -m pytest {} -k say_the_same"
)
SIMULATED = (
    "env APPORTION_SIMULATED_FIRST={{seed}} APPORTION_SIMULATED_SEEDS={{size}} "
    "{{python}} -m pytest {}"
)


class World(NamedTuple):
    """A kind of simulated world.

    sizes: what is not drawn from the seed, as `apportion sim` calls it. kinds: the faults; empty:
    all. full, sample: how many seeds of it are searched, as in `Search`.
    """

    name: str
    sizes: Mapping[str, str | int]
    full: int
    sample: int
    kinds: tuple[str, ...] = ()

    @property
    def search(self) -> Search:
        """The search of fresh seeds of this world."""
        options = [f" --{name.replace('_', '-')} {value}" for name, value in self.sizes.items()]
        options += [f" --fault {kind}" for kind in self.kinds]
        return Search(
            f"sim-{self.name}",
            "{python} -m apportion.cli.main sim --first {seed} --runs {size}" + "".join(options),
            self.full,
            self.sample,
        )


PROTOCOLS = ("consumer", "classic", "mixed")
STRAYS = ("stray", "crash", "restart", "replace", "broker-crash", "cut", "more-partitions")
TARGETS: dict[str, dict[str, str | int]] = {
    "large": {"offload_size": 0},
    "assignor": {"assignor": "unreliable"},
    "local-assignor": {"local_assignor": "unreliable"},
}
"""Worlds in which targets are computed beside the requests of others, or badly."""

WORLDS = (
    *(World(protocol, {"protocol": protocol}, 20_000, 200) for protocol in PROTOCOLS),
    World(
        "regex",
        {"readers": 3},
        5_000,
        50,
        (
            *("regex", "subscribe", "crash", "restart", "broker-crash", "disk-refuses"),
            *("lost-reply", "cut", "pause", "topic-again", "more-partitions"),
        ),
    ),
    *(
        World(f"{name}-{protocol}", {"protocol": protocol} | sizes, full, sample)
        for name, sizes in TARGETS.items()
        for protocol, full, sample in (("consumer", 5_000, 50), ("mixed", 2_000, 20))
    ),
    *(
        World(f"local-{assignor}", {"local_assignor": assignor}, 1_000, 10)
        for assignor in ("range", "sticky", "lag-weighted")
    ),
    *(
        World(f"{name}-{protocol}", {"protocol": protocol, **sizes}, 2_000, 10, kinds)
        for name, sizes, kinds in (
            ("stray", {}, STRAYS),
            ("stray-reader", {}, ("stray-consumer", *STRAYS)),
            (
                "altered",
                {},
                (
                    *("alter-group", "crash", "pause", "broker-crash", "disk-refuses", "cut"),
                    "lost-reply",
                ),
            ),
            (
                "lost-join",
                {"statics": 1},
                ("lost-join", "crash", "restart", "broker-crash", "cut"),
            ),
        )
        for protocol in PROTOCOLS
    ),
    World("streams", {"streams": 3, "workers": 0, "readers": 0}, 5_000, 20),
    World(
        "streams-beside-others",
        {"streams": 2, "workers": 1, "readers": 1, "assignment_interval_ms": 1_000},
        2_000,
        10,
        ("topology", "crash", "restart", "broker-crash", "lost-reply"),
    ),
)
"""`tests/sim/test_seeds.py` plays the first seed of each."""

SEARCHES = (
    *(world.search for world in WORLDS),
    Search("matrix", SIMULATED.format("tests/sim/test_matrix.py"), 120, 2),
    Search("cleaning", SIMULATED.format("tests/sim/test_cleaning.py"), 1_000, 10),
    Search("upgrades", SIMULATED.format("tests/sim/test_rehearsal.py -k under_faults"), 3_000, 30),
    Search(
        "rehearsals", "{python} -m apportion.cli.main streams rehearse --matrix --seed {seed}", 1, 1
    ),
    Search(
        "properties",
        "env APPORTION_PROPERTIES_PERCENT={size} {python} -m pytest --numprocesses=2 -m hypothesis "
        "--hypothesis-profile=long --hypothesis-seed={seed} {properties}",
        2_000,
        25,
    ),
    Search("differential", DIFFERENTIAL.format("tests/kafka/test_differential.py"), 3_000),
    Search(
        "differential-classic",
        DIFFERENTIAL.format("tests/kafka/test_differential_classic.py"),
        1_000,
    ),
    Search(
        "kills",
        "env APPORTION_KILLS={size} APPORTION_KILLS_SEED={seed} {python} -m pytest "
        "tests/compat/test_kill.py",
        300,
    ),
)


def chosen(only: list[str], is_sample: bool) -> list[Search]:
    """Return the searches that were asked for, in their order."""
    return [
        search
        for search in SEARCHES
        if (search.name in only if only else not is_sample or search.sample)
    ]


def is_fine(search: Search, line: str) -> bool:
    """Run the command line and print what it was and what came of it."""
    print(f"== {search.name}: {line}", flush=True)
    started = time.monotonic()
    code = subprocess.run(
        shlex.split(line),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ).returncode
    print(
        f"== {search.name}: {'holds' if code == 0 else f'exit code {code}'} after "
        f"{time.monotonic() - started:.0f} s",
        flush=True,
    )
    return code == 0


def main(arguments: list[str] | None = None) -> int:
    """Play the searches and name those that failed. Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="make long ARGS=...", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="where all begin; drawn afresh if not given"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[search.name for search in SEARCHES],
        help="this search",
    )
    parser.add_argument("--sample", action="store_true", help="the small sizes, as CI plays them")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(FRESH_SEEDS) if options.seed is None else options.seed
    failed = []
    for search in chosen(options.only, options.sample):
        line = search.line(seed, options.sample)
        if not is_fine(search, line):
            failed.append((search.name, line))
    small = " --sample" if options.sample else ""
    for name, line in failed:
        print(
            f"{name} failed. Again:\n    make long ARGS='--seed {seed} --only "
            f"{name}{small}'\nwhich is\n    {line}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
