"""What Python processes in a Streams group must live through on any broker: ours here, a real Kafka
in tests/kafka.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.streams import StreamsConsumer, TaskRecord
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.groups import DescribeGroupsQuery
from apportion.member.streams.assignor import TaskShare
from apportion.streams.metadata.codec import decode_subscription
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.topics import Topic, TopicPartition, partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import decode
from tests.client import changes
from tests.client.shared_scenarios import adopt

adopt(globals(), "streams_application")

PATIENT_S = 60
EVERY = [TaskId(part, number) for part in range(2) for number in range(4)]


@pytest.fixture
def instance(
    bootstrap: str, application: str, lines: Topic
) -> Iterator[Callable[..., StreamsConsumer]]:
    """`instance(**options)`: one more process of the application, which counts words as a topology
    says.
    """
    running = []
    topology = [
        {"sources": [lines.name], "repartition_sinks": [f"{application}-words-repartition"]},
        {
            "repartition_sources": [f"{application}-words-repartition"],
            "changelogs": [f"{application}-counts-changelog"],
        },
    ]

    def start(**options: Any) -> StreamsConsumer:
        defaults = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}
        running.append(
            apportion.StreamsConsumer(
                bootstrap, application, topology=topology, **(defaults | options)
            )
        )
        return running[-1]

    yield start
    for each in running:
        each.close()


def until(condition: Callable[..., Any], *instances: StreamsConsumer) -> list[TaskRecord]:
    """All instances poll until the condition holds; what they read meanwhile."""
    deadline, read = time.monotonic() + PATIENT_S, []
    while not condition():
        assert time.monotonic() < deadline, [each.tasks for each in instances]
        for each in instances:
            read += each.poll_tasks(50)
    return read


def shared(*instances: StreamsConsumer) -> bool:
    """Every task is one instance's, and the shares are equal."""
    tasks = [task for each in instances for task in each.tasks.active]
    sizes = [len(each.tasks.active) for each in instances]
    return sorted(tasks) == EVERY and max(sizes) - min(sizes) <= 1


def test_a_lone_instance_makes_the_internal_topics_and_runs_every_task(
    instance: Callable[..., StreamsConsumer], cluster: Cluster, application: str
) -> None:
    first = instance()
    until(lambda: shared(first), first)
    made = cluster.topics(
        [f"{application}-words-repartition", f"{application}-counts-changelog"], fresh=True
    )
    assert [topic.partitions for topic in made] == [4, 4]
    assert first.tasks.used == 11


def test_instances_share_tasks_and_take_over_from_one_that_leaves(
    instance: Callable[..., StreamsConsumer],
) -> None:
    changes = []
    first = instance(on_tasks=lambda share: changes.append(sorted(share.active)))
    until(lambda: shared(first), first)
    second, third = instance(), instance()
    until(lambda: shared(first, second, third), first, second, third)
    third.close()
    until(lambda: shared(first, second), first, second)
    assert changes[0] == EVERY
    assert changes[-1] == sorted(first.tasks.active)


def test_records_come_with_the_task_that_they_are_for(
    instance: Callable[..., StreamsConsumer], cluster: Cluster, lines: Topic
) -> None:
    first = instance()
    until(lambda: shared(first), first)
    for partition in partitions_of(lines):
        cluster.produce(
            partition, encode_batch([(b"k", b"%d" % partition.partition, ())], timestamp_ms=1)
        )
    got = {}

    def read_all() -> bool:
        got.update({record.value: task for task, record in first.poll_tasks(100)})
        return len(got) == 4

    until(read_all)
    assert got == {b"%d" % number: TaskId(0, number) for number in range(4)}


def test_missing_source_topics_are_told_to_every_instance(bootstrap: str, application: str) -> None:
    lost = apportion.StreamsConsumer(
        bootstrap, application, topology=[{"sources": [f"{application}-nothing"]}]
    )
    with pytest.raises(
        Refused, match=r"source topics are missing: .*-nothing; create them, and start again"
    ):
        until(lambda: False, lost)
    lost.close()


def described(cluster: Cluster, application: str) -> Any:
    """What every instance said of tasks when it joined the present generation, by its endpoint;
    None unless the group is stable.
    """
    group = cluster.ask_coordinator(DescribeGroupsQuery(application))
    if group is None or group.group_state != "Stable":
        return None
    blobs = (
        decode(ConsumerProtocolSubscription, each.member_metadata)[1].user_data
        for each in group.members
    )
    infos: list[Any] = [decode_subscription(blob or b"") for blob in blobs]
    return {info.endpoint: dict(info.offset_sums) for info in infos}


def test_the_group_hears_of_tasks_that_run_here_once_the_owner_has_taken_them_over(
    bootstrap: str, cluster: Cluster, application: str, lines: Topic
) -> None:
    reported: list[dict[Any, Any]] = []

    def take_over(share: TaskShare) -> None:
        if len(share.active) == 4:
            changes.grow_topic(cluster, lines.name, 5)
            assert process.session.wait(lambda view: view.epoch == 2, PATIENT_S * 1_000).epoch == 2
            reported.append(reported_sums())

    def reported_sums() -> dict[TaskId, int]:
        patience = time.monotonic() + PATIENT_S
        while (now := described(cluster, application)) is None:
            assert time.monotonic() < patience
        result: dict[TaskId, int] = now[""]
        return result

    options: dict[str, Any] = {
        "topology": [{"sources": [lines.name]}],
        "metadata_max_age_ms": 500,
        "on_tasks": take_over,
    }
    with apportion.StreamsConsumer(bootstrap, application, **options) as process:
        until(lambda: len(process.tasks.active) == 5, process)
        changes.grow_topic(cluster, lines.name, 6)
        until(lambda: len(process.tasks.active) == 6, process)
        assert reported == [{}]
        assert reported_sums() == {TaskId(0, number): RUNNING for number in range(5)}


def test_a_revoked_task_is_shown_with_its_reported_offset_sum_and_not_as_running(
    instance: Callable[..., StreamsConsumer], cluster: Cluster, application: str
) -> None:
    def keep(partitions: tuple[TopicPartition, ...]) -> None:
        gone = [task for task, read in first.tasks.active.items() if set(read) & set(partitions)]
        first.report(dict.fromkeys(gone, 5))

    first = instance(application_server="first:1", on_revoked=keep)
    until(lambda: shared(first), first)
    second = instance(application_server="second:1")
    until(lambda: shared(first, second), first, second)
    runs, gone = dict.fromkeys(first.tasks.active, RUNNING), dict.fromkeys(second.tasks.active, 5)
    until(lambda: described(cluster, application) is not None, first, second)
    assert described(cluster, application)["first:1"] == gone | runs


def test_a_task_with_much_state_goes_to_who_has_said_to_have_it(
    instance: Callable[..., StreamsConsumer], cluster: Cluster, application: str
) -> None:
    first = instance(acceptable_recovery_lag=10)
    until(lambda: shared(first), first)
    (changelog,) = cluster.topics([f"{application}-counts-changelog"], fresh=True)
    for partition in partitions_of(changelog):
        cluster.produce(partition, encode_batch([(b"k", b"v", ())] * 100, timestamp_ms=1))
    second = instance(acceptable_recovery_lag=10)
    until(lambda: len(second.tasks.standby) == 2 and len(second.tasks.active) == 4, first, second)
    assert {task.subtopology for task in second.tasks.active} == {0}
    second.report(dict.fromkeys(second.tasks.standby, 95))
    copies = set(second.tasks.standby)
    third = instance(acceptable_recovery_lag=10)
    until(lambda: copies & set(second.tasks.active) and third.tasks.active, first, second, third)


def test_a_task_that_was_lost_and_has_come_back_is_taken_over_anew(
    instance: Callable[..., StreamsConsumer], cluster: Cluster, application: str
) -> None:
    events: list[Any] = []
    first = instance(
        on_tasks=lambda share: events.append(len(share.active)),
        on_lost=lambda partitions: events.append("lost"),
    )
    until(lambda: shared(first), first)
    gone = LeaveGroupRequest(
        group_id=application, members=(MemberIdentity(member_id=first.session.status().member_id),)
    )
    assert cluster.call(gone, coordinator=application).error_code == Code.NONE
    first.session.wait(lambda view: view.incarnation == 2 and bool(view.target), PATIENT_S * 1_000)
    assert events == [8]
    until(lambda: len(events) == 4, first)
    assert events == [8, "lost", 0, 8]


def test_an_owner_that_could_not_take_over_is_asked_again_and_gets_no_records_before(
    instance: Callable[..., StreamsConsumer], cluster: Cluster, lines: Topic
) -> None:
    tries = []

    def take_over(share: TaskShare) -> None:
        tries.append(len(share.active))
        if len(tries) == 1:
            raise Disconnected("the changelog cannot be read now")

    for partition in partitions_of(lines):
        cluster.produce(partition, encode_batch([(b"k", b"v", ())], timestamp_ms=1))
    first = instance(on_tasks=take_over)
    with pytest.raises(Disconnected):
        until(lambda: False, first)
    assert tries == [8]
    assert (
        len(
            until(
                lambda: len(tries) == 2 and first.position(TopicPartition(lines.name, 3)) == 1,
                first,
            )
        )
        == 4
    )


def test_an_owner_whose_on_revoked_raises_lets_its_tasks_go_and_raises_it(
    instance: Callable[..., StreamsConsumer],
) -> None:
    events: list[Any] = []

    def flush(partitions: tuple[TopicPartition, ...]) -> None:
        events.append(f"{len(partitions)} partitions go")
        if len(events) == 2:
            raise OSError("the disk is full")

    first = instance(on_tasks=lambda share: events.append(len(share.active)), on_revoked=flush)
    until(lambda: shared(first), first)
    second = instance()
    with pytest.raises(OSError, match="the disk is full"):
        until(lambda: False, first, second)
    assert len(first.tasks.active) == 4
    until(lambda: shared(first, second), first, second)
    assert events == [8, "4 partitions go", 4]


def test_an_owner_that_fails_to_hear_of_a_loss_is_told_again(
    instance: Callable[..., StreamsConsumer], cluster: Cluster, application: str
) -> None:
    events: list[Any] = []

    def take_over(share: TaskShare) -> None:
        events.append(len(share.active))
        if len(events) == 2:
            raise Disconnected("a file is busy")

    first = instance(on_tasks=take_over, num_standby_replicas=1)
    until(lambda: shared(first), first)
    gone = LeaveGroupRequest(
        group_id=application, members=(MemberIdentity(member_id=first.session.status().member_id),)
    )
    assert cluster.call(gone, coordinator=application).error_code == Code.NONE
    first.session.wait(lambda view: view.incarnation == 2 and bool(view.target), PATIENT_S * 1_000)
    with pytest.raises(Disconnected):
        until(lambda: False, first)
    assert events == [8, 0]
    until(lambda: len(events) == 4, first)
    assert events == [8, 0, 0, 8]


def test_internal_topics_that_may_not_be_made_end_every_instance(
    bootstrap: str, application: str, lines: Topic
) -> None:
    huge = {"name": f"{application}-huge-repartition", "partitions": 20_000}
    topology: Any = [
        {"sources": [lines.name], "repartition_sinks": [huge["name"]]},
        {"repartition_sources": [huge]},
    ]
    lost = apportion.StreamsConsumer(bootstrap, application, topology=topology)
    with lost, pytest.raises(Refused, match="the leader could not assign tasks"):
        until(lambda: False, lost)


def test_one_instance_shuts_all_down_in_order(
    instance: Callable[..., StreamsConsumer], cluster: Cluster, application: str, lines: Topic
) -> None:
    left = {}

    def start(name: str) -> StreamsConsumer:
        process: StreamsConsumer = instance(
            on_tasks=lambda share: left.update({name: share}),
            on_revoked=lambda partitions: process.commit(),
        )
        return process

    first, second = start("first"), start("second")
    until(lambda: shared(first, second), first, second)
    for partition in partitions_of(lines):
        cluster.produce(partition, encode_batch([(b"k", b"v", ())], timestamp_ms=1))
    read: list[TaskRecord] = []
    while len(read) < 4:
        read += [*first.poll_tasks(50), *second.poll_tasks(50)]
    second.shut_down_application()
    ended = []

    def both_ended() -> bool:
        for each in (first, second):
            try:
                each.poll_tasks(50)
            except Refused as refused:
                ended.append((each, refused.why))
        return {each for each, _ in ended} == {first, second}

    until(both_ended)
    assert {why for _, why in ended} == {"an instance has asked all instances to shut down"}
    assert [(share.active, share.standby) for share in left.values()] == [({}, {})] * 2
    assert set(cluster.committed(application, partitions_of(lines)).values()) == {1}


def test_endpoints_tell_where_partitions_are(instance: Callable[..., StreamsConsumer]) -> None:
    first, second = instance(application_server="one:1"), instance(application_server="two:2")

    def known() -> bool:
        return len(first.tasks.active_hosts) == len(second.tasks.active_hosts) == 2 and shared(
            first, second
        )

    until(known, first, second)
    hosts = {
        host.host: {partition.partition for partition in partitions}
        for host, partitions in first.tasks.active_hosts.items()
    }
    assert set(hosts) == {"one", "two"}
