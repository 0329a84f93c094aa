"""A group that the sink of a Spark query claims while a consumer reads in it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.group_claims import AnotherSink, metadata_of
from apportion.member.membership import CoordinatorFound, Event, Leave, Unanswered
from apportion.member.queries import CommitOffsets, FetchCommitted
from apportion.member.records.queries import CallListener
from apportion.rules import Rule
from tests.member.record_consumer_host import P0, P1, P2, RecordConsumerHost, reading_consumer

FOUND = CoordinatorFound(7)


@pytest.fixture
def host() -> RecordConsumerHost:
    """Return a consumer with an uncommitted record, whose group was claimed in a new epoch."""
    host = reading_consumer()
    assert host.poll(limit=1) == [(0, 2)]
    host.queries.clear()
    host.metadata = metadata_of(("a table",))
    host.view = replace(host.view, epoch=3)
    return host


@pytest.mark.parametrize(
    "part",
    [
        lambda host: host.rule.poll(0, 1),
        lambda host: host.rule.commit(host.rule.uncommitted()),
        lambda host: host.rule.close(),
    ],
    ids=["poll", "commit", "close"],
)
def test_partitions_are_lost_and_not_revoked_when_a_sink_claims_their_group(
    host: RecordConsumerHost, part: Callable[[RecordConsumerHost], Rule[Any]]
) -> None:
    with pytest.raises(AnotherSink, match="a table"):
        host.run(part(host))
    assert host.named(CallListener, CommitOffsets) == [CallListener("on_lost", (P0, P1))]
    assert host.rule.positions == {}


@pytest.mark.parametrize("target", [(P1,), (P0, P1, P2)], ids=["revoked", "added"])
def test_no_partition_changes_hands_in_a_group_that_a_sink_has_claimed(
    host: RecordConsumerHost, target: Any
) -> None:
    host.receives(*target, epoch=3)
    with pytest.raises(AnotherSink):
        host.poll()
    assert host.named(CallListener, CommitOffsets) == [CallListener("on_lost", (P0, P1))]


def test_an_automatic_commit_that_is_due_loses_the_partitions_of_a_claimed_group(
    host: RecordConsumerHost,
) -> None:
    host.now_ms += 5_000
    with pytest.raises(AnotherSink):
        host.poll()
    assert host.named(CallListener, CommitOffsets) == [CallListener("on_lost", (P0, P1))]


def test_an_error_of_on_lost_comes_out_of_the_close_that_finds_the_claim(
    host: RecordConsumerHost,
) -> None:
    host.listener_errors = {"on_lost": ValueError("mine")}
    with pytest.raises(ValueError, match="mine"):
        host.run(host.rule.close())


@pytest.mark.parametrize(
    "part",
    [
        lambda host: host.rule.poll(0, 1),
        lambda host: host.rule.commit({P0: 1}),
    ],
    ids=["poll", "commit"],
)
def test_a_consumer_leaves_a_claimed_group_before_it_joins_and_says_so_ever_after(
    part: Callable[[RecordConsumerHost], Rule[Any]],
) -> None:
    host = RecordConsumerHost()
    host.metadata = metadata_of(("a table",))
    assert host.run(host.rule.check_before_join(FOUND)) == Leave()
    host.queries.clear()
    for _ in range(2):
        with pytest.raises(AnotherSink, match="a table"):
            host.run(part(host))
    assert host.queries == []


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (None, FOUND),
        (Unanswerable("away"), Unanswered(FOUND.request_id, "away")),
        (
            Refused(Code.NOT_COORDINATOR, "elsewhere"),
            Unanswered(FOUND.request_id, "NOT_COORDINATOR: elsewhere"),
        ),
        # the join will meet it, too, and says so
        (Refused(Code.GROUP_AUTHORIZATION_FAILED), FOUND),
    ],
)
def test_a_member_joins_once_its_group_was_checked_or_cannot_be(
    error: Exception | None, event: Event
) -> None:
    host = RecordConsumerHost()

    def fail(query: Any) -> None:
        if isinstance(query, FetchCommitted) and error is not None:
            raise error

    host.before = fail
    assert host.run(host.rule.check_before_join(FOUND)) == event
    host.before = lambda _query: None
    host.queries.clear()
    assert host.run(host.rule.check_before_join(FOUND)) == FOUND
    assert len(host.queries) == (event != FOUND)  # not again after the answer
