"""A stream that chooses its topics by a pattern, as a batch member without Spark."""

from collections.abc import Callable
from uuid import uuid4

import pytest

import apportion.coord.consumer.expressions
from apportion.client.cluster import Cluster
from apportion.member.batch.span import EMPTY_SPAN
from apportion.spark.membership.batch_member import BatchMember
from tests.spark.batch_members import GroupProtocol, broker, create_topic, span_where

__all__ = ["broker"]

PATIENT: dict[str, str] = {"startingOffsets": "earliest", "subscribe": ""}


@pytest.fixture(scope="module")
def protocol() -> GroupProtocol:
    """The broker resolves patterns for members of KIP-848 alone."""
    return "consumer"


@pytest.fixture
def name() -> str:
    return f"pattern-{uuid4().hex[:8]}"


def test_the_topics_that_match_are_read_and_so_is_one_that_comes_later(
    cluster: Cluster,
    batch_member_of: Callable[..., BatchMember],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apportion.coord.consumer.expressions, "REFRESH_AT_LEAST_MS", 500)
    first = create_topic(cluster, f"{name}-a", 2, records=4)
    create_topic(cluster, f"other-{name}-a", 2, records=4)
    member = batch_member_of(name, "", **PATIENT, subscribePattern=f"{name}-.*")
    span = span_where(member, EMPTY_SPAN, lambda span: len(span.ranges) == 2)
    assert dict(span.ranges) == dict.fromkeys(first, (0, 4))
    later = create_topic(cluster, f"{name}-b", 2, records=3)
    span = span_where(member, span, lambda span: len(span.ranges) == 4)
    assert {each: span.ranges[each] for each in later} == dict.fromkeys(later, (0, 3))


def test_reading_what_is_there_does_not_end_before_the_pattern_is_resolved(
    cluster: Cluster, batch_member_of: Callable[..., BatchMember], name: str
) -> None:
    partitions = create_topic(cluster, f"{name}-a", 2, records=4)
    for _ in range(2):  # a second run finds a group that has resolved it
        member = batch_member_of(name, "", **PATIENT, subscribePattern=f"{name}-.*")
        member.stop_at_present_ends()
        asking = member.next_span(EMPTY_SPAN, None)  # the writers, of whom there are none
        batch = member.next_span(asking, None)
        assert member.next_span(batch, None) is batch
        assert batch.end_offsets() == dict.fromkeys(partitions, 4)
        member.close()


def test_a_pattern_that_matches_nothing_is_said_in_the_log_and_waited_for(
    batch_member_of: Callable[..., BatchMember], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    member = batch_member_of(name, "", **PATIENT, subscribePattern=f"{name}-.*")
    member.next_span(member.next_span(EMPTY_SPAN, None), None)
    assert (
        f"group {name}: no topic matches {name}-.* yet; those that come are read from their "
        "beginning: is the pattern right?"
    ) in caplog.messages
    assert member.waits_for == f"no topic matched {name}-.* as the query began"
