"""Where a consumer with `latest` starts in partitions of which its group has no offset."""

from typing import Any

from apportion.member.membership import CoordinatorFound
from apportion.topics import Topic, TopicIdPartition, Topics
from apportion.wire.messages.list_offsets import LATEST
from tests.member.record_consumer_host import ID, P0, P1, P2, RecordConsumerHost


def growing_consumer(**settings: Any) -> RecordConsumerHost:
    """Return a consumer of the end of P0, the only partition of its topic so far."""
    host = RecordConsumerHost(reset=LATEST, **settings)
    host.cached = host.topics = Topics([Topic("t", ID, 1)])
    host.receives(P0)
    assert host.poll() == []
    assert host.rule.positions == {P0: 5}
    return host


def test_a_partition_that_is_new_is_read_from_its_first_record() -> None:
    host = growing_consumer()
    host.cached = host.topics = Topics([Topic("t", ID, 3)])
    host.offsets[P2] = 3
    host.receives(P0, P1, P2)
    assert host.poll(limit=0) == []
    assert host.rule.positions == {P0: 5, P1: 0, P2: 3}


def test_a_partition_that_the_consumer_has_seen_is_read_from_its_end() -> None:
    host = RecordConsumerHost(reset=LATEST)
    host.receives(P0)
    host.poll(limit=0)
    host.receives(P0, P1)
    host.poll(limit=0)
    assert host.rule.positions == {P0: 5, P1: 5}


def test_a_partition_is_new_that_comes_between_the_join_and_the_first_poll() -> None:
    host = RecordConsumerHost(reset=LATEST)
    host.cached = host.topics = Topics([Topic("t", ID, 1)])
    found = CoordinatorFound(1)
    assert host.run(host.rule.check_before_join(found)) == found
    host.cached = host.topics = Topics([Topic("t", ID, 2)])
    host.receives(P0, P1)
    host.poll(limit=0)
    assert host.rule.positions == {P0: 5, P1: 0}


def test_a_topic_that_comes_to_match_an_expression_is_read_from_its_first_record() -> None:
    host = RecordConsumerHost(reset=LATEST)
    host.rule.topics, host.rule.expression = (), "t.*"
    host.cached = host.topics = Topics()
    assert host.run(host.rule.check_before_join(CoordinatorFound(1))) == CoordinatorFound(1)
    host.cached = host.topics = Topics([Topic("t", ID, 3)])
    host.receives(P0)
    host.poll(limit=0)
    assert host.rule.positions == {P0: 0}


def test_a_topic_of_a_later_subscription_is_old_as_far_as_it_was_seen_then() -> None:
    host = growing_consumer()
    more = b"m" * 16
    host.topics = Topics([Topic("more", more, 1), Topic("t", ID, 1)])
    host.cached = host.topics
    old, new = (TopicIdPartition("more", more, number) for number in range(2))
    host.logs |= {old: 7, new: 7}
    host.rule.topics = ("t", "more")
    host.receives(P0, old)
    host.poll(limit=0)
    host.cached = host.topics = Topics([Topic("more", more, 2), Topic("t", ID, 1)])
    host.receives(P0, old, new)
    host.poll(limit=0)
    assert host.rule.positions == {P0: 5, old: 7, new: 0}
