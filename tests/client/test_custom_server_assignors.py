"""Groups on our broker whose assignor is the operator's: one that works, hangs or raises."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing

import pytest

from apportion import Consumer
from apportion.assignors import Assignor, Given, Subscription, TopicShape, by_topic
from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.topics import TopicPartition
from tests.raising_lines import line_of_raise

PATIENCE_S = 30


class ToOne(Assignor):
    """Everything to the first member. It hangs for the topic `hangs`, and raises for `raises`."""

    name = "to-one"

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        if "hangs" in cluster:
            self.may_end.wait(PATIENCE_S)
        if "raises" in cluster:
            raise ValueError("on purpose")
        pairs = [
            (name, each) for name, topic in cluster.items() for each in range(topic.partitions)
        ]
        return {next(iter(members)): Given(by_topic(pairs))}


@pytest.fixture
def to_one() -> Iterator[ToOne]:
    assignor = ToOne()
    yield assignor
    assignor.may_end.set()


@pytest.fixture
def broker(to_one: ToOne) -> Iterator[EmbeddedBroker]:
    """A broker with three topics, whose groups may have the assignor."""
    with EmbeddedBroker(
        group_consumer_assignors=["uniform", to_one], apportion_assignor_timeout_ms=500
    ) as broker:
        with closing(Cluster(broker.bootstrap)) as cluster:
            for topic in ("works", "hangs", "raises"):
                cluster.create_topic(topic, 4)
        yield broker


def poll_until(is_done: Callable[[], bool], *consumers: Consumer) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not is_done():
        assert time.monotonic() < give_up
        for consumer in consumers:
            consumer.poll(50)


def all_of(topic: str) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in range(4)}


def test_two_members_are_assigned_by_the_brokers_custom_assignor(broker: EmbeddedBroker) -> None:
    with ExitStack() as stack:
        consumers = [
            stack.enter_context(Consumer(broker.bootstrap, "g", group_remote_assignor="to-one"))
            for _ in range(2)
        ]
        for consumer in consumers:
            consumer.subscribe(["works"])
        poll_until(lambda: sorted(len(each.assignment) for each in consumers) == [0, 4], *consumers)


def test_a_group_whose_assignor_hangs_or_raises_costs_the_others_nothing(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "apportion.server")
    with ExitStack() as stack:
        by_topic_name = {
            topic: stack.enter_context(
                Consumer(broker.bootstrap, f"of {topic}", group_remote_assignor="to-one")
            )
            for topic in ("hangs", "raises", "works")
        }
        for topic, consumer in by_topic_name.items():
            consumer.subscribe([topic])
        poll_until(
            lambda: (
                {*by_topic_name["works"].assignment} == all_of("works")
                and sum(" to-one: " in line for line in caplog.messages) >= 2
            ),
            *by_topic_name.values(),
        )
        assert [*by_topic_name["hangs"].assignment, *by_topic_name["raises"].assignment] == []
        assert {*caplog.messages} >= {
            "group of hangs: to-one: the assignor has not answered within 500 ms",
            "group of raises: to-one: the assignor raised ValueError('on purpose') "
            f"({line_of_raise(ToOne.assign)})",
        }
