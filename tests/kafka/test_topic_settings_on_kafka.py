"""What topics with settings store and what they lose, on a real Kafka and here: the same batches,
the same offsets.
"""

import time
from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any

import pytest

from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from apportion.wire.batch import (
    HEADER_BYTES,
    Record,
    decode_batch,
    encode_batch,
    encode_records,
    read_header,
    split_batches,
)
from apportion.wire.messages.produce import PartitionProduceResponse
from tests.kafka.differential.side import Side
from tests.kafka.differential.wrong import offsets_at
from tests.messages import request
from tests.node.topic_requests import claiming, from_crc

NOW_MS = int(time.time() * 1000)
NOT_YET = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.LEADER_NOT_AVAILABLE, Code.NOT_LEADER_OR_FOLLOWER)
"""What a real Kafka says for a moment after a topic was made."""
YOUNGEST, EARLIEST, LATEST = -3, -2, -1
WITHIN_S = 60
LOOKS: dict[str, Any] = {"log.retention.check.interval.ms": "500"}
SMALL = {"segment.bytes": "1048576"}
APPEND = {"message.timestamp.type": "LogAppendTime"}
STORED = {
    "appended": APPEND,
    "squeezed": {"compression.type": "zstd"},
    "loosened": {"compression.type": "uncompressed"},
    "both": APPEND | {"compression.type": "gzip"},
    "keyed": {"cleanup.policy": "compact"},
}
CLAIMED = {
    "claimed": {},
    "claimed-squeezed": {"compression.type": "zstd"},
    "claimed-young": {"message.timestamp.before.max.ms": "60000"},
}
"""Topics for batches whose headers do not say what their records say."""
NARROW = {"max.message.bytes": "1000"}
BOUNDED = {
    "narrow": NARROW,
    "narrow-loosened": NARROW | {"compression.type": "uncompressed"},
    "narrow-squeezed": NARROW | {"compression.type": "zstd"},
    "narrow-keyed": NARROW | {"cleanup.policy": "compact"},
    "narrow-appended": NARROW | APPEND,
    "short": SMALL | {"max.message.bytes": "3000000"},
    "short-loosened": SMALL | {"max.message.bytes": "3000000", "compression.type": "uncompressed"},
    "short-and-narrow": SMALL | NARROW | {"compression.type": "uncompressed"},
}
"""Bounds of what one batch may take up, and what may change its size."""
ALIKE, VARIED = bytes(4_000_000), Random(1).randbytes(4_000_000)
"""Values that compression makes small, and values that it does not."""
EXPIRING = {
    "aged": {"retention.ms": "3000"},
    "aged-in-part": {"retention.ms": "86400000"} | SMALL,
    "sized": {"retention.bytes": "2000000"} | SMALL,
    "emptied": {"retention.bytes": "0"},
    "compacted": {"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "0"},
    "compacted-aged": {"cleanup.policy": "compact,delete", "retention.ms": "1"},
    "policyless": {"cleanup.policy": "", "retention.ms": "1", "retention.bytes": "0"},
    "for-ever": {"retention.ms": "-1"},
    "rolled": {"segment.ms": "1000", "retention.bytes": "900"},
    "appended-aged": APPEND | {"retention.ms": "3000"},
}
LEFT = {
    "aged": 1,
    "aged-in-part": 2,
    "sized": 2,
    "emptied": 1,
    "compacted": 0,
    "compacted-aged": 1,
    "policyless": 0,
    "for-ever": 0,
    "rolled": 2,
    "appended-aged": 1,
}
"""Where each topic begins in the end."""


class TopicsSide(Side):
    """One broker with topics that have settings."""

    def create(self, topics: dict[str, dict[str, str]]) -> None:
        """Make a topic for each of these settings."""
        made = [
            {
                "name": name,
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": [{"name": key, "value": value} for key, value in config.items()],
            }
            for name, config in topics.items()
        ]
        answers = self.call(request("CreateTopics", topics=made, timeout_ms=30_000), 7).topics
        assert [(each.name, each.error_code) for each in answers] == [(name, 0) for name in topics]

    def produce(self, topic: str, batch: bytes) -> PartitionProduceResponse:
        """The answer for one batch, once the topic is there."""
        data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
        asked = request("Produce", acks=-1, timeout_ms=30_000, topic_data=data)
        response: PartitionProduceResponse
        while True:
            response = self.call(asked, 12).responses[0].partition_responses[0]
            if response.error_code not in NOT_YET:
                return response
            time.sleep(0.05)

    def fetch(self, topic: str) -> list[memoryview]:
        """Every batch of the topic."""
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 24}
        topics = [{"topic": topic, "partitions": [part]}]
        asked = request("Fetch", max_wait_ms=100, min_bytes=1, max_bytes=1 << 24, topics=topics)
        return list(split_batches(self.call(asked, 12).responses[0].partitions[0].records))

    def listed(self, topic: str, when: int) -> tuple[int, int]:
        """Offset and timestamp."""
        asked = offsets_at(when, topic)(b"")
        [partition] = self.call(asked, 10).topics[0].partitions
        assert partition.error_code == 0
        return partition.offset, partition.timestamp


@pytest.fixture(scope="module")
def sides(standing: Callable[[str], RealKafka]) -> Iterator[list[TopicsSide]]:
    """Our broker and a real one that look often for what has expired."""
    kafka = standing("expiring")
    with EmbeddedBroker(**LOOKS) as broker:
        both = [TopicsSide("apportion", broker.bootstrap), TopicsSide("Kafka", kafka.bootstrap)]
        for side in both:
            side.create(STORED | CLAIMED | BOUNDED | EXPIRING)
        yield both
        for side in both:
            side.close()


def stored(side: TopicsSide, topic: str) -> list[Any]:
    """What is stored of five batches, as plain values; a time that the broker gave is the word
    "append".

    What is found by time follows from that on each side alone: two appends may be of one
    millisecond.
    """
    shown: list[Any]
    records_stored: list[Record]
    shown, append_times, records_stored = [], [], []
    for codec in range(5):
        records = [
            Record(at, NOW_MS - 5000 + at % 2 * 300, b"k%d" % at, b"v" * 50, (("h", b"x"),))
            for at in range(3)
        ]
        answer = side.produce(
            topic,
            encode_records(records, base_offset=0, attributes=codec, producer=(4711, 0, 3 * codec)),
        )
        append_times.append(answer.log_append_time_ms)
        shown.append((answer.error_code, answer.base_offset, answer.log_append_time_ms > 0))
    assert [each[0] for each in shown] == [Code.NONE] * 5
    for view, append_ms in zip(side.fetch(topic), append_times, strict=True):
        header = read_header(view)
        times: dict[int, Any] = {append_ms: "append"}
        shown.append(
            header._replace(
                crc=0,
                # another library compresses otherwise
                size_bytes=0 if header.compression else header.size_bytes,
                max_timestamp_ms=times.get(header.max_timestamp_ms, header.max_timestamp_ms),
            )
        )
        records = decode_batch(view)
        records_stored += records
        shown += [
            each._replace(timestamp_ms=times.get(each.timestamp_ms, each.timestamp_ms))
            for each in records
        ]
    times_ms = {each.timestamp_ms for each in records_stored}
    looked_up = {YOUNGEST: max(times_ms)} | {
        time_ms: time_ms for time_ms in (NOW_MS - 6000, NOW_MS - 4900, *times_ms)
    }
    assert {when: side.listed(topic, when) for when in looked_up} == {
        when: next(
            (each.offset, each.timestamp_ms)
            for each in records_stored
            if each.timestamp_ms >= time_ms
        )
        for when, time_ms in looked_up.items()
    }
    return shown


@pytest.mark.parametrize("topic", sorted(STORED))
def test_the_same_batches_are_stored(sides: list[TopicsSide], topic: str) -> None:
    ours, theirs = (stored(side, topic) for side in sides)
    assert ours == theirs


def claimed(side: TopicsSide, topic: str) -> tuple[list[Any], list[tuple[int, list[Record]]]]:
    """What becomes of batches whose headers speak of another time than their records, and of a
    record that cannot be read.
    """
    results: list[Any]
    results, hour_ms = [], 3_600_000
    times = (
        (NOW_MS - 500, NOW_MS - 900),
        (NOW_MS, NOW_MS + 10 * hour_ms),
        (NOW_MS - 10 * hour_ms, NOW_MS),
    )
    for codec, (first_ms, second_ms), claimed_ms in product(
        (0, 1, 4), times, (NOW_MS, NOW_MS - 700, NOW_MS + 9 * hour_ms, -1)
    ):
        records = [Record(0, first_ms, b"k", b"v"), Record(1, second_ms, b"k", b"v")]
        batch = claiming(encode_records(records, base_offset=0, attributes=codec), claimed_ms)
        answer = side.produce(topic, batch)
        results.append(
            (
                answer.error_code,
                answer.base_offset,
                [each.batch_index for each in answer.record_errors],
            )
        )
    torn = bytearray(encode_batch([(b"k", b"v", ())], timestamp_ms=NOW_MS))
    torn[HEADER_BYTES] = 99
    from_crc(torn)
    results.append(side.produce(topic, bytes(torn)).error_code)
    return results, [
        (read_header(view).max_timestamp_ms, decode_batch(view)) for view in side.fetch(topic)
    ]


@pytest.mark.parametrize("topic", sorted(CLAIMED))
def test_timestamps_of_batch_headers_count_alike(sides: list[TopicsSide], topic: str) -> None:
    ours, theirs = (claimed(side, topic) for side in sides)
    assert ours == theirs


def bounded(side: TopicsSide, topic: str) -> list[tuple[int, int, int, int, tuple[Any, ...]]]:
    """What is said of batches around the bounds of the topic, in and out of compression."""
    results = []
    for size_bytes, codec, values in product(
        (1000, 1001, 1 << 20, (1 << 20) + 1, 3_000_001), (0, 1, 4), (ALIKE, VARIED)
    ):
        near = values[: size_bytes - 100]
        frame_bytes = len(encode_batch([(b"k", near, ())], timestamp_ms=NOW_MS)) - len(near)
        records = [(b"k", values[: size_bytes - frame_bytes], ())]
        assert len(encode_batch(records, timestamp_ms=NOW_MS)) == size_bytes
        answer = side.produce(topic, encode_batch(records, timestamp_ms=NOW_MS, compression=codec))
        results.append(
            (size_bytes, codec, answer.error_code, answer.base_offset, answer.record_errors)
        )
    return results


@pytest.mark.parametrize("topic", sorted(BOUNDED))
def test_the_same_batches_are_too_large(sides: list[TopicsSide], topic: str) -> None:
    ours, theirs = (bounded(side, topic) for side in sides)
    assert ours == theirs


def fill(side: TopicsSide) -> None:
    """Every topic that may lose records has some."""
    old_ms = NOW_MS - 10 * 86_400_000
    for name in ("aged", "emptied", "compacted", "compacted-aged", "policyless", "appended-aged"):
        assert (
            side.produce(name, encode_batch([(b"k", b"v", ())], timestamp_ms=NOW_MS)).error_code
            == 0
        )
    side.produce("for-ever", encode_batch([(b"k", b"v", ())], timestamp_ms=1))
    for time_ms in (old_ms, old_ms, NOW_MS, old_ms):
        side.produce(
            "aged-in-part", encode_batch([(b"k", b"v" * 600_000, ())], timestamp_ms=time_ms)
        )
    for _ in range(6):
        side.produce("sized", encode_batch([(b"k", b"v" * 600_000, ())], timestamp_ms=NOW_MS))
    for late_ms in (0, 800, 1600, 2400):
        side.produce(
            "rolled", encode_batch([(b"k", b"v" * 400, ())], timestamp_ms=NOW_MS + late_ms)
        )


def test_the_same_records_expire_after_3_s(sides: list[TopicsSide]) -> None:
    for side in sides:
        fill(side)
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end and any(
        side.listed(name, EARLIEST)[0] != LEFT[name] for side in sides for name in LEFT
    ):
        time.sleep(0.2)
    ours, theirs = (
        {
            name: [side.listed(name, when) for when in (EARLIEST, LATEST, YOUNGEST)]
            for name in EXPIRING
        }
        for side in sides
    )
    assert ours == theirs
    assert {name: batches[0][0] for name, batches in ours.items()} == LEFT
    again = [
        side.produce(
            "aged", encode_batch([(b"k", b"v", ())], timestamp_ms=NOW_MS + 60_000)
        ).base_offset
        for side in sides
    ]
    assert again == [1, 1]
