"""What a Consumer must do on any broker: played against ours in tests/client, on a real Kafka
in tests/kafka.

A module that adopts these adopts scenarios.py first, whose fixtures they take. `options` says which
kind of member the Consumer is: KIP-848 here, classic where a module has a fixture of its own.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.client.consumer import Consumer
from apportion.errors import Code, Refused
from apportion.topics import Topic, TopicPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes
from tests.client.scenarios import fill

if TYPE_CHECKING:
    from apportion.member.records.fetch_buffer import ConsumerRecord


Consumers = Callable[..., Consumer]


@pytest.fixture
def consumers(bootstrap: str, topic: Topic, group: str, options: dict[str, Any]) -> Consumers:
    """Makes Consumers of the group, which read the topic unless they are told otherwise."""
    return lambda **more: apportion.Consumer(
        bootstrap, group, **{"topics": [topic.name], **options, **more}
    )


def poll_until_assigned(consumer: Consumer, partitions: int = 1) -> None:
    while len(consumer.assignment) < partitions:
        consumer.poll(100)


@pytest.fixture
def options() -> dict[Any, Any]:
    """The options of a Consumer."""
    return {}


def test_a_partition_that_comes_after_the_join_is_read_from_its_first_record(
    consumers: Consumers, cluster: Cluster, topic: Topic, options: dict[str, Any]
) -> None:
    is_classic = options.get("group_protocol") == "classic"
    soon = {"metadata_max_age_ms": 500} if is_classic else {}
    with consumers(auto_offset_reset="latest", **soon) as consumer:
        poll_until_assigned(consumer, topic.partitions)
        grown = changes.grow_topic(cluster, topic.name, topic.partitions + 1)
        new = partitions_of(grown)[-1]
        for _ in range(5):
            cluster.produce(new, encode_batch([(None, b"early", ())], timestamp_ms=0))
        seen: list[ConsumerRecord] = []
        while len(seen) < 5:
            seen += consumer.poll(500)
    assert [(record.partition, record.offset) for record in seen] == [
        (new.partition, offset) for offset in range(5)
    ]


def test_a_consumer_reads_everything_once_and_goes_on_where_it_committed(
    consumers: Consumers, cluster: Cluster, topic: Topic
) -> None:
    fill(cluster, topic, each=10)
    with consumers(auto_offset_reset="earliest") as consumer:
        first = []
        for record in consumer:
            first.append(record)
            if len(first) == 25:
                break
        consumer.commit()
    with consumers(auto_offset_reset="error") as consumer:
        rest: list[ConsumerRecord] = []
        while len(rest) < 15:
            rest += consumer.poll(5_000)
        assert consumer.poll(300) == []
        partition = consumer.assignment[0]
        assert (consumer.position(partition), len(consumer.assignment)) == (10, 4)
    seen = [(record.partition, record.offset) for record in first + rest]
    assert sorted(seen) == [(partition, offset) for partition in range(4) for offset in range(10)]
    assert (rest[0].topic, rest[0].timestamp_ms, rest[0].key, rest[0].headers) == (
        topic.name,
        1_000,
        b"key",
        (),
    )


def test_a_consumer_of_one_topic_may_give_its_name_alone(
    consumers: Consumers, topic: Topic
) -> None:
    with consumers(topics=topic.name) as consumer:
        poll_until_assigned(consumer)
        assert {partition.topic for partition in consumer.assignment} == {topic.name}


def test_two_consumers_share_and_are_told_what_comes_and_goes(
    consumers: Consumers, keeps: bool
) -> None:
    calls = []

    def listener(who: str, what: str) -> Callable[..., None]:
        return lambda partitions: calls.append((who, what, len(partitions)))

    def consumer(who: str) -> Consumer:
        callbacks: dict[str, Any] = {
            name: listener(who, name) for name in ("on_assigned", "on_revoked", "on_lost")
        }
        return consumers(auto_offset_reset="earliest", **callbacks)

    first = consumer("first")
    poll_until_assigned(first, 4)
    second = consumer("second")
    while (len(first.assignment), len(second.assignment)) != (2, 2):
        first.poll(100)
        second.poll(100)
    second.close()
    poll_until_assigned(first, 4)
    first.close()
    there, back = (2, 2) if keeps else (4, 4)
    shared = [] if keeps else [("first", "on_assigned", 2), ("first", "on_revoked", 2)]
    assert calls[:2] == [("first", "on_assigned", 4), ("first", "on_revoked", there)]
    assert sorted(calls[2:]) == sorted(
        [
            *shared,
            ("second", "on_assigned", 2),
            ("second", "on_revoked", 2),
            ("first", "on_assigned", back),
            ("first", "on_revoked", 4),
        ]
    )


def test_an_exception_of_on_assigned_comes_out_of_poll_once(consumers: Consumers) -> None:
    def refuse(partitions: tuple[TopicPartition, ...]) -> None:
        raise Refused(Code.NOT_COORDINATOR, f"{len(partitions)} partitions")

    with consumers(on_assigned=refuse) as consumer:
        with pytest.raises(Refused, match="4 partitions"):
            poll_until_assigned(consumer)
        assert len(consumer.assignment) == 4
        consumer.poll(0)


@pytest.mark.parametrize("what", ["poll", "close"])
def test_a_listener_that_polls_or_closes_is_refused_and_the_partitions_move(
    consumers: Consumers, keeps: bool, what: str
) -> None:
    calls: list[int] = []

    def recurse(partitions: tuple[TopicPartition, ...]) -> None:
        calls.append(len(partitions))
        if len(calls) == 1:
            getattr(first, what)()

    with consumers(on_revoked=recurse) as first:
        poll_until_assigned(first, 4)
        with consumers() as second:
            with pytest.raises(
                RuntimeError, match=f"on_revoked cannot {what}: it is called within"
            ):
                while True:
                    first.poll(100)
            poll_until_assigned(second, 2)
            # Once: the second call would come from within the first.
            assert calls == [2 if keeps else 4]


def test_a_poll_that_waits_longer_than_polls_may_be_apart_is_a_poll_all_the_time(
    consumers: Consumers,
) -> None:
    with consumers(
        max_poll_interval_ms=1_000, on_lost=lambda lost: pytest.fail(str(lost))
    ) as consumer:
        poll_until_assigned(consumer, 4)
        life = consumer.session.status().incarnation
        assert consumer.poll(2_500) == []
        assert (consumer.session.status().incarnation, len(consumer.session.status().owned)) == (
            life,
            4,
        )


def test_a_poll_without_time_still_gets_what_is_there(
    consumers: Consumers, cluster: Cluster, topic: Topic
) -> None:
    fill(cluster, topic, each=3)
    with consumers(auto_offset_reset="earliest") as consumer:
        poll_until_assigned(consumer, 4)
        consumer.commit(dict.fromkeys(consumer.assignment, 0))
    with consumers() as consumer:
        seen, deadline = 0, time.monotonic() + 30
        while seen < 12 and time.monotonic() < deadline:
            seen += len(consumer.poll(0))
    assert seen == 12


def test_an_automatic_commit_stores_what_was_delivered_when_partitions_go(
    consumers: Consumers, cluster: Cluster, topic: Topic, group: str
) -> None:
    fill(cluster, topic, each=3)
    with consumers(auto_offset_reset="earliest", auto_commit=True) as consumer:
        seen = 0
        while seen < 12:
            seen += len(consumer.poll(5_000))
    assert cluster.committed(group, partitions_of(topic)) == dict.fromkeys(partitions_of(topic), 3)


def test_an_automatic_commit_of_a_deleted_topic_holds_up_no_rebalance(
    consumers: Consumers, cluster: Cluster, topic: Topic
) -> None:
    gone = cluster.create_topic(f"{topic.name}-gone", 1)
    for each in (topic, gone):
        fill(cluster, each, each=3)
    topics = [topic.name, gone.name]
    options = {"topics": topics, "auto_offset_reset": "earliest", "auto_commit": True}
    with consumers(**options) as first:
        seen = 0
        while seen < 15:
            seen += len(first.poll(1_000))
        changes.delete_topic(cluster, gone.name)
        with consumers(**options) as second:
            while (len(first.assignment), len(second.assignment)) != (2, 2):
                first.poll(100)
                second.poll(100)
            committed = first.committed(TopicPartition(topic.name, number) for number in range(4))
    assert set(committed.values()) == {3}


def test_a_poll_limit_of_two_seconds_that_ends_in_a_rebalance_loses_partitions(
    consumers: Consumers, cluster: Cluster, topic: Topic, group: str
) -> None:
    fill(cluster, topic, each=3)
    calls: list[str] = []
    options = {"auto_offset_reset": "earliest", "auto_commit": True}
    listeners = {
        name: lambda _, name=name: calls.append(name)
        for name in ("on_assigned", "on_revoked", "on_lost")
    }
    with consumers(**options, **listeners, max_poll_interval_ms=2_000) as first:
        seen = 0
        while seen < 12:
            seen += len(first.poll(1_000))
        # It waits for the first one, which does not poll before it is out of the group.
        with consumers(**options) as second:
            poll_until_assigned(second, 4)
            second.commit({TopicPartition(topic.name, number): 1 for number in range(4)})
            first.poll(0)
            assert calls[:2] == ["on_assigned", "on_lost"]
            committed = cluster.committed(group, partitions_of(topic))
    assert set(committed.values()) == {1}


def test_a_consumer_without_a_start_says_so_when_it_may_not_choose_one(
    consumers: Consumers,
) -> None:
    with (
        consumers(auto_offset_reset="error") as consumer,
        pytest.raises(Refused, match="auto_offset_reset is 'error'"),
    ):
        for _ in range(100):
            consumer.poll(1_000)


def test_offsets_can_be_committed_and_asked_for_by_name(consumers: Consumers, topic: Topic) -> None:
    with consumers() as consumer:
        poll_until_assigned(consumer)
        consumer.commit({TopicPartition(topic.name, 1): 41})
        assert consumer.committed(
            [TopicPartition(topic.name, 1), TopicPartition(topic.name, 2)]
        ) == {
            TopicPartition(topic.name, 1): 41,
            TopicPartition(topic.name, 2): None,
        }


def test_an_offset_of_a_partition_that_does_not_exist_is_refused_at_once(
    consumers: Consumers, topic: Topic
) -> None:
    with consumers() as consumer:
        poll_until_assigned(consumer)
        with pytest.raises(Refused) as refusal:
            consumer.commit({TopicPartition(topic.name, 0): 1, TopicPartition(topic.name, 4): 1})
        assert str(refusal.value) == (
            f"UNKNOWN_TOPIC_OR_PARTITION: topic {topic.name!r} has no partition 4"
        )
        assert consumer.committed([TopicPartition(topic.name, 0)]) == {
            TopicPartition(topic.name, 0): None
        }


def test_on_revoked_can_commit_and_read_positions_while_the_consumer_closes(
    consumers: Consumers, cluster: Cluster, topic: Topic, group: str
) -> None:
    fill(cluster, topic, each=1)
    positions = {}

    def keep(partitions: tuple[TopicPartition, ...]) -> None:
        positions.update({each: consumer.position(each) for each in partitions})
        consumer.commit()

    with consumers(auto_offset_reset="earliest", on_revoked=keep) as consumer:
        seen = 0
        while seen < 4:
            seen += len(consumer.poll(5_000))
    assert positions == {TopicPartition(topic.name, number): 1 for number in range(4)}
    assert cluster.committed(group, partitions_of(topic)) == dict.fromkeys(partitions_of(topic), 1)


def test_offsets_of_a_topic_that_was_created_again_go_to_the_new_one(
    consumers: Consumers, cluster: Cluster, topic: Topic
) -> None:
    other = TopicPartition(f"{topic.name}-other", 0)
    with consumers() as consumer:
        poll_until_assigned(consumer)
        cluster.create_topic(other.topic, 1)
        assert consumer.committed([other]) == {other: None}
        changes.delete_topic(cluster, other.topic)
        cluster.create_topic(other.topic, 1)
        consumer.poll(0)
        assert consumer.committed([other]) == {other: None}
        changes.delete_topic(cluster, other.topic)
        cluster.create_topic(other.topic, 1)
        consumer.commit({other: 41})
        assert consumer.committed([other]) == {other: 41}


def test_a_deleted_topic_keeps_no_consumer_from_committing_the_others(
    consumers: Consumers, cluster: Cluster, topic: Topic
) -> None:
    gone = cluster.create_topic(f"{topic.name}-gone", 1)
    with consumers(topics=[topic.name, gone.name]) as consumer:
        poll_until_assigned(consumer, 5)
        changes.delete_topic(cluster, gone.name)
        with pytest.raises(Refused, match=f"the topic was deleted: {gone.name}-0"):
            consumer.commit()
        committed = consumer.committed(TopicPartition(topic.name, number) for number in range(4))
    assert set(committed.values()) == {0}
