"""Many scripts, each a seed, and which of them the lane plays.

`APPORTION_DIFFERENTIAL_FIRST=9000` says where they begin, `APPORTION_DIFFERENTIAL_SCRIPTS=5000` how
many there are, and `APPORTION_DIFFERENTIAL_SEED=17` plays that one alone. A guard that is switched
off is found by the seed in found.txt; `APPORTION_DIFFERENTIAL_SEARCH=1` searches that anew, from 0
on, and keeps it there.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path

from tests import profiles
from tests.kafka.differential.compare import Played

LENGTH = 30
"""Steps of a script, at the most."""
REPORTS = 5
"""After so many scripts that disagree, no others are played."""
ENOUGH = 200
"""So many scripts of classic groups meet everything that is meant to differ."""
FOUND = Path(__file__).parents[1] / "found.txt"
"""Lines of a guard's name and the first seed by which the brokers disagree without it."""


def seeds_of(usual: int, part: int = 1, enough: int = ENOUGH) -> Sequence[int]:
    """The seeds that a test plays: so many, or that part of as many as somebody asked for:
    `make all` asks for `enough`.
    """
    one = os.environ.get("APPORTION_DIFFERENTIAL_SEED")
    if one is not None:
        return [int(one)]
    first = int(os.environ.get("APPORTION_DIFFERENTIAL_FIRST", "0"))
    whole = str(enough) if profiles.is_whole() else None
    asked = os.environ.get("APPORTION_DIFFERENTIAL_SCRIPTS", whole)
    return range(first, first + (usual if asked is None else int(asked) // part))


def check(
    seeds: Sequence[int], play: Callable[[int, str], Played], unsteady_percent: int = 2
) -> None:
    """Play all scripts; the brokers disagree about none of them twice, and about few once: on a
    slow machine a session may have run out, or an answer have come so late that members met in
    another order.
    """
    reports: list[str] = []
    unsteady: list[str] = []
    started, steps = time.monotonic(), 0
    for seed in seeds:
        for told in (unsteady, reports):
            played = play(seed, str(time.time_ns()))
            steps += len(played.script)
            if not played.disagreements:
                break
            told.append(played.report())
        if len(reports) == REPORTS:
            break
    seconds = time.monotonic() - started
    print(
        f"{len(seeds)} scripts from {seeds[0]}, {steps} steps, {seconds:.0f} s, "
        f"{len(unsteady) - len(reports)} only once in disagreement"
    )
    assert reports == [], "\n\n".join(reports)
    assert len(unsteady) <= 1 + len(seeds) * unsteady_percent // 100, "\n\n".join(unsteady)


def check_found(guard: str, play: Callable[[int, str], Played]) -> None:
    """The brokers disagree about the script of the seed that is known for this guard."""
    known = dict(line.split() for line in FOUND.read_text().splitlines())
    is_search = guard not in known or "APPORTION_DIFFERENTIAL_SEARCH" in os.environ
    seeds: Iterable[int] = count() if is_search else [int(known[guard])]
    for seed in seeds:
        played = play(seed, f"{guard}-{time.time_ns()}")
        if played.disagreements:
            break
    print(played.report())
    assert played.disagreements != [], f"{guard} wants another seed: APPORTION_DIFFERENTIAL_SEARCH"
    known[guard] = str(seed)
    lines = "".join(f"{name} {number}\n" for name, number in sorted(known.items()))
    if lines != FOUND.read_text():
        FOUND.write_text(lines)
