"""Members that others wrote subscribe by a regular expression, which our broker resolves."""

import time
from collections.abc import Callable
from uuid import uuid4

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import apportion
from tests.compat.java.history import settled
from tests.compat.java.jvm import Jvm, modern

PATIENCE_S = 30

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def prefix() -> str:
    """What the names of a test's topics begin with, and its group is called."""
    return f"flights-{uuid4().hex[:8]}"


@pytest.fixture
def create(bootstrap: str) -> Callable[..., None]:
    """`create(name, partitions)` makes a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return lambda name, count: admin.create_topics([NewTopic(name, count, 1)])[name].result(20)


class Librdkafka:
    """A member of librdkafka with the consumer protocol."""

    def __init__(self, bootstrap: str, group: str, *topics: str) -> None:
        self.consumer = ck.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                # what it does not know yet it looks up soon
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self.errors: list[ck.KafkaError] = []
        self.consumer.subscribe(list(topics))

    def poll(self) -> None:
        """Poll once."""
        message = self.consumer.poll(0.1)
        if message is not None and (error := message.error()) is not None:
            self.errors.append(error)

    def owned(self) -> set[tuple[str, int]]:
        """The partitions that it has."""
        return {(each.topic, each.partition) for each in self.consumer.assignment()}


def test_librdkafka_and_ours_share_what_one_pattern_matches_and_in_10_s_what_comes(
    bootstrap: str, create: Callable[..., None], prefix: str
) -> None:
    for name in (f"{prefix}-a", f"{prefix}-b", f"x-{prefix}-a"):
        create(name, 2)
    theirs = Librdkafka(bootstrap, prefix, f"^{prefix}-.*")
    with apportion.Consumer(bootstrap, prefix) as ours:
        ours.subscribe(pattern=f"^{prefix}-.*")

        def poll_until(wanted: set[tuple[str, int]]) -> None:
            give_up = time.monotonic() + PATIENCE_S
            owned: tuple[set[tuple[str, int]], ...] = ()
            while not owned or set.union(*owned) != wanted or not all(owned):
                assert time.monotonic() < give_up, (owned, theirs.errors)
                ours.poll(100)
                theirs.poll()
                owned = {(each.topic, each.partition) for each in ours.assignment}, theirs.owned()
            assert not set.intersection(*owned)

        wanted = {(f"{prefix}-{letter}", index) for letter in "ab" for index in range(2)}
        poll_until(wanted)
        create(f"{prefix}-c", 2)
        poll_until(wanted | {(f"{prefix}-c", index) for index in range(2)})
    theirs.consumer.close()
    assert theirs.errors == []


def test_librdkafka_may_name_a_topic_beside_its_patterns(
    bootstrap: str, create: Callable[..., None], prefix: str
) -> None:
    for letter in "abc":
        create(f"{prefix}-{letter}", 1)
    member = Librdkafka(bootstrap, prefix, f"^{prefix}-a$", f"{prefix}-b")
    give_up = time.monotonic() + PATIENCE_S
    while member.owned() != {(f"{prefix}-a", 0), (f"{prefix}-b", 0)}:
        assert time.monotonic() < give_up, (member.owned(), member.errors)
        member.poll()
    member.consumer.close()


def test_librdkafka_is_told_that_its_pattern_is_wrong(bootstrap: str, prefix: str) -> None:
    member = Librdkafka(bootstrap, prefix, "^a{1001}")
    give_up = time.monotonic() + PATIENCE_S
    while not member.errors:
        assert time.monotonic() < give_up
        member.poll()
    # A wrong pattern is fatal to it, as to Java's consumer and ours.
    assert (member.errors[0].name(), "regular expression" in member.errors[0].str()) == (
        "_FATAL",
        True,
    )
    member.consumer.close()


def test_javas_members_share_what_their_pattern_matches_and_in_10_s_what_comes(
    bootstrap: str, create: Callable[..., None], prefix: str, shared_jvm: Jvm
) -> None:
    create(f"{prefix}-a", 3)
    create(f"x-{prefix}-a", 3)
    members = [
        shared_jvm.join(f"{prefix} {name}", bootstrap, prefix, [], modern(), pattern=f"{prefix}-.*")
        for name in ("first", "second")
    ]
    partitions = [f"{prefix}-a-{index}" for index in range(3)]
    settled(partitions, *members)
    create(f"{prefix}-b", 3)
    settled([*partitions, *(f"{prefix}-b-{index}" for index in range(3))], *members)
    for member in members:
        member.leave()


def test_javas_member_is_told_that_its_pattern_is_wrong(
    bootstrap: str, prefix: str, shared_jvm: Jvm
) -> None:
    member = shared_jvm.join(f"{prefix} wrong", bootstrap, prefix, [], modern(), pattern="(")
    assert "InvalidRegularExpression" in member.fails()
