"""Python processes in a Streams group of KIP-848 (its Streams chapter), on our own broker.

No other broker has client-side assignors. What a StreamsConsumer does whatever its group's protocol
is in streams_scenarios.py, with classic groups.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.client.streams import StreamsConsumer
from apportion.errors import Refused
from apportion.server.embedded import EmbeddedBroker
from apportion.streams.metadata.model import HostInfo, TaskId
from apportion.topics import Topic, TopicPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client.shared_scenarios import adopt

adopt(globals(), "streams_application")

PATIENT_S = 20
RECORDS = 100


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Where a broker of ours listens; it assigns at once, so that the tests are quick."""
    with EmbeddedBroker(group_consumer_assignment_interval_ms=0) as running:
        yield running.bootstrap


@pytest.fixture
def counting(lines: Topic, application: str) -> list[dict[str, Any]]:
    """A topology with one subtopology, whose tasks keep state."""
    return [{"sources": [lines.name], "changelogs": [f"{application}-counts-changelog"]}]


Start = Callable[..., StreamsConsumer]


@pytest.fixture
def instance(bootstrap: str, application: str, counting: list[dict[str, Any]]) -> Iterator[Start]:
    """`instance(**options)`: one more process of the application."""
    running: list[StreamsConsumer] = []

    def start(topology: Any = None, **options: Any) -> StreamsConsumer:
        started = apportion.StreamsConsumer(
            bootstrap,
            application,
            topology=topology or counting,
            **{"group_protocol": "consumer", "acceptable_recovery_lag": 10, **options},
        )
        running.append(started)
        return started

    yield start
    for each in running:
        each.close()


def until(condition: Callable[[], bool], *instances: StreamsConsumer) -> None:
    """All instances poll until the condition holds."""
    deadline = time.monotonic() + PATIENT_S
    while not condition():
        assert time.monotonic() < deadline, [each.tasks for each in instances]
        for each in instances:
            each.poll_tasks(20)


def sizes(*instances: StreamsConsumer) -> list[int]:
    return [len(each.tasks.active) for each in instances]


def fill_changelogs(cluster: Cluster, application: str) -> None:
    """Give every task state that takes time to restore."""
    (changelog,) = cluster.topics([f"{application}-counts-changelog"], fresh=True)
    for partition in partitions_of(changelog):
        cluster.produce(partition, encode_batch([(b"k", b"v", ())] * RECORDS, timestamp_ms=1))


def warming(
    instance: Start, cluster: Cluster, application: str
) -> tuple[StreamsConsumer, StreamsConsumer]:
    """An instance that has every task, and one that warms two of them up."""
    first = instance()
    until(lambda: sizes(first) == [4], first)
    fill_changelogs(cluster, application)
    second = instance()
    until(lambda: len(second.tasks.warmup) == 2, first, second)
    return first, second


def ended(*instances: StreamsConsumer) -> list[str]:
    """Why each instance has ended, once all have."""
    errors: dict[int, str] = {}

    def all_ended() -> bool:
        for number, each in enumerate(instances):
            try:
                each.poll_tasks(20)
            except Refused as refused:
                errors[number] = refused.why
        return len(errors) == len(instances)

    until(all_ended)
    return [errors[number] for number in range(len(instances))]


def test_instances_make_topics_and_share_the_tasks_of_all_that_come_and_go(
    instance: Start, cluster: Cluster, lines: Topic, application: str
) -> None:
    words = f"{application}-words-repartition"
    topology = [
        {"sources": [lines.name], "repartition_sinks": [words]},
        {"repartition_sources": [words], "changelogs": [f"{application}-counts-changelog"]},
    ]
    first = instance(topology)
    until(lambda: sizes(first) == [8], first)
    made = cluster.topics([words, f"{application}-counts-changelog"], fresh=True)
    assert [topic.partitions for topic in made] == [4, 4]
    second, third = instance(topology), instance(topology)
    until(lambda: sorted(sizes(first, second, third)) == [2, 3, 3], first, second, third)
    third.close()
    until(lambda: sizes(first, second) == [4, 4], first, second)
    every = [TaskId(part, number) for part in range(2) for number in range(4)]
    assert sorted((*first.tasks.active, *second.tasks.active)) == every


def test_records_come_with_the_task_that_they_are_for(
    instance: Start, cluster: Cluster, lines: Topic
) -> None:
    first, second = instance(), instance()
    until(lambda: sizes(first, second) == [2, 2], first, second)
    for partition in partitions_of(lines):
        cluster.produce(
            partition, encode_batch([(b"k", b"%d" % partition.partition, ())], timestamp_ms=1)
        )
    read: dict[bytes | None, TaskId] = {}

    def read_all() -> bool:
        for each in (first, second):
            read.update({record.value: task for task, record in each.poll_tasks(20)})
        return len(read) == 4

    until(read_all)
    assert read == {b"%d" % number: TaskId(0, number) for number in range(4)}


def test_a_task_moves_when_its_warm_up_has_said_that_it_is_ready(
    instance: Start, cluster: Cluster, application: str
) -> None:
    first, second = warming(instance, cluster, application)
    assert sizes(first, second) == [4, 0]
    assert second.tasks.standby == {}
    warm = sorted(second.tasks.warmup)
    second.report(dict.fromkeys(warm, 50))
    second.report({warm[0]: 95, warm[1]: 50})
    until(lambda: sizes(first, second) == [3, 1], first, second)
    assert (list(second.tasks.active), list(second.tasks.warmup)) == (warm[:1], warm[1:])
    second.report({warm[1]: RECORDS})
    until(lambda: sizes(first, second) == [2, 2], first, second)
    assert (sorted(second.tasks.active), second.tasks.warmup) == (warm, {})


def test_a_task_that_an_instance_cannot_restore_stays_where_it_is(
    instance: Start, cluster: Cluster, application: str
) -> None:
    first, second = warming(instance, cluster, application)
    broken, whole = sorted(second.tasks.warmup)
    second.report_failed_warm_ups([broken])
    until(lambda: list(second.tasks.warmup) == [whole], first, second)
    assert sizes(first, second) == [4, 0]
    second.report({whole: RECORDS})
    until(lambda: sizes(first, second) == [3, 1], first, second)
    assert (list(second.tasks.active), second.tasks.warmup) == ([whole], {})


def test_tasks_of_an_instance_that_leaves_go_where_their_standbys_have_caught_up(
    instance: Start, cluster: Cluster, application: str
) -> None:
    options = {"num_standby_replicas": 1}
    first = instance(**options)
    until(lambda: sizes(first) == [4], first)
    second, third = instance(**options), instance(**options)
    every = (first, second, third)
    until(lambda: sorted(sizes(*every)) == [1, 1, 2], *every)
    until(lambda: sum(len(each.tasks.standby) for each in every) == 4, *every)
    fill_changelogs(cluster, application)
    leaving = max(every, key=lambda each: len(each.tasks.active))
    left = [each for each in every if each is not leaving]
    for each in left:
        each.report(dict.fromkeys(each.tasks.standby, RECORDS))
    epochs = {each.session.status().epoch for each in every}
    until(lambda: min(each.session.status().epoch for each in every) > max(epochs), *every)
    expected = {
        task: each for each in left for task in each.tasks.standby if task in leaving.tasks.active
    }
    assert len(expected) == 2
    leaving.close()
    until(lambda: sorted(sizes(*left)) == [2, 2], *left)
    assert all(task in each.tasks.active for task, each in expected.items())


def test_one_instance_shuts_all_down_and_the_next_start_is_not_shut_down(
    instance: Start,
) -> None:
    first, second = instance(), instance()
    until(lambda: sizes(first, second) == [2, 2], first, second)
    second.shut_down_application()
    second.shut_down_application()
    why = "an instance has asked all instances to shut down"
    assert ended(first, second) == [why, why]
    assert sizes(first, second) == [0, 0]
    third = instance()
    until(lambda: sizes(third) == [4], third)


def test_an_instance_of_another_topology_gets_nothing_until_all_have_changed(
    instance: Start, cluster: Cluster, lines: Topic, application: str
) -> None:
    other = cluster.create_topic(f"{application}-other", 4)
    newer = [{"sources": [lines.name]}, {"sources": [other.name]}]
    first, second = instance(), instance()
    until(lambda: sizes(first, second) == [2, 2], first, second)
    tasks = [each.tasks.active for each in (first, second)]
    third = instance(newer)
    until(lambda: third.session.status().epoch > 0, first, second, third)
    epoch = third.session.status().epoch
    first.change_topology(newer)
    until(lambda: second.session.status().epoch > epoch, first, second, third)
    assert [each.tasks.active for each in (first, second, third)] == [*tasks, {}]
    second.change_topology(newer)
    until(lambda: sorted(sizes(first, second, third)) == [2, 3, 3], first, second, third)
    every = [TaskId(part, number) for part in range(2) for number in range(4)]
    assert sorted(task for each in (first, second, third) for task in each.tasks.active) == every


def test_a_topology_with_one_more_source_topic_brings_its_tasks_and_moves_no_other(
    instance: Start, cluster: Cluster, lines: Topic, application: str
) -> None:
    more = cluster.create_topic(f"{application}-more", 4)
    newer = [{"sources": [lines.name]}, {"sources": [more.name]}]
    every = instance(), instance()
    until(lambda: sizes(*every) == [2, 2], *every)
    before = [list(each.tasks.active) for each in every]
    for each in every:
        each.change_topology(newer)
    until(lambda: sizes(*every) == [4, 4], *every)
    kept = [[task for task in each.tasks.active if task.subtopology == 0] for each in every]
    assert kept == before


def test_missing_source_topics_end_every_instance(instance: Start, application: str) -> None:
    lost = instance([{"sources": [f"{application}-nothing"]}])
    why = f"source topics are missing: {application}-nothing; create them, and start again"
    assert ended(lost) == [why]


def test_every_instance_is_told_which_host_has_which_partition(
    instance: Start, lines: Topic
) -> None:
    first, second = instance(application_server="one:1"), instance(application_server="two:2")
    until(lambda: sizes(first, second) == [2, 2], first, second)
    until(lambda: len(first.tasks.hosts) == len(second.tasks.hosts) == 2, first, second)
    assert first.tasks.hosts == second.tasks.hosts
    assert first.tasks.hosts[HostInfo("two", 2)] == tuple(
        TopicPartition(lines.name, task.partition) for task in sorted(second.tasks.active)
    )


def test_an_instance_that_stops_polling_is_replaced_and_comes_back(instance: Start) -> None:
    first, second = instance(), instance(max_poll_interval_ms=1_500)
    until(lambda: sizes(first, second) == [2, 2], first, second)
    until(lambda: sizes(first) == [4], first)
    until(lambda: sizes(first, second) == [2, 2], first, second)


def test_an_ordinary_consumer_in_the_group_stops_the_hand_over_of_tasks(
    instance: Start, bootstrap: str, application: str, lines: Topic
) -> None:
    first, second = instance(), instance()
    until(lambda: sizes(first, second) == [2, 2], first, second)
    with apportion.Consumer(bootstrap, application, topics=[lines.name]) as foreign:

        def shares() -> bool:
            foreign.poll(20)
            return len(foreign.assignment) >= 1

        until(shares, first, second)
        assert sum(sizes(first, second)) + len(foreign.assignment) <= 4
    until(lambda: sizes(first, second) == [2, 2], first, second)


@pytest.mark.parametrize("call", ["report_failed_warm_ups", "change_topology"])
def test_a_call_that_a_classic_group_has_no_place_for_is_refused(
    instance: Start, call: str
) -> None:
    classic = instance(group_protocol="classic")
    with pytest.raises(RuntimeError, match="use group_protocol='consumer'"):
        getattr(classic, call)([])


def test_a_warm_up_of_a_task_that_is_not_there_cannot_fail(instance: Start) -> None:
    with pytest.raises(ValueError, match=r"TaskId\(.*\) is no task of this topology"):
        instance().report_failed_warm_ups([TaskId(9, 0)])
