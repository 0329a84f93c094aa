"""The coordinator shard alone: a join to a very large group, recovery, a steady heartbeat."""

from itertools import cycle, islice
from statistics import median
from time import perf_counter, process_time
from typing import Any

from apportion.coord import records
from apportion.coord.config import GroupSettings
from apportion.coord.records import Append, CoordinatorRecord
from apportion.coord.shard import Shard
from apportion.machine import Arrived, Caller, Compute, Computed, Instant, Reply, Ticket
from apportion.topics import Topic, Topics
from apportion.wire.codec import write_onto
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
from apportion.wire.records.codec import decode_key, decode_value, encode_key, encode_value
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    OffsetCommitValue,
    RecordTopicPartitions,
)

MEMBERS, TOPICS, PARTITIONS = 10_000, 100, 10_000
RECORDS = 1_000_000
NOW = Instant(0, 1_700_000_000_000)
CALLER = Caller("bench", "/127.0.0.1")
SETTINGS = GroupSettings(group_consumer_assignment_interval_ms=0)  # each join has its target
JOIN_FIELDS: dict[str, Any] = {
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ("t001",),
    "topic_partitions": (),
}


def large_cluster() -> Topics:
    """Return topics with 1,000,000 partitions in all."""
    return Topics(
        Topic(f"t{number:03}", number.to_bytes(16, "big"), PARTITIONS)
        for number in range(1, TOPICS + 1)
    )


def beat(shard: Shard, member_id: str, epoch: int, **facts: Any) -> list[Any]:
    """Return the actions of the shard for one heartbeat."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **facts
    )
    return answered(shard, Arrived(Ticket(1), request, 1, CALLER, bytes(16)))


def answered(shard: Shard, request: Arrived) -> list[Any]:
    """Return the actions of the shard for a request that is answered at once, as a node does it."""
    actions = shard.step(request, NOW)
    shard.waiting.remove(request.ticket)
    return actions


def join(shard: Shard, member_id: str) -> float:
    """Return the seconds from the first heartbeat of a member to the encoded records of it."""
    names = tuple(topic.name for topic in shard.topics)
    start = perf_counter()
    actions = beat(
        shard,
        member_id,
        0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=names,
        topic_partitions=(),
    )
    for compute in [action for action in actions if isinstance(action, Compute)]:
        # Beside the shard in a broker, of which `bench_large_group.py` measures each step.
        actions += shard.step(Computed(compute.computation, compute.computation.run()), NOW)
    encoded = [
        record for action in actions if isinstance(action, Append) for record in action.encoded()
    ]
    seconds = perf_counter() - start
    assert len(encoded) >= 4
    return seconds


def encoded_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record as they are in the log."""
    return encode_key(record.key), None if record.value is None else encode_value(record.value)


def retargets() -> tuple[float, float]:
    """Return milliseconds: of the first target of a group of 10,000, and of one more join."""
    topics = large_cluster()
    shard = Shard(SETTINGS, topics)
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id=CALLER.client_id,
        client_host=CALLER.host,
        subscribed_topic_names=tuple(topic.name for topic in topics),
        subscribed_topic_regex="",
        rebalance_timeout_ms=60_000,
        server_assignor=None,
    )
    for number in range(MEMBERS - 1):
        shard.replay(records.member_metadata("g", f"member-{number:05}", metadata))
    shard.loaded(NOW)
    first = join(shard, "member-first")
    return first * 1e3, median(join(shard, f"member-new-{number}") for number in range(5)) * 1e3


def log() -> list[tuple[bytes, bytes | None]]:
    """Return 1,000,000 records of 200 groups: four in five are offsets, the others of members.

    The members are reassigned all the time.
    """
    topic = RecordTopicPartitions(topic_id=bytes(16), partitions=tuple(range(10)))
    moves: list[CoordinatorRecord] = []
    offsets: list[CoordinatorRecord] = []
    for number in range(200):
        group_id = f"group-{number:03}"
        moves.append(records.group_epoch(group_id, number + 1, 7))
        moves.append(records.assignment_epoch(group_id, number + 1, NOW.wall_ms))
        for index in range(10):
            member_id = f"member-{index}"
            owned = RecordTopicPartitions(
                topic_id=bytes(16),
                partitions=tuple(range(index * 10, index * 10 + 10)),
                assignment_epochs=(number,) * 10,
            )
            metadata = ConsumerGroupMemberMetadataValue(
                instance_id=None, rack_id=None, subscribed_topic_names=("t",), server_assignor=None
            )
            current = ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=number + 1, previous_member_epoch=number, assigned_partitions=(owned,)
            )
            moves.append(records.member_metadata(group_id, member_id, metadata))
            moves.append(
                records.target_assignment(group_id, member_id, [(topic.topic_id, owned.partitions)])
            )
            moves.append(records.current_assignment(group_id, member_id, current))
        offsets += [
            records.offset_commit(
                group_id,
                "t",
                index,
                OffsetCommitValue(
                    offset=number, commit_timestamp=NOW.wall_ms, topic_id=bytes(15) + b"t"
                ),
            )
            for index in range(100)
        ]
    written = (
        [encoded_record(record) for record in offsets],
        [encoded_record(record) for record in moves],
    )
    return [
        *islice(cycle(written[1]), RECORDS // 5),
        *islice(cycle(written[0]), RECORDS - RECORDS // 5),
    ]


def recovery() -> float:
    """Return the seconds in which a shard replays 1,000,000 encoded records."""
    stored = log()
    shard = Shard(SETTINGS, Topics())
    start = perf_counter()
    for key_bytes, value_bytes in stored:
        key = decode_key(key_bytes)
        shard.replay(
            CoordinatorRecord(key, None if value_bytes is None else decode_value(key, value_bytes))
        )
    shard.loaded(NOW)
    return perf_counter() - start


def steady_heartbeat() -> float:
    """Return the microseconds of one steady heartbeat in the shard, in a group of ten.

    They are processor time, so that another program on the machine is not counted.
    """
    shard = Shard(SETTINGS, Topics([Topic("t001", bytes(16), 10)]))
    shard.loaded(NOW)
    for number in range(10):
        join(shard, f"m{number}")
    for _ in range(3):  # a join owns no partition, so no revocation is pending after three rounds
        epochs = [
            beat(shard, f"m{number}", 0, **JOIN_FIELDS)[-1].body.member_epoch
            for number in range(10)
        ]
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m3", member_epoch=epochs[3])
    event = Arrived(Ticket(1), request, 1, CALLER, bytes(16))
    response = shard.steady_response_or_none(event, NOW)
    assert response is not None
    assert (response.error_code, response.heartbeat_interval_ms) == (0, 100), response
    seconds = []
    for _ in range(9):
        start = process_time()
        for _ in range(5_000):
            shard.steady_response_or_none(event, NOW)
        seconds.append((process_time() - start) / 5_000)
    return min(seconds) * 1e6


def client_target(
    members: int = 100, topics: int = 1, partitions: int = 100_000
) -> tuple[float, float, float]:
    """Return milliseconds of Prepare, with its encoding, of Install, and of the check beside it.

    They are processor time. A member computes the target of a group, and gives to each member a
    part of each topic, which has that number of partitions.
    """
    ids = [number.to_bytes(16, "big") for number in range(1, topics + 1)]
    known = Topics(Topic(f"t{at:03}", each, partitions) for at, each in enumerate(ids, 1))
    shard = Shard(SETTINGS, known)
    shard.loaded(NOW)
    facts = JOIN_FIELDS | {"subscribed_topic_names": tuple(topic.name for topic in known)}
    offer = ClientAssignor(name="bench", metadata=bytes(100))
    names = [f"m{number}" for number in range(members)]
    for name in names:
        (_, reply) = beat(shard, name, 0, client_assignors=(offer,), **facts)[-2:]
        assert reply.body.error_code == 0, reply
    request: Any = ConsumerGroupPrepareAssignmentRequest(
        group_id="g", member_id="m0", member_epoch=1
    )
    start = process_time()
    (reply,) = answered(shard, Arrived(Ticket(1), request, 0, CALLER, bytes(16)))
    assert isinstance(reply, Reply)
    assert reply.body.error_code == 0, reply
    write_onto([], reply.body, 0)
    prepare_s = process_time() - start
    request = ConsumerGroupInstallAssignmentRequest(
        group_id="g",
        member_id="m0",
        member_epoch=1,
        group_epoch=reply.body.group_epoch,
        members=tuple(
            InstalledMember(
                member_id=name,
                topic_partitions=tuple(
                    InstalledPartitions(
                        topic_id=each, partitions=tuple(range(number, partitions, members))
                    )
                    for each in ids
                ),
            )
            for number, name in enumerate(names)
        ),
    )
    start = process_time()
    (compute,) = shard.step(Arrived(Ticket(1), request, 0, CALLER, bytes(16)), NOW)
    install_s = process_time() - start
    assert isinstance(compute, Compute)
    start = process_time()
    result = compute.computation.run()
    check_s = process_time() - start
    start = process_time()
    actions = shard.step(Computed(compute.computation, result), NOW)
    install_s += process_time() - start
    reply = actions[-1]
    assert isinstance(reply, Reply)
    assert reply.body.error_code == 0, reply
    return prepare_s * 1e3, install_s * 1e3, check_s * 1e3


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    first_ms, join_ms = retargets()
    prepare_ms, install_ms, check_ms = client_target()
    return [
        {
            "name": "retarget_first_ms",
            "value": first_ms,
            "unit": "ms",
            "target": None,
            "better": "lower",
        },
        {"name": "retarget_ms", "value": join_ms, "unit": "ms", "target": None, "better": "lower"},
        {
            "name": "prepare_assignment_ms",
            "value": prepare_ms,
            "unit": "ms",
            "target": None,
            "better": "lower",
        },
        {
            "name": "install_assignment_ms",
            "value": install_ms,
            "unit": "ms",
            "target": None,
            "better": "lower",
        },
        {
            "name": "install_check_ms",
            "value": check_ms,
            "unit": "ms",
            "target": None,
            "better": "lower",
        },
        {"name": "recover_s", "value": recovery(), "unit": "s", "target": 10, "better": "lower"},
        {
            "name": "heartbeat_shard_us",
            "value": steady_heartbeat(),
            "unit": "us",
            "target": None,
            "better": "lower",
        },
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
