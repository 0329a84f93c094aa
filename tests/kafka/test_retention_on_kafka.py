"""Which offsets and groups expire when, on a real Kafka and here: the same steps on both, with a
retention of one minute.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from apportion.client.connection import BrokerConnection
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import KafkaMissing, RealKafka
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from apportion.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import encode

SETTINGS = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "group.consumer.session.timeout.ms": "45000",
}
GROUPS = ("simple", "leased", "reader", "gone", "short", "stable", "left", "connect")
RETRIED = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
SUBSCRIBED = encode(ConsumerProtocolSubscription(topics=("read",)), 1)


class Side:
    """One broker, and what the members know of it."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.connection = BrokerConnection(host, int(port), "retention", 30_000)
        self.epochs: dict[str, int] = {}
        self.generations: dict[str, int] = {}
        self.ids: dict[str, str] = {}

    def call(self, request: Any, version: int) -> Any:
        return self.connection.call(request, timeout_ms=30_000, version=version)

    def prepare(self) -> None:
        """There are two topics, and the coordinator has read its log."""
        made = tuple(
            CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            for name in ("read", "other")
        )
        assert [
            each.error_code
            for each in self.call(CreateTopicsRequest(topics=made, timeout_ms=30_000), 7).topics
        ] == [0, 0]
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=("any",))
        while self.call(asked, 6).coordinators[0].error_code in RETRIED:
            time.sleep(0.1)
        while self.commit("simple", {"other": 0}) != [0]:
            time.sleep(0.1)

    def commit(
        self, group: str, offset_by_topic: dict[str, int], lives_ms: int | None = None
    ) -> list[int]:
        """The codes of a commit of 5 for {topic: partition}, as the group's member if it has
        one.
        """
        topics = tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=5),
                ),
            )
            for topic, index in offset_by_topic.items()
        )
        epoch = self.epochs.get(group, self.generations.get(group, -1))
        lease: dict[str, Any] = {} if lives_ms is None else {"retention_time_ms": lives_ms}
        request = OffsetCommitRequest(
            group_id=group,
            member_id=self.ids.get(group, ""),
            generation_id_or_member_epoch=epoch,
            topics=topics,
            **lease,
        )
        answer = self.call(request, 9 if lives_ms is None else 4)
        return [partition.error_code for topic in answer.topics for partition in topic.partitions]

    def beat(self, group: str, epoch: int | None = None) -> None:
        """A member of the consumer protocol joins, stays or (-1) leaves; nobody joins or stays who
        never has.
        """
        first = epoch is None and group not in self.epochs
        fields: dict[str, Any] = (
            {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": ("read",),
                "topic_partitions": (),
            }
            if first
            else {}
        )
        epoch = self.epochs.get(group, 0) if epoch is None else epoch
        answer = self.call(
            ConsumerGroupHeartbeatRequest(
                group_id=group, member_id="m", member_epoch=epoch, **fields
            ),
            1,
        )
        assert answer.error_code == 0, answer
        self.epochs[group], self.ids[group] = answer.member_epoch, "m"

    def join(self, group: str, protocol_type: str = "consumer") -> None:
        """A classic member is all of the group's first generation."""
        spoken = (JoinGroupRequestProtocol(name="range", metadata=SUBSCRIBED),)
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=60_000,
            protocol_type=protocol_type,
            protocols=spoken,
        )
        joined = self.call(request, 3)
        assert joined.error_code == 0, joined
        given = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b""),)
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=given,
        )
        assert self.call(sync, 3).error_code == 0
        self.generations[group], self.ids[group] = joined.generation_id, joined.member_id

    def leave(self, group: str) -> None:
        gone = (MemberIdentity(member_id=self.ids[group]),)
        assert self.call(LeaveGroupRequest(group_id=group, members=gone), 3).error_code == 0

    def picture(self) -> dict[str, dict[str, Any]]:
        """Which groups there are, by id with type and state, and which offsets they have."""
        listed = self.call(ListGroupsRequest(), 5).groups
        asked = tuple(OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUPS)
        offsets = {
            group.group_id: sorted(
                (topic.name, each.partition_index)
                for topic in group.topics
                for each in topic.partitions
            )
            for group in self.call(OffsetFetchRequest(groups=asked), 8).groups
        }
        return {
            "groups": {
                group.group_id: (group.group_type, group.group_state)
                for group in listed
                if group.group_id in GROUPS
            },
            "offsets": {
                group: offsets_of_group
                for group, offsets_of_group in offsets.items()
                if offsets_of_group
            },
        }

    def begin(self) -> None:
        """What happens at the beginning."""
        self.commit("simple", {"read": 1, "other": 1})
        self.commit("leased", {"read": 0}, lives_ms=15_000)
        self.commit("leased", {"other": 0}, lives_ms=600_000)
        for group in ("reader", "gone", "short"):
            self.beat(group)
            if group != "short":
                assert self.commit(group, {"read": 0, "other": 0}) == [0, 0]
        for group in ("stable", "left"):
            self.join(group)
            assert self.commit(group, {"read": 0, "other": 0}) == [0, 0]
        self.join("connect", "connect")
        assert self.commit("connect", {"read": 0, "other": 0}) == [0, 0]
        self.beat("short", -1)

    def go_on(self) -> None:
        """What happens half a minute later."""
        self.commit("simple", {"other": 1})
        self.beat("gone", -1)
        self.leave("left")


@pytest.fixture
def sides(
    jars: Path, tmp_path: Path, lane_missing: Callable[[str], NoReturn]
) -> Iterator[tuple[Side, Side]]:
    """A real Kafka and our broker, which keep offsets for a minute."""
    kafka = RealKafka(jars, tmp_path / "kafka", SETTINGS)
    try:
        kafka.start()
    except KafkaMissing as problem:
        lane_missing(str(problem))
    try:
        with EmbeddedBroker(
            **{name.replace(".", "_"): int(value) for name, value in SETTINGS.items()}  # type: ignore[arg-type]
        ) as broker:
            yield Side(kafka.bootstrap), Side(broker.bootstrap)
    finally:
        kafka.kill()


def test_offsets_and_groups_expire_after_a_minute_when_those_of_a_real_kafka_do(
    sides: tuple[Side, Side],
) -> None:
    pictures: dict[int, list[dict[str, Any]]] = {}
    for side in sides:
        side.prepare()
    begin_s = time.monotonic()
    for at_s, happens in ((0, Side.begin), (20, None), (30, Side.go_on), (68, None)):
        while (left_s := begin_s + at_s - time.monotonic()) > 0:
            time.sleep(min(left_s, 5))
            for side in sides:
                for group in [group for group, epoch in side.epochs.items() if epoch > 0]:
                    side.beat(group)
        for side in sides:
            if happens is not None:
                happens(side)
            else:
                pictures.setdefault(at_s, []).append(side.picture())
    for side in sides:
        with suppress(OSError):
            side.connection.close()
    kafkas, ours = zip(*pictures.values(), strict=True)
    assert ours == kafkas
    assert ours[0]["offsets"]["leased"] == [("other", 0)]
    assert "short" not in ours[0]["groups"]
    assert ours[1] == {
        "groups": {
            "connect": ("classic", "Stable"),
            "leased": ("classic", "Empty"),
            "left": ("classic", "Empty"),
            "reader": ("consumer", "Stable"),
            "simple": ("classic", "Empty"),
            "stable": ("classic", "Stable"),
        },
        "offsets": {
            "connect": [("other", 0), ("read", 0)],
            "leased": [("other", 0)],
            "left": [("other", 0), ("read", 0)],
            "reader": [("read", 0)],
            "simple": [("other", 1)],
            "stable": [("read", 0)],
        },
    }
