"""Consumers that compute their group's target themselves, on a real broker."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

import pytest

import apportion
from apportion.assign.by_name import ClusterTopics, Given, Subscription, by_topic
from apportion.assignors import Assignor, BytesWeighted, CooperativeSticky, LagWeighted
from apportion.client.cluster import Cluster
from apportion.client.consumer import Consumer
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import TopicPartition, partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.consumer_group_heartbeat import (
    ClientAssignor,
    ConsumerGroupHeartbeatRequest,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)

PATIENT_S = 60


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(apportion_assignor_timeout_ms=2_000) as broker:
        cluster = Cluster(broker.bootstrap)
        cluster.create_topic("six", 6)
        skewed = partitions_of(cluster.create_topic("skewed", 4))
        cluster.produce(skewed[0], encode_batch([(None, b".", ())] * 9_000, timestamp_ms=1))
        for partition in skewed[1:]:
            cluster.produce(partition, encode_batch([(None, b".", ())] * 3_000, timestamp_ms=1))
        cluster.close()
        yield broker.bootstrap


class Allotting(Assignor):
    """Gives each member, in order of its user data, so many partitions as that says.

    behaviour: what it does before it answers, such as to raise.
    """

    name = "allotting"

    def __init__(self, share: int, behaviour: Callable[[], Any] = lambda: None) -> None:
        self.share = share
        self.behaviour = behaviour
        self.computed = 0
        self.told: list[Given] = []

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        return str(self.share).encode()

    def assign(self, cluster: ClusterTopics, members: Mapping[str, Subscription]) -> Any:
        self.behaviour()
        self.computed += 1
        rest = [("six", number) for number in range(6)]
        given = {}
        for member in sorted(members, key=lambda each: members[each].user_data or b""):
            share = int(members[member].user_data or b"0")
            given[member] = Given(by_topic(rest[:share]), user_data=b"from " + self.name.encode())
            rest = rest[share:]
        return given

    def on_assignment(self, given: Given, generation: int) -> None:
        self.told.append(given)


def poll_until(condition: Callable[[], bool], *consumers: Consumer) -> None:
    """All poll, and go on until this holds."""
    deadline = time.monotonic() + PATIENT_S
    while True:
        for consumer in consumers:
            consumer.poll(20)
        if condition():
            return
        assert time.monotonic() < deadline, [consumer.assignment for consumer in consumers]


def sizes(*consumers: Consumer) -> tuple[int, ...]:
    return tuple(len(consumer.assignment) for consumer in consumers)


def until(consumers: list[Consumer], *shares: int) -> None:
    """All poll until they own so many partitions, and none is owned twice."""

    def are_shared() -> bool:
        owned = [partition for consumer in consumers for partition in consumer.assignment]
        return len(owned) == len({*owned}) and sizes(*consumers) == shares

    poll_until(are_shared, *consumers)


def joining(
    bootstrap: str, group: str, *local: Any, topic: str = "six", **options: Any
) -> Consumer:
    return apportion.Consumer(
        bootstrap, group, topics=[topic], group_local_assignors=local, **options
    )


def test_two_consumers_share_as_their_assignor_says(bootstrap: str) -> None:
    first, second = Allotting(2), Allotting(4)
    with joining(bootstrap, "two", first) as one, joining(bootstrap, "two", second) as other:
        until([one, other], 2, 4)
    assert first.computed + second.computed > 0
    assert first.told[-1] == Given(by_topic([("six", 0), ("six", 1)]), b"from allotting")


def test_another_member_computes_when_the_computing_one_is_gone(bootstrap: str) -> None:
    assignors = [Allotting(1), Allotting(2), Allotting(3)]
    with ExitStack() as stack:
        consumers = [stack.enter_context(joining(bootstrap, "three", each)) for each in assignors]
        until(consumers, 1, 2, 3)
        busiest = max(assignors, key=lambda each: each.computed)
        leaving = consumers.pop(assignors.index(busiest))
        assignors.remove(busiest)
        before = sum(each.computed for each in assignors)
        leaving.close()
        poll_until(lambda: sum(each.computed for each in assignors) > before, *consumers)
        until(consumers, *(each.share for each in assignors))


def fail() -> None:
    raise RuntimeError("out of order")


def test_another_member_computes_when_the_assignor_of_one_raises(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    sound = Allotting(4)
    failure = "the assignor 'allotting' failed: RuntimeError: out of order"
    with (
        caplog.at_level(logging.ERROR, "apportion.session"),
        joining(bootstrap, "raising", Allotting(2, fail)) as one,
    ):
        # Alone, so that it is the one that is chosen.
        poll_until(lambda: failure in caplog.text, one)
        with joining(bootstrap, "raising", sound) as other:
            until([one, other], 2, 4)
    assert sound.computed > 0


def test_another_member_computes_when_the_assignor_of_one_is_slow(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def take_long() -> None:
        began.set()
        may_end.wait(PATIENT_S)

    sound = Allotting(4)
    with joining(bootstrap, "slow", Allotting(2, take_long)) as one:
        # Alone, so that it is the one that is chosen.
        assert began.wait(PATIENT_S)
        with joining(bootstrap, "slow", sound) as other:
            until([one, other], 2, 4)
            assert sound.computed > 0
            # It is slow, and stays a member: its heartbeats go on beside its assignor.
            until([one, other], 2, 4)
            assert {event.what for event in one.session.history()} == {"offered", "adopted"}
            may_end.set()
            late = "was too late with the group's target: its assignor took "
            poll_until(lambda: late in caplog.text, one, other)
            until([one, other], 2, 4)


def test_a_consumer_without_assignors_makes_the_group_use_the_brokers(bootstrap: str) -> None:
    with joining(bootstrap, "mixed", Allotting(2)) as one:
        until([one], 2)
        with apportion.Consumer(bootstrap, "mixed", topics=["six"]) as other:
            until([one, other], 3, 3)
        until([one], 2)


def test_an_assignor_of_classic_groups_serves_a_consumer_group(bootstrap: str) -> None:
    with joining(bootstrap, "sticky", CooperativeSticky()) as one:
        until([one], 6)
        with joining(bootstrap, "sticky", "cooperative-sticky") as other:
            until([one, other], 3, 3)


BY_LAG: dict[str, dict[str, Any]] = {
    "consumer": {"group_local_assignors": "lag-weighted"},
    "classic": {
        "group_protocol": "classic",
        "partition_assignment_strategy": LagWeighted(),
        "heartbeat_interval_ms": 100,
    },
}


@pytest.mark.parametrize("protocol", BY_LAG)
def test_consumers_share_a_skewed_topic_by_lag(bootstrap: str, protocol: str) -> None:
    options = {"topics": ["skewed"], "auto_offset_reset": "earliest", **BY_LAG[protocol]}
    with (
        apportion.Consumer(bootstrap, f"lag-{protocol}", **options) as one,
        apportion.Consumer(bootstrap, f"lag-{protocol}", **options) as other,
    ):
        poll_until(lambda: sizes(one, other) in ((1, 3), (3, 1)), one, other)


class Versioned(Allotting):
    """One whose user data say their version; the answer's say which versions it has seen."""

    name = "versioned"

    def __init__(self, share: int, minimum_version: int, maximum_version: int) -> None:
        super().__init__(share)
        self.minimum_version, self.maximum_version = minimum_version, maximum_version

    def versioned_user_data(self, topics: tuple[str, ...], version: int) -> bytes | None:
        return f"{self.share}".encode()

    def assign(self, cluster: ClusterTopics, members: Mapping[str, Subscription]) -> Any:
        given = super().assign(cluster, members)
        seen = repr(sorted(member.version for member in members.values())).encode()
        return {member: Given(each.partitions, seen) for member, each in given.items()}


def test_a_group_uses_the_newest_version_that_all_members_understand(bootstrap: str) -> None:
    newer, older = Versioned(2, 1, 4), Versioned(4, 2, 3)
    with joining(bootstrap, "versions", newer) as one:
        until([one], 2)
        assert newer.told[-1].version == 4
        with joining(bootstrap, "versions", older) as other:
            until([one, other], 2, 4)
            agreed = (b"[3, 3]", 3)
            poll_until(
                lambda: (newer.told[-1].user_data, newer.told[-1].version) == agreed, one, other
            )
            until([one, other], 2, 4)


def test_an_error_of_the_assignor_reaches_every_member(bootstrap: str) -> None:
    class Failing(Allotting):
        name = "failing"

        def assign(self, cluster: ClusterTopics, members: Mapping[str, Subscription]) -> Any:
            given = super().assign(cluster, members)
            return {member: Given(each.partitions, error=7) for member, each in given.items()}

    assignors = Failing(2), Failing(4)
    with ExitStack() as stack:
        consumers = [stack.enter_context(joining(bootstrap, "error", each)) for each in assignors]
        until(consumers, 2, 4)
    assert [each.told[-1].error for each in assignors] == [7, 7]


def test_consumers_share_a_skewed_topic_by_the_bytes_that_they_measure(bootstrap: str) -> None:
    options: dict[str, Any] = {"topic": "skewed", "auto_offset_reset": "latest"}
    assignors = [BytesWeighted(least=1, measure_ms=500) for _ in range(2)]
    with (
        closing(Cluster(bootstrap)) as cluster,
        joining(bootstrap, "bytes", assignors[0], **options) as one,
        joining(bootstrap, "bytes", assignors[1], **options) as other,
    ):
        (topic,) = cluster.topics(["skewed"])

        def is_shared() -> bool:
            for partition, size in zip(partitions_of(topic), (3_000, 800, 800, 800), strict=True):
                record = (None, b"." * size, ())
                cluster.produce(partition, encode_batch([record], timestamp_ms=1))
            return sizes(one, other) in ((1, 3), (3, 1))

        poll_until(is_shared, one, other)


def join_by_hand(cluster: Cluster, group: str) -> int:
    """Join as a member "ghost" that offers the assignor, and is chosen; return its epoch."""
    offered = ClientAssignor(
        name="allotting", minimum_version=0, maximum_version=0, reason=0, version=0, metadata=b"2"
    )
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="ghost",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("six",),
        topic_partitions=(),
        client_assignors=(offered,),
    )
    response = cluster.call(request, coordinator=group)
    assert (response.error_code, response.should_compute_assignment) == (Code.NONE, True)
    return int(response.member_epoch)


def test_another_member_computes_when_the_chosen_one_is_silent(bootstrap: str) -> None:
    with closing(Cluster(bootstrap)) as cluster:
        join_by_hand(cluster, "silent")
    sound = Allotting(4)
    with joining(bootstrap, "silent", sound) as consumer:
        until([consumer], 4)
    assert sound.computed > 0


def test_another_member_computes_when_the_chosen_one_installs_what_is_no_assignment(
    bootstrap: str,
) -> None:
    with closing(Cluster(bootstrap)) as cluster:
        epoch = join_by_hand(cluster, "lying")
        prepared = cluster.call(
            ConsumerGroupPrepareAssignmentRequest(
                group_id="lying", member_id="ghost", member_epoch=epoch
            ),
            coordinator="lying",
        )
        (topic,) = prepared.topics
        everything = InstalledPartitions(topic_id=bytes(topic.topic_id), partitions=(0, 1, 1))
        install = ConsumerGroupInstallAssignmentRequest(
            group_id="lying",
            member_id="ghost",
            member_epoch=epoch,
            group_epoch=prepared.group_epoch,
            members=(InstalledMember(member_id="ghost", topic_partitions=(everything,)),),
        )
        response = cluster.call(install, coordinator="lying")
    assert (response.error_code, response.error_message) == (
        Code.INVALID_REQUEST,
        "the assignor gives partition 1 of 'six' to 'ghost' twice",
    )
    with joining(bootstrap, "lying", Allotting(4)) as consumer:
        until([consumer], 4)


def test_a_consumer_reads_on_when_its_assignor_fails_to_measure(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Unmeasuring(BytesWeighted):
        """Fails whenever it is told of a fetch."""

        def record_fetched(self, fetched: Mapping[TopicPartition, int], at_ms: int) -> None:
            raise ZeroDivisionError("no bytes")

    options: dict[str, Any] = {"topic": "skewed", "auto_offset_reset": "earliest"}
    with joining(bootstrap, "unmeasured", Unmeasuring(), **options) as consumer:
        deadline, read = time.monotonic() + PATIENT_S, 0
        while read < 18_000:
            assert time.monotonic() < deadline
            read += len(consumer.poll(20))
    failure = "the assignor 'bytes-weighted' failed: ZeroDivisionError: no bytes"
    (line,) = (line for line in caplog.messages if "ZeroDivisionError" in line)
    assert line.startswith(f"group unmeasured: record_fetched: {failure} (test_local_assignors")


@pytest.mark.parametrize("method", ["on_assignment", "user_data"])
def test_a_consumer_that_its_assignor_ends_leaves_its_partitions_to_the_others(
    bootstrap: str, method: str
) -> None:
    class Breaking(CooperativeSticky):
        """Raises as soon as its member has partitions."""

        has_partitions = False

        def on_assignment(self, given: Given, generation: int) -> None:
            self.has_partitions |= bool(given.partitions)
            if self.has_partitions and method == "on_assignment":
                raise KeyError("on_assignment")

        def user_data(self, topics: tuple[str, ...]) -> bytes | None:
            if self.has_partitions and method == "user_data":
                raise KeyError("user_data")
            return super().user_data(topics)

    group = f"ended-by-{method}"
    with joining(bootstrap, group, CooperativeSticky(), client_id="sound") as sound:
        until([sound], 6)
        breaking = Breaking()
        broken = joining(bootstrap, group, breaking)
        deadline = time.monotonic() + PATIENT_S
        has_news = False
        with pytest.raises(Refused, match=f"KeyError: '{method}'"):
            while time.monotonic() < deadline:
                sound.poll(20)
                broken.poll(20)
                if breaking.has_partitions and not has_news:
                    # User data are encoded beside other news only, such as another subscription.
                    has_news = True
                    broken.subscribe(["six", "skewed"])
        # It has left: nobody waits for its session to expire.
        with closing(Cluster(bootstrap)) as cluster:
            members = cluster.ask_coordinator(ConsumerGroupDescribeQuery(group)).members
        assert [member.client_id for member in members] == ["sound"]
        until([sound], 6)
        broken.close()
