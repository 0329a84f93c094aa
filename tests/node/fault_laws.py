"""What holds after any step that broke off: whatever was acknowledged is there, and whatever was
refused is not.
"""

from collections import Counter
from typing import Any

from apportion.coord.placement import shard_of
from apportion.errors import Code
from apportion.machine import Gone, Tick
from apportion.node.partitions import TOPICS as TOPICS_DIRECTORY
from apportion.wire.batch import decode_batch, split_batches
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.node import kit
from tests.node.config_requests import describe, told
from tests.node.fault_histories import (
    ALTERED,
    EXPIRING,
    GROUPS,
    LEAST_ALTERED,
    PARTITIONS,
    RETENTION_MS,
    SMALL,
    TOPICS,
    committed,
)
from tests.node.topic_requests import EARLIEST, LATEST, listed

LATE = b"late"
OWN_SOURCE = {"topic": 1, "broker": 2, "group": 8}
FOR_EVER = 1 << 62


def written(history: Any, topic: str, index: int) -> tuple[int, int, dict[int, bytes]]:
    """Where a partition begins and ends, and the value of every record that can be read there, by
    offset.
    """
    (start, _), (end, _) = (listed(history, when, topic, index) for when in (EARLIEST, LATEST))
    value_by_offset: dict[int, bytes] = {}
    offset = start
    while offset < end:
        answer = history.call(kit.fetch(topic, offset, index), 12).responses[0].partitions[0]
        assert answer.error_code == Code.NONE
        records = [
            record
            for view in split_batches(answer.records)
            for record in decode_batch(view)
            if record.offset >= start
        ]
        assert (
            [record.offset for record in records]
            == list(range(offset, offset + len(records)))
            != []
        )
        value_by_offset |= {record.offset: bytes(record.value or b"") for record in records}
        offset += len(records)
    return start, end, value_by_offset


def produced(history: Any) -> tuple[dict[tuple[tuple[str, int], int], bytes], Counter[Any]]:
    """What was acknowledged, value by place and offset; and the values, by place, of which nothing
    is known.
    """
    acknowledged = {}
    possible: Counter[Any] = Counter()
    for ticket, (what, *details) in history.requests.items():
        if what != "produce":
            continue
        topic, partitions, last = details
        values = [
            ((topic, index), b"%d" % (last - len(partitions) + 1 + at))
            for at, index in enumerate(partitions)
        ]
        answer = history.answers.get(ticket)
        if answer is None or ticket in history.doubtful:
            possible.update(values)
            continue
        for (position, value), each in zip(
            values, answer.responses[0].partition_responses, strict=True
        ):
            assert each.error_code in (
                Code.NONE,
                Code.KAFKA_STORAGE_ERROR,
                Code.UNKNOWN_SERVER_ERROR,
            )
            if each.error_code == Code.NONE:
                assert (position, each.base_offset) not in acknowledged
                acknowledged[position, each.base_offset] = value
            elif not history.is_refusal_final:
                possible[position, value] += 1
    return acknowledged, possible


def deleted(history: Any) -> tuple[Counter[tuple[str, int]], Counter[Any]]:
    """Where each partition begins at the least, and at the most, for what its clients know."""
    least: Counter[tuple[str, int]] = Counter()
    most: Counter[Any] = Counter()
    for ticket, (what, *details) in history.requests.items():
        if what != "delete":
            continue
        topic, index, offset, _ = details
        answer = history.answers.get(ticket)
        if answer is None or ticket in history.doubtful:
            most[topic, index] = max(most[topic, index], FOR_EVER if offset < 0 else offset)
            continue
        [each] = answer.topics[0].partitions
        codes = (
            Code.NONE,
            Code.KAFKA_STORAGE_ERROR,
            Code.UNKNOWN_SERVER_ERROR,
            Code.OFFSET_OUT_OF_RANGE,
        )
        assert each.error_code in codes
        if each.error_code == Code.NONE:
            least[topic, index] = max(least[topic, index], each.low_watermark)
        elif not history.is_refusal_final:
            most[topic, index] = max(most[topic, index], FOR_EVER if offset < 0 else offset)
    return least, most


def check_records(history: Any) -> None:
    """What was acknowledged is there once, and of what was refused nothing, but where only the
    answer was lost.

    Of records that were deleted, or may have expired, nothing is left, and of no others.
    """
    acknowledged, possible = produced(history)
    least, most = deleted(history)
    for topic in (*TOPICS, EXPIRING):
        for index in range(PARTITIONS):
            partition = topic, index
            start, _, values = written(history, topic, index)
            assert topic == EXPIRING or least[partition] <= start <= max(
                least[partition], most[partition]
            )
            kept = {
                offset: value
                for (at, offset), value in acknowledged.items()
                if at == partition and offset >= start
            }
            assert {offset: values.get(offset) for offset in kept} == kept
            others = Counter(
                (partition, value)
                for offset, value in values.items()
                if offset not in kept and value != LATE
            )
            assert not others - possible


def check_expiry(history: Any) -> None:
    """Records that have expired are gone after the next looks."""
    history.sleep(RETENTION_MS + 1)
    history.flush()
    for index in range(PARTITIONS):
        start, end, values = written(history, EXPIRING, index)
        assert (start, values) == (end, {})


def check_offsets(history: Any) -> None:
    """The last acknowledged commit counts, or one behind it of which nothing is known."""
    request, version = committed(history, GROUPS)
    offsets_read = {
        (group.group_id, topic.name): topic.partitions[0].committed_offset
        for group in history.call(request, version).groups
        for topic in group.topics
    }
    for (group, topic), offset in offsets_read.items():
        allowed = {-1}
        for ticket, (what, *details) in history.requests.items():
            if (what, *details[:2]) != ("commit", group, topic):
                continue
            answer = history.answers.get(ticket)
            is_done = answer is not None and answer.topics[0].partitions[0].error_code == Code.NONE
            if is_done and ticket not in history.doubtful:
                allowed = {details[2]}
            elif answer is None or ticket in history.doubtful or not history.is_refusal_final:
                allowed.add(details[2])
        assert offset in allowed, (group, topic)


def check_settings(history: Any) -> None:
    """The last acknowledged alteration counts, or one behind it of which nothing is known.

    Shards and logs obey what clients are told.
    """
    for kind, name in (("group", "c"), ("topic", "t"), ("broker", "1")):
        key = ALTERED[kind]
        entries = told(history.call(describe(kind, name, key)))
        [entry] = entries.values()
        allowed: set[str | None] = {None}
        for ticket, (what, *details) in history.requests.items():
            if (what, *details[:2]) != ("alter", kind, name):
                continue
            value = str(LEAST_ALTERED + details[2])
            answer = history.answers.get(ticket)
            is_done = answer is not None and answer.responses[0].error_code == Code.NONE
            if is_done and ticket not in history.doubtful:
                allowed = {value}
            elif answer is None or ticket in history.doubtful or not history.is_refusal_final:
                allowed.add(value)
        assert (entry[0] if entry[1] == OWN_SOURCE[kind] else None) in allowed, (kind, name)
        if kind == "group":
            for _, shard in history.node.shards():
                obeyed = shard.own_settings.get(name, shard.settings)
                assert str(obeyed.group_consumer_session_timeout_ms) == entry[0]
        if kind == "topic":
            for partition in history.node.partitions():
                if partition.topic.name == name:
                    assert str(partition.log.settings.segment_ms) == entry[0]


def check_waiting(history: Any) -> None:
    """Who waits for records has them when they are on the disk."""
    for topic in TOPICS:
        for index in range(PARTITIONS):
            end = written(history, topic, index)[1]
            fetched = FetchPartition(partition=index, fetch_offset=end, partition_max_bytes=1000)
            request = FetchRequest(
                max_wait_ms=5_000,
                min_bytes=1,
                topics=(FetchTopic(topic=topic, partitions=(fetched, fetched)),),
            )
            ticket = history.ask(request, 12)
            assert ticket not in history.answers
            stored = history.call(kit.produce(topic, kit.batch(LATE), index), 12)
            assert stored.responses[0].partition_responses[0].error_code == Code.NONE
            assert len(history.answers[ticket].responses[0].partitions[0].records) > 0


def check_deleted_topics(history: Any) -> None:
    """Of a topic whose deletion was acknowledged no file is left."""
    directories = history.disk.list_dir(TOPICS_DIRECTORY)
    for ticket, (what, *_) in history.requests.items():
        answer = history.answers.get(ticket)
        if what == "drop" and answer is not None:
            [each] = answer.responses
            assert each.error_code != Code.NONE or each.topic_id.hex() not in directories


FAILED, ASK_AGAIN = "UNKNOWN_SERVER_ERROR", "COORDINATOR_NOT_AVAILABLE"
"""What the request is told that a step broke off with, at which clients give up; and what a
bystander is told.
"""


def check_bystanders(history: Any) -> None:
    """Of all who are answered by a step that broke off, one at the most is told that it has failed;
    others ask again.

    Those others are of one shard, unless the act was a request over several groups, which asks
    several shards at once.
    """
    for event, replies in history.broken_steps:
        assert sum(FAILED in repr(reply.body) for reply in replies) <= 1
        asked_again = {
            history.requests[reply.ticket] for reply in replies if ASK_AGAIN in repr(reply.body)
        }
        groups = {
            details[0]
            for what, *details in asked_again
            if what in ("join", "sync", "leave", "commit")
        }
        if type(event) in (Gone, Tick):
            assert (
                len({shard_of(group, SMALL["offsets.topic.num.partitions"]) for group in groups})
                <= 1
            )


def check(history: Any) -> None:
    """Everybody is answered, and nothing is other than it was told."""
    assert [
        details
        for ticket, details in history.requests.items()
        if ticket not in history.answers and ticket not in history.gone
    ] == []
    check_bystanders(history)
    check_records(history)
    check_offsets(history)
    check_settings(history)
    check_expiry(history)
    check_deleted_topics(history)
