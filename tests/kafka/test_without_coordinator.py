"""Both brokers before anybody has looked for a coordinator: of the requests about groups
FindCoordinator alone creates `__consumer_offsets`, and every other valid one that names a group is
answered NOT_COORDINATOR until then.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from tests.kafka.differential.compare import differences
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import MakeTopic
from tests.kafka.differential.twice_requests import REQUESTS, TEXTS, TWICE
from tests.kafka.differential.wrong import Case
from tests.kafka.own_apis import OWN_APIS
from tests.kafka.test_wrong_requests import shown, unordered


def right(request: Any) -> Any:
    """The request; of a commit only the topic that exists."""
    if isinstance(request, OffsetCommitRequest):
        return OffsetCommitRequest(group_id=request.group_id, topics=request.topics[:1])
    return request


RIGHT = [
    Case(whole.name, version, lambda twice, make=whole.request: right(make(twice, "g")), TWICE)
    for whole in REQUESTS
    for version in whole.versions
    if type(whole.request(bytes(16), "g")) in GROUP_ERROR_RESPONSES
] + [
    Case("beat", version, lambda _: HeartbeatRequest(group_id="g", generation_id=1), TWICE)
    for version in (0, 4)
]
"""Requests of every API of groups."""
WRONG = [
    (
        Case("commit", 9, lambda twice: TEXTS["commit"](twice, "g"), TWICE),
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    (Case("sync", 5, lambda twice: TEXTS["sync"](twice, ""), TWICE), Code.INVALID_GROUP_ID),
]
"""Requests that a real Kafka refuses before it looks for the group's coordinator."""


@pytest.fixture
def sides(jars: Path, tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Our broker and a real one of which no client has asked anything yet."""
    with EmbeddedBroker() as broker, RealKafka(jars, tmp_path) as kafka:
        both = Side("apportion", broker.bootstrap), Side("Kafka", kafka.bootstrap)
        yield both
        for side in both:
            side.close()


def topics(side: Side) -> list[str]:
    """The names of the topics that the broker has."""
    return sorted(topic.name for topic in side.call(MetadataRequest(topics=None), 12).topics)


def codes(answer: Plain) -> set[int]:
    """The error codes anywhere in an answer."""
    if not isinstance(answer, dict):
        return set()
    own = {answer["error_code"]} if answer.get("error_code") else set()
    return own.union(*map(codes, answer.values()))


def test_find_coordinator_alone_makes_a_coordinator(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.play(MakeTopic(TWICE, 3))
    asked = {type(case.request(bytes(16))) for case in RIGHT}
    assert asked == GROUP_ERROR_RESPONSES.keys() - OWN_APIS.values()
    for case in RIGHT:
        ours, theirs = (unordered(shown(side, case)) for side in sides)
        different = {path[-1] for path, *_ in differences(ours, theirs)}
        assert different <= {"error_message"}, (case, ours, theirs)
        assert codes(theirs) == (set() if "list" in case.name else {Code.NOT_COORDINATOR}), case
    for case, code in WRONG:
        ours, theirs = (codes(shown(side, case)) for side in sides)
        assert (ours, code in theirs) == ({Code.NOT_COORDINATOR}, True), (case, theirs)
    assert [topics(side) for side in sides] == [[TWICE]] * 2
    for side in sides:
        side.prepare()  # which looks for a coordinator
        assert topics(side) == ["__consumer_offsets", TWICE]
