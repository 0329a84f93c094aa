"""Every seed that ever failed holds, and so does a world of each kind that is searched.

Fresh seeds of these worlds are the searches of `tools/long.py`.
"""

import re
from pathlib import Path

import pytest
from tools.long import WORLDS, World

from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.settings import PROTOCOLS
from apportion.sim.kernel.trace import Trace
from apportion.sim.play import play
from apportion.sim.seed_pool import Draw

LINE = re.compile(r"(?P<seed>\d+)(?P<options>( [a-z_]+=\S+)*) - (?P<why>.{10,})")


def drawn_of(line: str) -> Scenario:
    """The scenario of a line of seeds.txt."""
    match = LINE.fullmatch(line)
    assert match, f"not a line of seeds.txt: {line!r}"
    options = dict(word.split("=") for word in match["options"].split())
    faults = options.pop("faults", None)
    kinds = None if faults is None else () if faults == "none" else tuple(faults.split(","))
    sizes = {name: int(value) if value.isdigit() else value for name, value in options.items()}
    return Draw(kinds, sizes).scenario(int(match["seed"]))


LINES = [
    line
    for line in Path(__file__).with_name("seeds.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("line", LINES)
def test_a_seed_that_failed_holds_now(line: str) -> None:
    assert play(drawn_of(line)).broken is None


def test_a_line_says_a_world() -> None:
    scenario = drawn_of(
        "17 partitions=3 assignor=range faults=cut,pause - a worker was told twice what it knew"
    )
    assert scenario == Draw(("cut", "pause"), {"partitions": 3, "assignor": "range"}).scenario(17)
    assert drawn_of("17 faults=none - it was broken from the start").faults == ()
    with pytest.raises(AssertionError, match="not a line"):
        drawn_of("17 no reason")


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_world_of_each_search_runs_and_holds(world: World) -> None:
    outcome = play(Draw(world.kinds or None, dict(world.sizes)).scenario(0))
    assert outcome.broken is None
    assert outcome.steps > 300
    assert outcome.rebalances
    assert outcome.commits
    assert outcome.digest


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_requests_to_join_are_lost_where_they_shall_be(protocol: str) -> None:
    (world,) = (world for world in WORLDS if world.name == f"lost-join-{protocol}")
    trace = Trace()
    play(Draw(world.kinds, dict(world.sizes)).scenario(1), trace)
    assert [line for line in trace.lines if "to join is lost" in line.text]


def test_targets_are_computed_beside_the_requests_where_they_shall_be() -> None:
    digests = {play(Draw(sizes={"offload_size": size}).scenario(0)).digest for size in (0, 10_000)}
    assert len(digests) == 2
