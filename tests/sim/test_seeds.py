"""Every seed that ever failed holds, and so does a slice of others."""

import re
from pathlib import Path

import pytest

from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.settings import CONSUMER, MIXED, PROTOCOLS, UNRELIABLE
from apportion.sim.kernel.trace import Trace
from apportion.sim.play import play
from apportion.sim.seed_pool import Draw

SLICE = range(30)  # of each protocol in `make test`; more are `apportion sim --runs`
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("start", SLICE[::10])
def test_fresh_seeds_hold(start: int, protocol: str) -> None:
    outcomes = [
        play(Draw(sizes={"protocol": protocol}).scenario(seed)) for seed in range(start, start + 10)
    ]
    assert [outcome.broken for outcome in outcomes] == [None] * 10
    assert all(outcome.steps > 300 and outcome.digest for outcome in outcomes)


ALTERED = ("alter-group", "crash", "pause", "broker-crash", "disk-refuses", "cut", "lost-reply")
STRAYS = ("stray", "crash", "restart", "replace", "broker-crash", "cut", "more-partitions")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_seeds_with_queries_of_another_sink_hold(protocol: str) -> None:
    outcomes = [play(Draw(STRAYS, {"protocol": protocol}).scenario(seed)) for seed in range(5)]
    assert [outcome.broken for outcome in outcomes] == [None] * 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_seeds_with_consumers_in_the_group_of_queries_hold(protocol: str) -> None:
    kinds = ("stray-consumer", *STRAYS)
    outcomes = [play(Draw(kinds, {"protocol": protocol}).scenario(seed)) for seed in range(5)]
    assert [outcome.broken for outcome in outcomes] == [None] * 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_seeds_with_settings_of_groups_that_change_hold(protocol: str) -> None:
    outcomes = [play(Draw(ALTERED, {"protocol": protocol}).scenario(seed)) for seed in range(5)]
    assert [outcome.broken for outcome in outcomes] == [None] * 5


@pytest.mark.parametrize("protocol", ["consumer", "mixed"])
def test_seeds_with_targets_computed_beside_the_requests_hold(protocol: str) -> None:
    beside, within = (
        [
            play(Draw(sizes={"protocol": protocol, "offload_size": size}).scenario(seed))
            for seed in range(5)
        ]
        for size in (0, 10_000)
    )
    assert [outcome.broken for outcome in (*beside, *within)] == [None] * 10
    # Any: groups that stay classic, as in one of these histories, have no target.
    assert any(a.digest != b.digest for a, b in zip(beside, within, strict=True))


LOST_JOINS = ("lost-join", "crash", "restart", "broker-crash", "cut")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_seeds_with_lost_requests_to_join_hold(protocol: str) -> None:
    sizes = {"protocol": protocol, "statics": 1}
    traces = [Trace() for _ in range(5)]
    outcomes = [
        play(Draw(LOST_JOINS, sizes).scenario(seed), trace) for seed, trace in enumerate(traces)
    ]
    assert [outcome.broken for outcome in outcomes] == [None] * 5
    lost = [line for trace in traces for line in trace.lines if "to join is lost" in line.text]
    assert len(lost) >= 5


EXPRESSIONS = (
    *("regex", "subscribe", "crash", "restart", "broker-crash", "disk-refuses", "lost-reply"),
    *("cut", "pause", "topic-again", "more-partitions"),
)


def test_seeds_with_subscriptions_by_expression_hold() -> None:
    outcomes = [play(Draw(EXPRESSIONS, {"readers": 3}).scenario(seed)) for seed in range(10)]
    assert [outcome.broken for outcome in outcomes] == [None] * 10


@pytest.mark.parametrize("protocol", [CONSUMER, MIXED])
def test_seeds_with_an_unreliable_custom_assignor_hold(protocol: str) -> None:
    sizes = {"protocol": protocol, "assignor": UNRELIABLE}
    outcomes = [play(Draw(sizes=sizes).scenario(seed)) for seed in range(10)]
    assert [outcome.broken for outcome in outcomes] == [None] * 10


@pytest.mark.parametrize("protocol", [CONSUMER, MIXED])
def test_seeds_whose_members_compute_badly_hold(protocol: str) -> None:
    sizes = {"protocol": protocol, "local_assignor": UNRELIABLE}
    outcomes = [play(Draw(sizes=sizes).scenario(seed)) for seed in range(10)]
    assert [outcome.broken for outcome in outcomes] == [None] * 10


@pytest.mark.parametrize("assignor", ["range", "sticky", "lag-weighted"])
def test_seeds_whose_members_compute_hold(assignor: str) -> None:
    outcomes = [play(Draw(sizes={"local_assignor": assignor}).scenario(seed)) for seed in range(5)]
    assert [outcome.broken for outcome in outcomes] == [None] * 5


def test_seeds_with_a_streams_application_hold() -> None:
    sizes = {"streams": 3, "workers": 0, "readers": 0}
    outcomes = [play(Draw(sizes=sizes).scenario(seed)) for seed in range(8)]
    assert [outcome.broken for outcome in outcomes] == [None] * 8
    assert all(outcome.rebalances and outcome.commits for outcome in outcomes)


BOUNCED = ("topology", "crash", "restart", "broker-crash", "lost-reply")


def test_seeds_with_a_streams_application_beside_others_hold() -> None:
    sizes = {"streams": 2, "workers": 1, "readers": 1, "assignment_interval_ms": 1_000}
    outcomes = [play(Draw(BOUNCED, sizes).scenario(seed)) for seed in range(5)]
    assert [outcome.broken for outcome in outcomes] == [None] * 5
