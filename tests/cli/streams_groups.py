"""Classic groups whose members say what Kafka Streams and others say, for transcripts."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.streams.metadata.codec import encode_assignment, encode_subscription
from apportion.streams.metadata.model import (
    OFFSET_UNKNOWN,
    RUNNING,
    AssignmentInfo,
    AssignorError,
    SubscriptionInfo,
    TaskId,
)
from apportion.topics import TopicPartition
from apportion.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import encode

Member = tuple[str, bytes, bytes]
"""Client id, subscription, assignment."""


def subscription(used: int, supported: int = -1, **more: Any) -> bytes:
    info = SubscriptionInfo(used, supported, **more)
    return encode(ConsumerProtocolSubscription(topics=("t",), user_data=encode_subscription(info)))


def assignment(partitions: tuple[int, ...], used: int, *, topic: str = "t", **more: Any) -> bytes:
    """What a member is given: these partitions of a topic."""
    user_data = encode_assignment(AssignmentInfo(used, **more))
    return assigned(partitions, topic=topic, user_data=user_data)


def assigned(partitions: tuple[int, ...], *, topic: str = "t", **more: Any) -> bytes:
    given = (ConsumerProtocolTopicPartition(topic=topic, partitions=partitions),)
    return encode(ConsumerProtocolAssignment(assigned_partitions=given, **more))


OLD, NEW = bytes(15) + b"\1", bytes(15) + b"\2"  # processes
TASK, OTHER = TaskId(0, 0), TaskId(0, 1)
SPEAKS_11 = subscription(11, 11)
DOWN = AssignorError.SHUTDOWN_REQUESTED
INCOMPLETE = AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA
UPGRADING: Sequence[Member] = (
    (
        "one",
        subscription(
            2,
            process_id=OLD,
            endpoint="old:1",
            offset_sums={TASK: RUNNING, OTHER: OFFSET_UNKNOWN},
        ),
        assignment((0,), 2, active=(TASK,), standby={OTHER: (TopicPartition("t", 1),)}),
    ),
    (
        "two",
        subscription(11, 11, process_id=NEW, tags={"zone": "a"}),
        assignment((1,), 2, active=(OTHER,)),
    ),
)
"""An old process with an active task and a copy, and a new one that speaks as it does."""
GROUPS: Mapping[str, Sequence[Member]] = {
    "upgrading": UPGRADING,
    "upgrading-unread": UPGRADING,
    "upgrading-lost": UPGRADING,
    "warming-up": (
        (
            "one",
            subscription(
                11,
                11,
                process_id=OLD,
                offset_sums={TaskId(1, number): RUNNING for number in range(3)},
            ),
            assignment((0,), 11, active=(TaskId(1, 0),), supported=11, next_rebalance_ms=1_000),
        ),
        (
            "two",
            subscription(11, 11, process_id=NEW, offset_sums={TaskId(1, 0): 7}),
            assignment(
                (1,),
                11,
                active=(TaskId(1, 1),),
                supported=11,
                standby={TaskId(1, 0): (TopicPartition("t", 0),)},
            ),
        ),
    ),
    # two instances, one of them from a copy of the other's state directory
    "copied": (
        (
            "one",
            subscription(11, 11, process_id=OLD, endpoint="here:1"),
            assignment((0,), 11, active=(TASK,), supported=11),
        ),
        (
            "two",
            subscription(11, 11, process_id=OLD, endpoint="there:1"),
            assignment((1,), 11, active=(OTHER,), supported=11),
        ),
    ),
    # an unknown version; metadata that cannot be read, and an error
    "odd": (
        ("one", subscription(12, 12), assignment((0,), 2, active=(TASK,))),
        ("two", b"\0", assignment((), 11, supported=11, error=INCOMPLETE)),
    ),
    "shutting-down": (
        (
            "one",
            subscription(9, 11, process_id=OLD, error=DOWN),
            assignment((), 9, supported=11, error=DOWN),
        ),
    ),
    "control-characters": (
        (
            "one",
            subscription(11, 11, process_id=NEW, endpoint="evil\x1b[2J:1", tags={"zone": "a\nb"}),
            assignment((0, 1), 11, active=(TASK, OTHER), next_rebalance_ms=2**62),
        ),
    ),
    "lost-topic": (("one", SPEAKS_11, assignment((0,), 11, topic="gone", active=(TASK,))),),
    "later-version": (
        (
            "one",
            subscription(12, 12),
            encode(ConsumerProtocolAssignment(user_data=b"\0\0\0\x0c" * 2)),
        ),
    ),
    "fresh": (("one", SPEAKS_11, assignment((0,), 11, active=(TASK,))),),
    "range": (("one", b"", b""),),
    "connect": (("one", b"", encode(ConsumerProtocolAssignment())),),
    # a leader of a library that leaves the user data out
    "no-user-data": (
        (
            "one",
            encode(ConsumerProtocolSubscription(topics=("t",)), 0)[:-4],
            assigned((0,))[:-4],
        ),
    ),
    "reading": (
        ("one", encode(ConsumerProtocolSubscription(topics=("t", "u"))), assigned((0, 7))),
    ),
}
"""Names of groups in transcripts -> their members."""
PROTOCOLS = {
    "range": ("range", "consumer"),
    "connect": ("sessioned", "connect"),
    "no-user-data": ("range", "consumer"),
    "reading": ("range", "consumer"),
}
"""Names of groups -> protocol and protocol type, where it is not Kafka Streams'."""


def ask_to_join(
    cluster: Cluster, group_id: str, instance_id: str, metadata: bytes
) -> JoinGroupResponse:
    protocol, protocol_type = PROTOCOLS.get(group_id, ("stream", "consumer"))
    result: JoinGroupResponse = cluster.call(
        JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=(JoinGroupRequestProtocol(name=protocol, metadata=metadata),),
        ),
        coordinator=group_id,
    )
    return result


@contextmanager
def group(clusters: Mapping[str, Cluster], group_id: str) -> Iterator[None]:
    """The stable group of that name in `GROUPS`. clusters: clients by client id."""
    members = GROUPS[group_id]
    with ThreadPoolExecutor() as threads:
        asked = [
            threads.submit(ask_to_join, clusters[client], group_id, f"seat-{number}", metadata)
            for number, (client, metadata, _) in enumerate(members)
        ]
        joined = [each.result() for each in asked]
    ids = [each.member_id for each in joined]
    assert {each.generation_id for each in joined} == {1}
    given = tuple(
        SyncGroupRequestAssignment(member_id=member, assignment=assignment)
        for member, (_, _, assignment) in zip(ids, members, strict=True)
    )
    sync = SyncGroupRequest(
        group_id=group_id, generation_id=1, member_id=joined[0].leader, assignments=given
    )
    assert clusters["one"].call(sync, coordinator=group_id, version=2).error_code == Code.NONE
    yield
    leaving = tuple(MemberIdentity(member_id=member) for member in ids)
    leave = LeaveGroupRequest(group_id=group_id, members=leaving)
    clusters["one"].call(leave, coordinator=group_id)
