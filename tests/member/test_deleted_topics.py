"""A consumer one of whose topics is deleted while it has uncommitted positions in it."""

import pytest

from apportion.errors import Refused
from apportion.machine import Note
from apportion.member.queries import CommitOffsets
from apportion.member.records.queries import CallListener
from apportion.topics import Topic, TopicIdPartition, Topics
from tests.member.record_consumer_host import P0, P1, RecordConsumerHost, reading_consumer

GONE = TopicIdPartition("gone", b"g" * 16, 0)
WHY = "UNKNOWN_TOPIC_ID: offsets are not committed, as the topic was deleted: gone-0"
WARNING = Note("warning", f"automatic commit failed: {WHY}")


@pytest.fixture
def host() -> RecordConsumerHost:
    """Return a consumer with uncommitted positions in P0 and in a topic that was just deleted."""
    host = reading_consumer()
    existing = host.topics
    host.cached = host.topics = Topics([*existing, Topic("gone", GONE.topic_id, 1)])
    host.logs[GONE] = 0
    host.receives(P0, P1, GONE, epoch=3)
    assert host.poll(limit=1) == [(0, 2)]
    host.topics = existing
    host.queries.clear()
    return host


def test_a_revocation_commits_all_but_the_positions_of_a_deleted_topic(
    host: RecordConsumerHost,
) -> None:
    host.receives(P0, P1, epoch=4)
    host.poll(limit=0)
    assert host.named(CommitOffsets, Note, CallListener) == [
        CommitOffsets({P0: 3, GONE: 0}, 1, timeout_ms=5_000),
        CommitOffsets({P0: 3}, 1, timeout_ms=5_000),
        WARNING,
        CallListener("on_revoked", (GONE,)),
    ]


def test_a_commit_raises_once_for_a_deleted_topic_and_commits_the_others(
    host: RecordConsumerHost,
) -> None:
    with pytest.raises(Refused, match=f"^{WHY}$"):
        host.run(host.rule.commit(host.rule.uncommitted()))
    host.run(host.rule.commit(host.rule.uncommitted()))
    assert host.named(CommitOffsets, Note) == [
        CommitOffsets({P0: 3, GONE: 0}, 1),
        CommitOffsets({P0: 3}, 1),
    ]


def test_nothing_is_committed_where_every_topic_was_deleted(host: RecordConsumerHost) -> None:
    with pytest.raises(Refused, match=f"^{WHY}$"):
        host.run(host.rule.commit({GONE: 7}))
    assert host.named(CommitOffsets, Note) == [CommitOffsets({GONE: 7}, 1)]
