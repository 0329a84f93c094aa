"""Simulated queries that look at the cluster before they join, while it is not as it should be."""

from typing import Any

import pytest

from apportion.sim.kernel.outcome import Outcome
from apportion.sim.kernel.scenario import Fault, draw_scenario
from apportion.sim.kernel.trace import Trace
from apportion.sim.play import play

BEGINS_MS = 2_475  # as the seed decides
ONE_QUERY: dict[str, Any] = {
    "workers": 1,
    "readers": 0,
    "statics": 0,
    "topics": 2,
    "partitions": 2,
    "duration_ms": 20_000,
    "delay_us": 800,
    "flush_us": 1_500,
}
OUTAGE = (
    "Metadata; the query tries again, and ends after 60 s without an answer; see that a broker "
    "listens there and can be reached from this host, or give another kafka.bootstrap.servers"
)
BEGINS = "begins as worker0.1"
MISSING = [
    f"topic t{number} does not exist yet; it is read from its beginning once it does"
    for number in range(2)
]


def played(*faults: Fault, looks: bool = True, **sizes: Any) -> tuple[Outcome, list[str]]:
    """What comes of one query, and what is said of it until it first hears from its group."""
    scenario = draw_scenario(0, kinds=(), looks=looks, **ONE_QUERY | sizes)
    trace = Trace()
    outcome = play(scenario.with_faults(faults), trace)
    lines = [line.text for line in trace.lines if line.process == "worker0"]
    heard = next(number for number, text in enumerate(lines) if text.startswith("hears epoch"))
    return outcome, lines[:heard]


def test_a_look_that_nothing_disturbs_says_nothing() -> None:
    outcome, said = played()
    assert (outcome.broken, said) == (None, [BEGINS])


def test_only_scenarios_that_ask_for_looks_have_them() -> None:
    unasked = draw_scenario(0, kinds=(), **ONE_QUERY)
    assert not unasked.looks
    outcome, _ = played(looks=False)
    assert outcome.digest == play(unasked).digest
    assert outcome.digest != played()[0].digest


@pytest.mark.parametrize(
    "fault",
    [
        Fault(BEGINS_MS - 5, "broker-pause", 0, 4_000),
        Fault(BEGINS_MS - 5, "cut", 0, 12_000),
        Fault(BEGINS_MS + 1, "broker-crash", 0, 4_000, twist=2),
    ],
)
def test_a_look_waits_for_a_broker_that_comes_back(fault: Fault) -> None:
    outcome, said = played(fault)
    assert (outcome.broken, said) == (None, [BEGINS, OUTAGE])


def test_a_look_leaves_topics_that_a_crashed_broker_has_yet_to_create_to_the_query() -> None:
    outcome, said = played(Fault(1, "broker-crash", 0, 4_000))
    assert (outcome.broken, said) == (None, [BEGINS, OUTAGE, *MISSING])


def test_a_query_whose_look_outlasts_its_limit_ends_and_begins_again() -> None:
    outcome, said = played(Fault(1, "cut", 0, 70_000), duration_ms=80_000)
    remedy = OUTAGE.removeprefix(
        "Metadata; the query tries again, and ends after 60 s without an answer"
    )
    ends = f"its query ends: group workers at the broker: Metadata{remedy}"
    assert outcome.broken is None
    assert said == [BEGINS, OUTAGE, ends, "stops", "ends", "begins as worker0.2"]
