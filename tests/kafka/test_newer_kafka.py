"""What a newer Apache Kafka does than that of the other tests, and ours does too: the scripts of
`test_differential.py`, without the differences that are gone there.
"""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from apportion.testing.kafka import KafkaMissing, RealKafka, jars_of
from tests.kafka.differential.compare import Difference, Intended, differences, play, side_by_side
from tests.kafka.differential.fleet import LENGTH, check, seeds_of
from tests.kafka.differential.intended import EMPTIED, INTENDED, JOIN, VOTES
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import Beat, Describe, Settle, Step
from tests.kafka.test_differential import ALIKE


def is_a_tie(seen: Difference) -> bool:
    return isinstance(seen.step, Settle) and seen.step.votes == "tied" and seen.path[0] != "sizes"


NEWER = [row for row in INTENDED if row not in (VOTES, EMPTIED)] + [
    Intended("equal votes for assignors", is_a_tie, ends_script=True)
]


@pytest.fixture(scope="module")
def sides(
    tmp_path_factory: pytest.TempPathFactory, lane_missing: Callable[[str], NoReturn]
) -> Iterator[tuple[Side, Side]]:
    """Our broker and the newer real one, with the topics that scripts share."""
    try:
        newer = RealKafka(
            jars_of(Path(__file__).with_name("pom-newer.xml")),
            tmp_path_factory.mktemp("newer"),
            {"group.min.session.timeout.ms": "100"},
        )
        newer.start()
    except KafkaMissing as problem:
        lane_missing(str(problem))
    try:
        with side_by_side(newer, **ALIKE) as both:
            yield both
    finally:
        newer.kill()


def test_both_brokers_say_the_same_at_every_step(sides: tuple[Side, Side]) -> None:
    check(seeds_of(13, 3), lambda seed, token: play(seed, LENGTH, token, *sides, NEWER))


VOTER: dict[str, Any] = JOIN | {"topics": ("six", "three")}


def static_members_vote_anew(group: str) -> list[Step]:
    """Two static members come back, and ask for another assignor (KAFKA-20434)."""
    return [
        *(Beat(group, name, instance=name, **VOTER) for name in "ab"),
        *(Beat(group, name, -2, instance=name) for name in "ab"),
        *(
            Beat(group, successor, instance=name, **VOTER | {"assignor": "uniform"})
            for name, successor in ("ac", "bd")
        ),
    ]


def a_member_votes_anew(group: str) -> list[Step]:
    """The only member asks for another assignor, and at last for the same one again."""
    return [
        Beat(group, "a", **VOTER),
        Beat(group, "a", 2, assignor="uniform"),
        Beat(group, "a", 3, assignor="uniform"),
    ]


def members_without_topics_vote(group: str) -> list[Step]:
    """The first member is against the default; later ones are outvoted, or decide."""
    voter = JOIN | {"topics": ()}
    return [
        Beat(group, "a", **voter),
        Beat(group, "b", **voter),
        Beat(group, "c", **voter | {"assignor": "uniform"}),
        Beat(group, "b", 2, assignor="uniform"),
    ]


def all_members_leave(group: str) -> list[Step]:
    """The last member leaves (KAFKA-20442)."""
    return [Beat(group, "a", **VOTER), Beat(group, "a", -1)]


@pytest.mark.parametrize(
    ("script", "epoch"),
    [
        (static_members_vote_anew, 4),
        (a_member_votes_anew, 3),
        (members_without_topics_vote, 3),
        (all_members_leave, 3),
    ],
)
def test_both_brokers_bump_the_epoch_alike(
    sides: tuple[Side, Side], script: Callable[[str], list[Step]], epoch: int
) -> None:
    group = f"{script.__name__}-{time.time_ns()}"
    for side in sides:
        side.begin()
        for step in script(group):
            assert side.play(step)["code"] == 0, (side.name, step.line())
    described = [side.play(Describe((group,)))[group] for side in sides]
    assert [(each["epoch"], each["assignment epoch"]) for each in described] == [(epoch, epoch)] * 2


def test_a_rack_that_changes_bumps_the_epoch_here_alone(sides: tuple[Side, Side]) -> None:
    group = f"rack-{time.time_ns()}"
    for side in sides:
        side.begin()
        side.play(Beat(group, "a", rack="r1", **VOTER))
    seen = differences(*(side.play(Beat(group, "a", 2, rack="r2")) for side in sides))
    assert [each for each in seen if each[0] != ("interval",)] == [(("epoch",), 3, 2)]


def test_a_tie_of_votes_moves_the_epoch_with_each_round_there_alone(
    sides: tuple[Side, Side],
) -> None:
    group = f"tie-{time.time_ns()}"
    epochs = []
    for side in sides:
        side.begin()
        side.play(Beat(group, "a", **VOTER | {"assignor": "uniform"}))
        side.play(Beat(group, "b", **VOTER))
        settled = side.play(Settle(group, votes="tied"))
        epochs.append((settled["is quiet"], max(settled["epochs"].values()) > 40))
    assert epochs == [(True, False), (False, True)]


LIMITS = "a request with too many elements in an array, or too many tagged fields"
MOST_TAGGED_FIELDS = b"\x90\x4e"  # 10,000 as a varint
ONE_MORE = b"\x91\x4e"


def is_answered(bootstrap: str, count: bytes, tags: int) -> bool:
    """Whether ApiVersions is, with so many tagged fields in its header."""
    body = b"\2x\2y\0"  # name and version of the software, no tagged fields
    request = bytes([0, 18, 0, 3, 0, 0, 0, 1, 255, 255]) + count + bytes(2 * tags) + body
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as line:
        line.sendall(len(request).to_bytes(4, "big") + request)
        try:
            return bool(line.recv(4))
        except ConnectionResetError:
            return False


def test_limits_of_the_decoder(sides: tuple[Side, Side], kafka: RealKafka) -> None:
    ours, newer = sides
    brokers = {"ours": ours.bootstrap, "newer": newer.bootstrap, "older": kafka.bootstrap}
    assert {
        name: (
            is_answered(bootstrap, MOST_TAGGED_FIELDS, 10_000),
            is_answered(bootstrap, ONE_MORE, 10_001),
        )
        for name, bootstrap in brokers.items()
    } == {"ours": (True, False), "newer": (True, False), "older": (True, True)}, LIMITS
