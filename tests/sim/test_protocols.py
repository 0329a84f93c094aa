"""Which protocol and which assignors the applications of a world speak, and which faults befall
it.
"""

from dataclasses import replace
from typing import Any

import pytest

from apportion.member.assignors.interface import Rebalance
from apportion.member.assignors.strategy import rebalance_of, strategy
from apportion.sim.actors.protocols import (
    COMPATIBLE_CHOICES,
    CONSUMER_PROTOCOL,
    COOPERATIVE,
    ProtocolPair,
    draw_protocols,
)
from apportion.sim.kernel.scenario import (
    FAULTS,
    ONLY_CONSUMER,
    ONLY_MIXED,
    ONLY_ON_REQUEST,
    ONLY_STREAMS,
    Fault,
    Scenario,
    ScenarioRefused,
    draw_scenario,
)
from apportion.sim.kernel.settings import CLASSIC, CONSUMER, MIXED

SEEDS = range(200)


def spoken(protocol: str) -> dict[int, list[ProtocolPair]]:
    """For each seed the dialects of the applications of a large world, first and other; workers
    come first.
    """
    return {
        seed: draw_protocols(Scenario(seed=seed, workers=3, readers=6, protocol=protocol))
        for seed in SEEDS
    }


@pytest.mark.parametrize("protocol", [CLASSIC, MIXED])
def test_all_members_of_a_group_share_an_assignor_that_their_owners_can_use(
    protocol: str,
) -> None:
    for rows in spoken(protocol).values():
        for group in (rows[:3], rows[3:]):
            classic = [dialect for row in group for dialect in row if dialect.protocol == CLASSIC]
            common = [
                name
                for name in classic[0].assignors
                if all(name in dialect.assignors for dialect in classic)
            ]
            assert common
        assert {dialect for row in rows[:3] for dialect in row} == {COOPERATIVE, CONSUMER_PROTOCOL}


def test_every_style_is_drawn_and_every_assignor_is_some_members() -> None:
    seen = {frozenset(row.first for row in rows[3:]) for rows in spoken(CLASSIC).values()}
    assert {frozenset(style) for style in COMPATIBLE_CHOICES} <= seen
    assert {name for style in seen for dialect in style for name in dialect.assignors} == {
        "cooperative-sticky",
        "range",
        "roundrobin",
        "sticky",
    }
    ways = {rebalance_of(strategy(dialect.assignors)) for style in seen for dialect in style}
    assert ways == {Rebalance.EAGER, Rebalance.COOPERATIVE}


def test_the_protocol_of_a_world_is_what_its_applications_speak_first() -> None:
    assert {row.first.protocol for rows in spoken(CONSUMER).values() for row in rows} == {CONSUMER}
    assert {row.first.protocol for rows in spoken(CLASSIC).values() for row in rows} == {CLASSIC}
    firsts = [{row.first.protocol for row in rows} for rows in spoken(MIXED).values()]
    assert sum(first == {CONSUMER, CLASSIC} for first in firsts) > len(SEEDS) * 0.9


def test_an_application_changes_its_protocol_and_changes_it_back() -> None:
    for rows in spoken(MIXED).values():
        for row in rows:
            assert {row.first.protocol, row.other.protocol} == {CLASSIC, CONSUMER}
            assert row.other_than(row.first) == row.other
            assert row.other_than(row.other) == row.first


@pytest.mark.parametrize("kind", ONLY_MIXED)
@pytest.mark.parametrize("protocol", [CONSUMER, CLASSIC])
def test_nobody_changes_its_protocol_where_one_alone_is_spoken(kind: str, protocol: str) -> None:
    sentence = (
        f"^the fault '{kind}' is for worlds of both protocols: give it the protocol 'mixed'.$"
    )
    with pytest.raises(ScenarioRefused, match=sentence):
        draw_scenario(1, kinds=[kind], protocol=protocol)
    with pytest.raises(ScenarioRefused, match=sentence):
        Scenario(seed=1, protocol=protocol, faults=(Fault(1_000, kind),))
    assert {fault.kind for fault in draw_scenario(1, kinds=[kind], protocol=MIXED).faults} == {kind}


@pytest.mark.parametrize("kind", ONLY_CONSUMER)
@pytest.mark.parametrize("protocol", [CLASSIC, MIXED])
def test_nobody_subscribes_by_expression_in_the_classic_protocol(kind: str, protocol: str) -> None:
    sentence = f"^the fault '{kind}' is for worlds of the consumer protocol alone"
    with pytest.raises(ScenarioRefused, match=sentence):
        draw_scenario(1, kinds=[kind], protocol=protocol)


def test_a_protocol_that_there_is_not_is_refused() -> None:
    with pytest.raises(
        ScenarioRefused,
        match=r"^there is no protocol 'share'; there are consumer, classic, mixed\.$",
    ):
        Scenario(seed=1, protocol="share")


def test_a_local_assignor_that_there_is_not_is_refused() -> None:
    with pytest.raises(
        ScenarioRefused,
        match=r"^there is no local assignor 'uniform': choose one of none, range, sticky, "
        r"lag-weighted, unreliable\.$",
    ):
        Scenario(seed=1, local_assignor="uniform")


def test_classic_members_have_the_assignors_that_the_seed_chooses() -> None:
    with pytest.raises(
        ScenarioRefused, match=r"^a local assignor is for worlds with members of the consumer"
    ):
        draw_scenario(1, protocol=CLASSIC, local_assignor="range")
    assert draw_scenario(1, protocol=MIXED, local_assignor="range").local_assignor == "range"


def test_a_seed_chooses_no_local_assignor_and_has_the_same_sizes_with_one() -> None:
    plain = draw_scenario(1)
    assert plain.local_assignor == "none"
    assert draw_scenario(1, local_assignor="range") == replace(plain, local_assignor="range")


def test_mixed_groups_draw_all_faults_and_others_all_but_changes_of_protocol() -> None:
    drawn_unasked = set(FAULTS) - set(ONLY_ON_REQUEST) - set(ONLY_STREAMS)
    for protocol, kinds in (
        (MIXED, drawn_unasked),
        (CLASSIC, drawn_unasked - set(ONLY_MIXED)),
        (CONSUMER, drawn_unasked - set(ONLY_MIXED)),
    ):
        assert {
            fault.kind for seed in SEEDS for fault in draw_scenario(seed, protocol=protocol).faults
        } == kinds


def test_worlds_with_a_streams_application_draw_its_fault_and_none_that_would_end_it() -> None:
    kinds = {
        fault.kind for seed in SEEDS for fault in draw_scenario(seed, streams=2, readers=0).faults
    }
    drawn_unasked = set(FAULTS) - set(ONLY_ON_REQUEST) - set(ONLY_MIXED)
    assert kinds == drawn_unasked - {"more-partitions", "topic-again"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            {"streams": 1, "protocol": MIXED},
            "streams are for worlds of the consumer protocol alone: `apportion streams rehearse` "
            "plays Streams applications in classic groups.",
        ),
        (
            {"kinds": ["topology"]},
            "the fault 'topology' is for worlds with a Streams application: give it streams.",
        ),
        (
            {"streams": 1, "kinds": ["topic-again"]},
            "the fault 'topic-again' is not for worlds with a Streams application, which ends "
            "where its source topics change.",
        ),
    ],
    ids=["mixed", "no streams", "source topics"],
)
def test_a_world_that_no_streams_application_fits_is_refused(
    wrong: dict[str, Any], why: str
) -> None:
    with pytest.raises(ScenarioRefused) as refused:
        draw_scenario(1, **wrong)
    assert str(refused.value) == why


def test_a_seed_chooses_no_streams_and_has_the_same_sizes_with_some() -> None:
    plain, some = draw_scenario(1, kinds=()), draw_scenario(1, kinds=(), streams=3)
    assert plain.streams == 0
    assert some == replace(plain, streams=3)
