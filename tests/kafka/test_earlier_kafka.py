"""What the Apache Kafka that was the reference before does, and the one of the other tests does no
more: the scripts of `test_differential.py`, with the differences that were there then.
"""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from apportion.testing.kafka import KafkaMissing, RealKafka, jars_of
from tests.kafka.differential.compare import Difference, Intended, differences, play, side_by_side
from tests.kafka.differential.fleet import LENGTH, check, seeds_of
from tests.kafka.differential.intended import INTENDED, JOIN, TIES, is_one_epoch_more
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import Beat, Describe, Settle
from tests.kafka.test_differential import ALIKE


def is_a_vote_that_decides(seen: Difference) -> bool:
    """Nobody voted before, or another assignor won since the group was last at rest."""
    step = seen.after
    is_a_vote = (isinstance(step, Beat) and step.assignor is not None and step.topics == ()) or (
        isinstance(step, Settle) and step.votes in ("changed", "tied")
    )
    return is_a_vote and is_one_epoch_more(seen)


def is_an_empty_groups_target(seen: Difference) -> bool:
    return (
        isinstance(seen.step, Describe)
        and seen.path[-1:] == ("assignment epoch",)
        and bool(seen.ours > seen.theirs)
    )


EARLIER = [
    *(row for row in INTENDED if row is not TIES),
    Intended("a vote by which another assignor wins", is_a_vote_that_decides, ends_script=True),
    Intended(
        "the assignment epoch of a group whose last member has left", is_an_empty_groups_target
    ),
]


@pytest.fixture(scope="module")
def sides(
    tmp_path_factory: pytest.TempPathFactory, lane_missing: Callable[[str], NoReturn]
) -> Iterator[tuple[Side, Side]]:
    """Our broker and the earlier real one, with the topics that scripts share."""
    try:
        earlier = RealKafka(
            jars_of(Path(__file__).with_name("pom-earlier.xml")),
            tmp_path_factory.mktemp("earlier"),
            {"group.min.session.timeout.ms": "100"},
        )
        earlier.start()
    except KafkaMissing as problem:
        lane_missing(str(problem))
    try:
        with side_by_side(earlier, **ALIKE) as both:
            yield both
    finally:
        earlier.kill()


def test_both_brokers_say_the_same_at_every_step(sides: tuple[Side, Side]) -> None:
    check(seeds_of(13, 3), lambda seed, token: play(seed, LENGTH, token, *sides, EARLIER))


def test_a_vote_of_a_static_member_that_comes_back_bumps_the_epoch_here_alone(
    sides: tuple[Side, Side],
) -> None:
    """KAFKA-20434, mended in Kafka 4.4."""
    group = f"vote-{time.time_ns()}"
    member = JOIN | {"topics": ("six",), "instance": "i"}
    for side in sides:
        side.begin()
        side.play(Beat(group, "a", **member))
        side.play(Beat(group, "a", -2, instance="i"))
    returned = Beat(group, "b", **member | {"assignor": "uniform"})
    seen = differences(*(side.play(returned) for side in sides))
    assert [each for each in seen if each[0] != ("interval",)] == [(("epoch",), 3, 2)]


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
    ours, earlier = sides
    brokers = {"ours": ours.bootstrap, "now": kafka.bootstrap, "earlier": earlier.bootstrap}
    assert {
        name: (
            is_answered(bootstrap, MOST_TAGGED_FIELDS, 10_000),
            is_answered(bootstrap, ONE_MORE, 10_001),
        )
        for name, bootstrap in brokers.items()
    } == {"ours": (True, False), "now": (True, False), "earlier": (True, True)}, LIMITS
