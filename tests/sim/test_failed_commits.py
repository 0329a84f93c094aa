"""Which failures of a simulated consumer count as failures of a commit."""

from collections.abc import Mapping
from typing import Any

import pytest

from apportion.errors import Unanswerable
from apportion.member.queries import CommitOffsets, FetchCommitted, KnownTopics
from apportion.sim.actors.record_application import ObservedConsumer
from apportion.topics import TopicIdPartition
from tests.member.record_consumer_host import P0, P1, RecordConsumerHost

Failures = list[Mapping[TopicIdPartition, int]]


@pytest.fixture
def failures() -> Failures:
    """The offsets of each commit that has failed."""
    return []


@pytest.fixture
def host(failures: Failures) -> RecordConsumerHost:
    """A consumer that has delivered two records of P0, and committed none."""
    host = RecordConsumerHost(auto_commit_ms=None)
    host.rule = ObservedConsumer(host.rule.settings, failures.append)
    host.rule.topics = ("t",)
    host.receives(P0)
    assert host.poll(limit=2) == [(0, 0), (0, 1)]
    return host


def fail(host: RecordConsumerHost, kind: type) -> None:
    """No query of that kind has a response from now on."""

    def before(query: Any) -> None:
        if isinstance(query, kind):
            raise Unanswerable(kind.__name__)

    host.before = before


@pytest.mark.parametrize("kind", [CommitOffsets, FetchCommitted, KnownTopics])
def test_a_commit_fails_with_whatever_it_has_to_ask(
    host: RecordConsumerHost, failures: Failures, kind: type
) -> None:
    fail(host, kind)
    with pytest.raises(Unanswerable):
        host.run(host.rule.commit({P0: 2}))
    assert failures == [{P0: 2}]


@pytest.mark.parametrize("kind", [FetchCommitted, KnownTopics])
def test_a_check_or_a_start_that_fails_is_no_failed_commit(
    host: RecordConsumerHost, failures: Failures, kind: type
) -> None:
    fail(host, kind)
    host.receives(P0, P1, epoch=3)  # P1 is to be started, and the new epoch to be checked
    assert host.poll(limit=2) == [(0, 2), (0, 3)]
    assert failures == []
