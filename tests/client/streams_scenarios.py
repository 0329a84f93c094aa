"""What Python processes in a Streams group must live through on any broker: ours here, a real Kafka in tests/kafka."""

import time
from uuid import uuid4

import pytest

import apportion
from apportion.client.cluster import Cluster, places_of
from apportion.errors import Refused
from apportion.member.streams_assignor import TaskShare
from apportion.streams.words import TaskId
from apportion.wire.batch import encode_batch

PATIENT_S = 60
EVERY = [TaskId(part, number) for part in range(2) for number in range(4)]


@pytest.fixture
def cluster(bootstrap):
    made = Cluster(bootstrap)
    yield made
    made.close()


@pytest.fixture
def application():
    return f"application-{uuid4().hex[:8]}"


@pytest.fixture
def lines(cluster, application):
    return cluster.create_topic(f"{application}-lines", 4)


@pytest.fixture
def instance(bootstrap, application, lines):
    """`instance(**options)`: one more process of the application, which counts words as a topology says."""
    running = []
    topology = [
        {"sources": [lines.name], "repartition_sinks": [f"{application}-words-repartition"]},
        {"repartition_sources": [f"{application}-words-repartition"], "changelogs": [f"{application}-counts-changelog"]},
    ]

    def start(**options):
        defaults = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}
        running.append(apportion.StreamsConsumer(bootstrap, application, topology=topology, **(defaults | options)))
        return running[-1]

    yield start
    for each in running:
        each.close()


def until(condition, *instances):
    """All instances poll until the condition holds; what they read meanwhile."""
    deadline, read = time.monotonic() + PATIENT_S, []
    while not condition():
        assert time.monotonic() < deadline, [each.tasks for each in instances]
        for each in instances:
            read += each.poll_tasks(50)
    return read


def shared(*instances):
    """Every task is one instance's, and the shares are equal."""
    tasks = [task for each in instances for task in each.tasks.active]
    sizes = [len(each.tasks.active) for each in instances]
    return sorted(tasks) == EVERY and max(sizes) - min(sizes) <= 1


def test_a_lone_instance_makes_the_internal_topics_and_runs_every_task(instance, cluster, application):
    first = instance()
    until(lambda: shared(first), first)
    made = cluster.topics([f"{application}-words-repartition", f"{application}-counts-changelog"], fresh=True)
    assert [topic.partitions for topic in made] == [4, 4]
    assert first.tasks.used == 11


def test_instances_share_tasks_and_take_over_from_one_that_leaves(instance):
    changes = []
    first = instance(on_tasks=lambda share: changes.append(sorted(share.active)))
    until(lambda: shared(first), first)
    second, third = instance(), instance()
    until(lambda: shared(first, second, third), first, second, third)
    third.close()
    until(lambda: shared(first, second), first, second)
    assert changes[0] == EVERY
    assert changes[-1] == sorted(first.tasks.active)


def test_records_come_with_the_task_that_they_are_for(instance, cluster, lines):
    first = instance()
    until(lambda: shared(first), first)
    for place in places_of(lines):
        cluster.produce(place, encode_batch([(b"k", b"%d" % place.partition, ())], timestamp_ms=1))
    got = {}

    def read_all():
        got.update({record.value: task for task, record in first.poll_tasks(100)})
        return len(got) == 4

    until(read_all)
    assert got == {b"%d" % number: TaskId(0, number) for number in range(4)}


def test_missing_source_topics_are_told_to_every_instance(bootstrap, application):
    lost = apportion.StreamsConsumer(bootstrap, application, topology=[{"sources": [f"{application}-nothing"]}])
    with pytest.raises(Refused, match="source topics are missing; make them"):
        until(lambda: False, lost)
    lost.close()


def test_one_instance_shuts_all_down(instance):
    left = {}
    first, second = (instance(on_tasks=lambda share, name=name: left.update({name: share})) for name in ("first", "second"))
    until(lambda: shared(first, second), first, second)
    second.shut_down_application()
    ended = []

    def both_ended():
        for each in (first, second):
            try:
                each.poll_tasks(50)
            except Refused as refused:
                ended.append((each, refused.why))
        return {each for each, _ in ended} == {first, second}

    until(both_ended)
    assert {why for _, why in ended} == {"an instance has asked all to shut down"}
    assert left == {"first": TaskShare(), "second": TaskShare()}


def test_endpoints_tell_where_partitions_are(instance):
    first, second = instance(application_server="one:1"), instance(application_server="two:2")

    def known():
        return len(first.tasks.active_hosts) == len(second.tasks.active_hosts) == 2 and shared(first, second)

    until(known, first, second)
    told = {host.host: {place.partition for place in places} for host, places in first.tasks.active_hosts.items()}
    assert set(told) == {"one", "two"}
