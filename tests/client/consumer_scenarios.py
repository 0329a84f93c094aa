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
from tests.client import changes
from tests.client.scenarios import fill

if TYPE_CHECKING:
    from apportion.member.records.fetch_buffer import ConsumerRecord


@pytest.fixture
def options() -> dict[Any, Any]:
    """The options of a Consumer."""
    return {}


def test_a_consumer_reads_everything_once_and_goes_on_where_it_committed(
    bootstrap: str, options: dict[str, Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    fill(cluster, topic, each=10)
    with apportion.Consumer(
        bootstrap, group, topics=[topic.name], auto_offset_reset="earliest", **options
    ) as consumer:
        first = []
        for record in consumer:
            first.append(record)
            if len(first) == 25:
                break
        consumer.commit()
    with apportion.Consumer(
        bootstrap, group, topics=[topic.name], auto_offset_reset="error", **options
    ) as consumer:
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
    bootstrap: str, options: dict[str, Any], topic: Topic, group: str
) -> None:
    with apportion.Consumer(bootstrap, group, topics=topic.name, **options) as consumer:
        while not consumer.assignment:
            consumer.poll(100)
        assert {partition.topic for partition in consumer.assignment} == {topic.name}


def test_two_consumers_share_and_are_told_what_comes_and_goes(
    bootstrap: str, options: dict[str, Any], topic: Topic, group: str, keeps: bool
) -> None:
    calls = []

    def listener(who: str, what: str) -> Callable[..., None]:
        return lambda partitions: calls.append((who, what, len(partitions)))

    def consumer(who: str) -> Consumer:
        callbacks: dict[str, Any] = {
            name: listener(who, name) for name in ("on_assigned", "on_revoked", "on_lost")
        }
        return apportion.Consumer(
            bootstrap,
            group,
            topics=[topic.name],
            auto_offset_reset="earliest",
            **callbacks,
            **options,
        )

    first = consumer("first")
    while len(first.assignment) < 4:
        first.poll(100)
    second = consumer("second")
    while (len(first.assignment), len(second.assignment)) != (2, 2):
        first.poll(100)
        second.poll(100)
    second.close()
    while len(first.assignment) < 4:
        first.poll(100)
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


def test_an_exception_of_on_assigned_comes_out_of_poll_once(
    bootstrap: str, options: dict[str, Any], topic: Topic, group: str
) -> None:
    def refuse(partitions: tuple[TopicPartition, ...]) -> None:
        raise Refused(Code.NOT_COORDINATOR, f"{len(partitions)} partitions")

    with apportion.Consumer(
        bootstrap, group, topics=[topic.name], on_assigned=refuse, **options
    ) as consumer:
        with pytest.raises(Refused, match="4 partitions"):
            while not consumer.assignment:
                consumer.poll(100)
        assert len(consumer.assignment) == 4
        consumer.poll(0)


def test_a_poll_that_waits_longer_than_polls_may_be_apart_is_a_poll_all_the_time(
    bootstrap: str, options: dict[str, Any], topic: Topic, group: str
) -> None:
    patient: dict[str, Any] = {"max_poll_interval_ms": 1_000, **options}
    with apportion.Consumer(
        bootstrap,
        group,
        topics=[topic.name],
        on_lost=lambda lost: pytest.fail(str(lost)),
        **patient,
    ) as consumer:
        while len(consumer.assignment) < 4:
            consumer.poll(100)
        life = consumer.session.status().incarnation
        assert consumer.poll(2_500) == []
        assert (consumer.session.status().incarnation, len(consumer.session.status().owned)) == (
            life,
            4,
        )


def test_a_poll_without_time_still_gets_what_is_there(
    bootstrap: str, options: dict[str, Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    fill(cluster, topic, each=3)
    with apportion.Consumer(
        bootstrap, group, topics=[topic.name], auto_offset_reset="earliest", **options
    ) as consumer:
        while len(consumer.assignment) < 4:
            consumer.poll(100)
        consumer.commit(dict.fromkeys(consumer.assignment, 0))
    with apportion.Consumer(bootstrap, group, topics=[topic.name], **options) as consumer:
        seen, deadline = 0, time.monotonic() + 30
        while seen < 12 and time.monotonic() < deadline:
            seen += len(consumer.poll(0))
    assert seen == 12


def test_an_automatic_commit_stores_what_was_delivered_when_partitions_go(
    bootstrap: str, options: dict[str, Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    fill(cluster, topic, each=3)
    with apportion.Consumer(
        bootstrap,
        group,
        topics=[topic.name],
        auto_offset_reset="earliest",
        auto_commit=True,
        **options,
    ) as consumer:
        seen = 0
        while seen < 12:
            seen += len(consumer.poll(5_000))
    assert cluster.committed(group, partitions_of(topic)) == dict.fromkeys(partitions_of(topic), 3)


def test_a_consumer_without_a_start_says_so_when_it_may_not_choose_one(
    bootstrap: str, options: dict[str, Any], topic: Topic, group: str
) -> None:
    with (
        apportion.Consumer(
            bootstrap, group, topics=[topic.name], auto_offset_reset="error", **options
        ) as consumer,
        pytest.raises(Refused, match="auto_offset_reset is 'error'"),
    ):
        for _ in range(100):
            consumer.poll(1_000)


def test_offsets_can_be_committed_and_asked_for_by_name(
    bootstrap: str, options: dict[str, Any], topic: Topic, group: str
) -> None:
    with apportion.Consumer(bootstrap, group, topics=[topic.name], **options) as consumer:
        while not consumer.assignment:
            consumer.poll(100)
        consumer.commit({TopicPartition(topic.name, 1): 41})
        assert consumer.committed(
            [TopicPartition(topic.name, 1), TopicPartition(topic.name, 2)]
        ) == {
            TopicPartition(topic.name, 1): 41,
            TopicPartition(topic.name, 2): None,
        }


def test_an_offset_of_a_partition_that_does_not_exist_is_refused_at_once(
    bootstrap: str, options: dict[str, Any], topic: Topic, group: str
) -> None:
    with apportion.Consumer(bootstrap, group, topics=[topic.name], **options) as consumer:
        while not consumer.assignment:
            consumer.poll(100)
        with pytest.raises(Refused) as refusal:
            consumer.commit({TopicPartition(topic.name, 0): 1, TopicPartition(topic.name, 4): 1})
        assert str(refusal.value) == (
            f"UNKNOWN_TOPIC_OR_PARTITION: topic {topic.name!r} has no partition 4"
        )
        assert consumer.committed([TopicPartition(topic.name, 0)]) == {
            TopicPartition(topic.name, 0): None
        }


def test_on_revoked_can_commit_and_read_positions_while_the_consumer_closes(
    bootstrap: str, options: dict[str, Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    fill(cluster, topic, each=1)
    positions = {}

    def keep(partitions: tuple[TopicPartition, ...]) -> None:
        positions.update({each: consumer.position(each) for each in partitions})
        consumer.commit()

    with apportion.Consumer(
        bootstrap,
        group,
        topics=[topic.name],
        auto_offset_reset="earliest",
        on_revoked=keep,
        **options,
    ) as consumer:
        seen = 0
        while seen < 4:
            seen += len(consumer.poll(5_000))
    assert positions == {TopicPartition(topic.name, number): 1 for number in range(4)}
    assert cluster.committed(group, partitions_of(topic)) == dict.fromkeys(partitions_of(topic), 1)


def test_offsets_of_a_topic_that_was_created_again_go_to_the_new_one(
    bootstrap: str, options: dict[str, Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    other = TopicPartition(f"{topic.name}-other", 0)
    with apportion.Consumer(bootstrap, group, topics=[topic.name], **options) as consumer:
        while not consumer.assignment:
            consumer.poll(100)
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
    bootstrap: str, options: dict[str, Any], cluster: Cluster, topic: Topic, group: str
) -> None:
    gone = cluster.create_topic(f"{topic.name}-gone", 1)
    with apportion.Consumer(
        bootstrap, group, topics=[topic.name, gone.name], **options
    ) as consumer:
        while len(consumer.assignment) < 5:
            consumer.poll(100)
        changes.delete_topic(cluster, gone.name)
        with pytest.raises(Refused, match=f"the topic was deleted: {gone.name}-0"):
            consumer.commit()
        committed = consumer.committed(TopicPartition(topic.name, number) for number in range(4))
    assert set(committed.values()) == {0}
