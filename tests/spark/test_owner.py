"""The main thread's side of a membership, on a broker in this process and without Spark."""

import functools
import re
import time

import pytest

import apportion.spark.batch_member
from apportion.client.cluster import Cluster, partitions_of
from apportion.client.consumer import Consumer
from apportion.member.assignors.interface import Given, TopicParts
from apportion.member.assignors.serde import encode_assignment
from apportion.member.assignors.strategy import strategy
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.sinks import AnotherSink
from apportion.member.batch.span import EMPTY_SPAN
from apportion.member.classic.generation import NO_GENERATION, Generation
from apportion.member.classic.requests import (
    ClassicSettings,
    join_request,
    sync_request,
)
from apportion.server.embedded import EmbeddedBroker
from apportion.spark import handover
from apportion.spark.batch_member import BatchMember
from apportion.spark.options import SourceOptions
from apportion.wire.batch import encode_batch
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment

CLASSIC = {  # the options of an owner that is a classic member
    "kafka.group.protocol": "classic",
    "kafka.session.timeout.ms": "4000",
    "kafka.heartbeat.interval.ms": "200",
    "kafka.metadata.max.age.ms": "300",
}


@pytest.fixture(scope="module", params=["consumer", "classic"])
def protocol(request):
    """What the members of a test speak, on a broker of their own."""
    return request.param


@pytest.fixture(scope="module")
def broker(protocol):
    settings = {
        "group.consumer.heartbeat.interval.ms": 200,
        "group.consumer.session.timeout.ms": 4_000,
        "group.min.session.timeout.ms": 1_000,
    }
    with EmbeddedBroker(**settings) as running:
        yield running


@pytest.fixture
def cluster(broker):
    made = Cluster(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def owner_of(broker, protocol):
    """`owner_of(group, topic, **options)`: an owner; it has left its group at the end."""
    owners = []

    def make(group, topic, **options):
        given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "kafka.group.id": group,
            "subscribe": topic,
            **options,
        }
        given |= CLASSIC if protocol == "classic" else {}
        owners.append(BatchMember(SourceOptions.parse(given)))
        return owners[-1]

    yield make
    for owner in owners:
        owner.close()


def produce(cluster, place, count):
    cluster.produce(place, encode_batch([(None, b"x", ())] * count, timestamp_ms=1))


@pytest.fixture
def haunt(cluster, protocol):
    """`haunt(group, topic)`: a member has joined the group, has been given both partitions, and is
    never heard of again.
    """
    return functools.partial(haunt_classic if protocol == "classic" else haunt_consumer, cluster)


def haunt_classic(cluster, group, topic):
    ghost = ClassicSettings(group, strategy("cooperative-sticky"), session_timeout_ms=4_000)
    named = cluster.call(
        join_request(ghost, "", (topic,), (), NO_GENERATION, None), coordinator=group
    )
    joined = cluster.call(
        join_request(ghost, named.member_id, (topic,), (), NO_GENERATION, None), coordinator=group
    )
    everything = encode_assignment(Given((TopicParts(topic, (0, 1)),)))
    plan = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=everything),)
    generation = Generation(joined.generation_id, "cooperative-sticky", assignments=plan)
    assert (
        cluster.call(
            sync_request(ghost, joined.member_id, generation), coordinator=group
        ).assignment
        == everything
    )


def haunt_consumer(cluster, group, topic):
    beat = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="ghost",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(topic,),
        topic_partitions=(),
    )
    assert cluster.call(beat, coordinator=group).assignment.topic_partitions


def span_where(owner, previous, ready, limit=None):
    """The first span for which `ready` holds, every one before it treated as Spark does: written,
    then handed back.
    """
    deadline = time.monotonic() + 60
    while not ready(previous := owner.next_span(previous, limit)):
        assert time.monotonic() < deadline, previous
    return previous


def test_a_topic_made_again_is_read_from_its_beginning_even_with_latest(cluster, owner_of):
    (old,) = partitions_of(cluster.create_topic("again", 1))
    produce(cluster, old, 3)
    owner = owner_of("made-again", "again", startingOffsets="latest", failOnDataLoss="false")
    first = span_where(owner, EMPTY_SPAN, lambda span: old in span.ranges)
    cluster.delete_topic("again")
    (new,) = partitions_of(cluster.create_topic("again", 1))
    produce(cluster, new, 5)
    second = span_where(owner, first, lambda span: new in span.ranges)
    assert (dict(first.ranges), dict(second.ranges)) == ({old: (3, 3)}, {new: (0, 5)})


def test_the_group_hears_of_a_batch_when_it_comes_back_and_of_its_start_before(cluster, owner_of):
    (place,) = partitions_of(cluster.create_topic("late", 1))
    produce(cluster, place, 8)
    owner = owner_of("late-commit", "late", startingOffsets="earliest")
    batch = span_where(owner, EMPTY_SPAN, lambda span: place in span.ranges, limit=5)
    assert (dict(batch.ranges), cluster.committed("late-commit", [place])) == (
        {place: (0, 5)},
        {place: 0},
    )
    following = span_where(owner, batch, lambda span: span != batch, limit=5)
    assert (dict(following.ranges), cluster.committed("late-commit", [place])) == (
        {place: (5, 8)},
        {place: 5},
    )


def test_a_restart_tells_the_group_of_a_batch_that_it_never_heard_of(cluster, owner_of):
    (place,) = partitions_of(cluster.create_topic("restart", 1))
    produce(cluster, place, 8)
    first = owner_of("restarted", "restart", startingOffsets="earliest")
    batch = span_where(first, EMPTY_SPAN, lambda span: place in span.ranges, limit=5)
    first.close()
    again = owner_of("restarted", "restart", startingOffsets="earliest")
    following = span_where(again, batch, lambda span: span != batch, limit=5)
    assert (dict(following.ranges), cluster.committed("restarted", [place])) == (
        {place: (5, 8)},
        {place: 5},
    )


def test_a_broker_that_never_answers_ends_the_query_with_the_remedy(owner_of, monkeypatch):
    monkeypatch.setattr(apportion.spark.batch_member, "FIRST_ANSWER_LIMIT_S", 0.5)
    owner = owner_of("nobody-group", "any", **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(MembershipFailed) as failure:
        span_where(owner, EMPTY_SPAN, lambda span: span.ranges)
    told = re.sub(r"for \d+ s", "for N s", str(failure.value))
    assert told == (
        "group nobody-group at 127.0.0.1:1: nothing to read for N s: "
        "no connection to the broker at 127.0.0.1:1: Connection refused; "
        "see that a broker listens there and can be reached from this host, or give "
        "another kafka.bootstrap.servers"
    )


def test_a_first_join_may_take_as_long_as_the_slowest_member_of_a_classic_group(
    cluster, owner_of, haunt, monkeypatch
):
    monkeypatch.setattr(apportion.spark.batch_member, "FIRST_ANSWER_LIMIT_S", 1.0)
    places = partitions_of(cluster.create_topic("slow", 2))
    haunt("slow-group", "slow")
    owner = owner_of("slow-group", "slow", startingOffsets="earliest")
    produce(cluster, places[0], 1)
    assert set(span_where(owner, EMPTY_SPAN, lambda span: len(span.ranges) == 2).ranges) == set(
        places
    )


def test_a_restart_waits_for_its_share_before_it_forgets_where_it_stood(cluster, owner_of, haunt):
    places = partitions_of(cluster.create_topic("haunted", 2))
    for place in places:
        produce(cluster, place, 8)
    first = owner_of("haunted-group", "haunted", startingOffsets="earliest")
    batch = span_where(first, EMPTY_SPAN, lambda span: span.ranges, limit=10)
    assert dict(batch.ranges) == dict.fromkeys(places, (0, 5))
    first.close()
    haunt("haunted-group", "haunted")
    again = owner_of("haunted-group", "haunted", startingOffsets="earliest")
    following = span_where(again, batch, lambda span: span != batch)
    assert dict(following.ranges) == dict.fromkeys(places, (5, 8))
    assert cluster.committed("haunted-group", places) == dict.fromkeys(places, 5)


def test_reading_what_is_there_does_not_end_before_the_share_has_come(cluster, owner_of, haunt):
    places = partitions_of(cluster.create_topic("now", 2))
    for place in places:
        produce(cluster, place, 8)
    haunt("now-group", "now")
    owner = owner_of("now-group", "now", startingOffsets="earliest")
    owner.stop_at_present_ends()
    produce(cluster, places[0], 2)
    asking = owner.next_span(EMPTY_SPAN, None)  # the writers, of whom there are none
    batch = owner.next_span(asking, None)
    assert dict(batch.ranges) == dict.fromkeys(places, (0, 8))
    assert owner.next_span(batch, None) is batch


def test_a_partition_is_handed_over_where_its_old_owner_stands(cluster, owner_of):
    places = partitions_of(cluster.create_topic("shared", 2))
    for place in places:
        produce(cluster, place, 10)
    one = owner_of("handed", "shared", startingOffsets="earliest")
    before = span_where(one, EMPTY_SPAN, lambda span: len(span.ranges) == 2, limit=4)
    other = owner_of("handed", "shared", startingOffsets="earliest")
    joined = other.next_span(other.next_span(EMPTY_SPAN, None), None)
    spans = [before]
    while len(spans[-1].ranges) == 2:
        spans.append(one.next_span(spans[-1], 1))
    theirs = span_where(other, joined, lambda span: span.ranges and not span.question_number)
    (kept,), (given,) = spans[-1].ranges, theirs.ranges
    assert {kept, given} == {*places}
    assert theirs.ranges[given] == (spans[-2].ranges[given][1], 10)


def two_of_eight(cluster, owner_of, name):
    """A topic and a group of that name: the topic, the group, the topic's two partitions with eight
    records each, an owner.
    """
    places = partitions_of(cluster.create_topic(name, 2))
    for place in places:
        produce(cluster, place, 8)
    return name, name, places, owner_of(name, name, startingOffsets="earliest")


def begun(owner, table):
    """The first span that reads, of a query whose writer announces this table; the writer plays no
    other part.
    """
    asking = owner.next_span(EMPTY_SPAN, None)
    handover.write_report(asking, table)
    return span_where(owner, asking, lambda span: span.ranges and not span.question_number)


def test_who_would_bring_a_group_a_second_sink_is_refused_and_takes_nothing(
    cluster, owner_of, protocol
):
    topic, group, places, owner = two_of_eight(cluster, owner_of, f"one-sink-{protocol}")
    batch = begun(owner, "/lake/flights")
    assert dict(batch.ranges) == dict.fromkeys(places, (0, 8))
    claimed = dict.fromkeys(places, OffsetAndMetadata(0, '{"sinks":["/lake/flights"]}'))
    assert cluster.committed_offsets(group, places) == claimed
    stray = owner_of(group, topic, startingOffsets="earliest")
    with pytest.raises(
        AnotherSink,
        match=rf"group {group}: it belongs to the sink /lake/flights, .* writes to /lake/other",
    ):
        begun(stray, "/lake/other")
    with Consumer(
        cluster_of(owner), group, topics=topic, group_protocol=protocol, **strategy_of(protocol)
    ) as consumer:
        following = owner.next_span(batch, None)
        with pytest.raises(
            AnotherSink, match=f"group {group}: it belongs to the sink /lake/flights"
        ):
            while not consumer.poll(100):
                following = owner.next_span(following, None)
        assert {event.what for event in consumer.session.history()} == {"left"}, "it has joined"
    assert cluster.committed_offsets(group, places) == {
        place: one._replace(offset=8) for place, one in claimed.items()
    }
    last = span_where(owner, following, lambda span: len(span.ranges) == 2)
    assert last.end_offsets() == dict.fromkeys(places, 8)


def test_a_consumer_that_joined_before_the_group_had_a_sink_is_refused_with_the_next_partition(
    cluster, owner_of, protocol
):
    topic, group, places, owner = two_of_eight(cluster, owner_of, f"early-{protocol}")
    with Consumer(
        cluster_of(owner), group, topics=topic, group_protocol=protocol, **strategy_of(protocol)
    ) as consumer:
        while len(consumer.assignment) < 2:
            consumer.poll(100)
        question = owner.next_span(EMPTY_SPAN, None)
        # a table of before, which need not wait
        handover.write_report(question, "/lake/flights", has_records=True)
        following = question
        while not following.ranges:
            following = owner.next_span(following, None)
            consumer.poll(0)
        owner.close()
        with pytest.raises(
            AnotherSink, match=f"group {group}: it belongs to the sink /lake/flights"
        ):
            while True:
                consumer.poll(100)
        assert consumer.session.history()[-1].what == "left"
    (gained,) = following.ranges
    assert cluster.committed_offsets(group, places)[gained] == OffsetAndMetadata(
        0, '{"sinks":["/lake/flights"]}'
    )


def test_a_newcomer_waits_for_a_consumer_that_has_not_committed_and_is_refused_after_nine_seconds(
    cluster, owner_of, protocol
):
    topic, group = f"silent-{protocol}", f"silent-{protocol}"
    places = partitions_of(cluster.create_topic(topic, 2))
    for place in places:
        produce(cluster, place, 8)
    owner = owner_of(group, topic, startingOffsets="earliest")
    chosen = {"group_protocol": protocol, "auto_offset_reset": "earliest", **strategy_of(protocol)}
    with Consumer(cluster_of(owner), group, topics=topic, **chosen) as consumer:
        while len(consumer.assignment) < 2:
            consumer.poll(100)
        question = owner.next_span(EMPTY_SPAN, None)
        handover.write_report(question, "/lake/flights")
        with pytest.raises(
            AnotherSink,
            match=(
                rf"group {group}: it has members \(1\) that have not reported which sink they "
                r"write to"
            ),
        ):
            while True:
                assert owner.next_span(question, None) is question
                consumer.poll(0)
        assert len(consumer.assignment) == 2, "the newcomer has joined"
        consumer.commit(dict.fromkeys(consumer.assignment, 8))
    assert cluster.committed_offsets(group, places) == dict.fromkeys(
        places, OffsetAndMetadata(8, "")
    )


def test_a_newcomer_does_not_wait_for_members_that_read_other_topics_such_as_its_own_second_source(
    cluster, owner_of, protocol
):
    group, topics = f"sources-{protocol}", [f"left-{protocol}", f"right-{protocol}"]
    places = [partitions_of(cluster.create_topic(topic, 1))[0] for topic in topics]
    owners = [owner_of(group, topic, startingOffsets="earliest") for topic in topics]
    spans = [owner.next_span(EMPTY_SPAN, None) for owner in owners]
    for span in spans:
        handover.write_report(span, "/lake/both")
    began_s = time.monotonic()
    spans = [
        span_where(owner, span, lambda span: span.ranges)
        for owner, span in zip(owners, spans, strict=True)
    ]
    assert [dict(span.ranges) for span in spans] == [{place: (0, 0)} for place in places]
    assert time.monotonic() - began_s < 9, "one has waited for the other's session"


def test_a_newcomer_goes_on_when_a_member_that_has_not_said_its_sink_is_gone(
    cluster, owner_of, protocol
):
    topic, group = f"gone-{protocol}", f"gone-{protocol}"
    (place,) = partitions_of(cluster.create_topic(topic, 1))
    produce(cluster, place, 8)
    owner = owner_of(group, topic, startingOffsets="earliest")
    question = owner.next_span(EMPTY_SPAN, None)
    handover.write_report(question, "/lake/flights")
    with Consumer(
        cluster_of(owner), group, topics=topic, group_protocol=protocol, **strategy_of(protocol)
    ) as consumer:
        while not consumer.assignment:
            consumer.poll(100)
        assert owner.next_span(question, None) is question
    batch = span_where(owner, question, lambda span: not span.question_number)
    assert (batch.ranges, batch.sinks) == ({place: (0, 8)}, ("/lake/flights",))


def test_a_query_whose_table_was_moved_leaves_its_group_to_adopt_it_and_goes_on(
    cluster, owner_of, protocol
):
    _, group, places, owner = two_of_eight(cluster, owner_of, f"moved-{protocol}")
    batch = begun(owner, "/lake/flights")
    handover.write_report(batch, "/lake/moved", adopt=True)
    question = owner.next_span(batch, None)
    assert (question.question_number, question.ranges) == (1, dict.fromkeys(places, (8, 8)))
    handover.write_report(question, "/lake/moved", adopt=True)
    following = span_where(owner, question, lambda span: not span.question_number)
    assert (following.sinks, following.end_offsets()) == (("/lake/moved",), question.end_offsets())
    assert cluster.committed_offsets(group, places) == dict.fromkeys(
        places, OffsetAndMetadata(8, '{"sinks":["/lake/moved"]}')
    )


def test_a_static_query_of_a_moved_table_gives_up_its_place_to_adopt_the_group(
    cluster, owner_of, protocol
):
    topic, group = f"static-{protocol}", f"static-{protocol}"
    (place,) = partitions_of(cluster.create_topic(topic, 1))
    produce(cluster, place, 8)
    owner = owner_of(group, topic, startingOffsets="earliest", **{"kafka.group.instance.id": "one"})
    batch = begun(owner, "/lake/flights")
    handover.write_report(batch, "/lake/moved", adopt=True)
    question = owner.next_span(batch, None)
    handover.write_report(question, "/lake/moved", adopt=True)
    following = span_where(owner, question, lambda span: not span.question_number)
    assert (following.sinks, following.end_offsets()) == (("/lake/moved",), {place: 8})


def cluster_of(owner):
    return owner.options.bootstrap


def strategy_of(protocol):
    return {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}
