"""The main thread's side of a membership, on a broker in this process and without Spark."""

import time

import pytest

from apportion.client.cluster import Cluster, places_of
from apportion.member.spans import NOTHING
from apportion.server.embedded import EmbeddedBroker
from apportion.spark.options import SourceOptions
from apportion.spark.owner import Owner
from apportion.wire.batch import encode_batch


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(**{"group.consumer.heartbeat.interval.ms": 200}) as running:
        yield running


@pytest.fixture
def cluster(broker):
    made = Cluster(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def owner_of(broker):
    """`owner_of(group, topic, **options)`: an owner; it has left its group at the end."""
    owners = []

    def make(group, topic, **options):
        given = {"kafka.bootstrap.servers": broker.bootstrap, "kafka.group.id": group, "subscribe": topic, **options}
        owners.append(Owner(SourceOptions.parse(given)))
        return owners[-1]

    yield make
    for owner in owners:
        owner.close()


def produce(cluster, place, count):
    cluster.produce(place, encode_batch([(None, b"x", ())] * count, timestamp_ms=1))


def span_where(owner, previous, ready, limit=None):
    """The first span for which `ready` holds, every one before it treated as Spark does: written, then handed back."""
    deadline = time.monotonic() + 60
    while not ready(previous := owner.next_span(previous, limit)):
        assert time.monotonic() < deadline, previous
    return previous


def test_a_topic_made_again_is_read_from_its_beginning_even_with_latest(cluster, owner_of):
    (old,) = places_of(cluster.create_topic("again", 1))
    produce(cluster, old, 3)
    owner = owner_of("made-again", "again", startingOffsets="latest", failOnDataLoss="false")
    first = span_where(owner, NOTHING, lambda span: old in span.ranges)
    cluster.delete_topic("again")
    (new,) = places_of(cluster.create_topic("again", 1))
    produce(cluster, new, 5)
    second = span_where(owner, first, lambda span: new in span.ranges)
    assert (dict(first.ranges), dict(second.ranges)) == ({old: (3, 3)}, {new: (0, 5)})


def test_the_group_hears_of_a_batch_when_it_comes_back_and_of_its_start_before(cluster, owner_of):
    (place,) = places_of(cluster.create_topic("late", 1))
    produce(cluster, place, 8)
    owner = owner_of("late-commit", "late", startingOffsets="earliest")
    batch = span_where(owner, NOTHING, lambda span: place in span.ranges, limit=5)
    assert (dict(batch.ranges), cluster.committed("late-commit", [place])) == ({place: (0, 5)}, {place: 0})
    following = owner.next_span(batch, 5)
    assert (dict(following.ranges), cluster.committed("late-commit", [place])) == ({place: (5, 8)}, {place: 5})


def test_a_restart_tells_the_group_of_a_batch_that_it_never_heard_of(cluster, owner_of):
    (place,) = places_of(cluster.create_topic("restart", 1))
    produce(cluster, place, 8)
    first = owner_of("restarted", "restart", startingOffsets="earliest")
    batch = span_where(first, NOTHING, lambda span: place in span.ranges, limit=5)
    first.close()
    again = owner_of("restarted", "restart", startingOffsets="earliest")
    following = span_where(again, batch, lambda span: span != batch, limit=5)
    assert (dict(following.ranges), cluster.committed("restarted", [place])) == ({place: (5, 8)}, {place: 5})


def test_a_partition_is_handed_over_where_its_old_owner_stands(cluster, owner_of):
    places = places_of(cluster.create_topic("shared", 2))
    for place in places:
        produce(cluster, place, 10)
    one = owner_of("handed", "shared", startingOffsets="earliest")
    before = span_where(one, NOTHING, lambda span: len(span.ranges) == 2, limit=4)
    other = owner_of("handed", "shared", startingOffsets="earliest")
    spans = [before]
    while len(spans[-1].ranges) == 2:
        spans.append(one.next_span(spans[-1], 1))
    theirs = span_where(other, NOTHING, lambda span: span.ranges)
    (kept,), (given,) = spans[-1].ranges, theirs.ranges
    assert {kept, given} == {*places}
    assert theirs.ranges[given] == (spans[-2].ranges[given][1], 10)
