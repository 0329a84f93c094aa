"""Produce, Fetch, ListOffsets and OffsetForLeaderEpoch with something wrong in each request."""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from apportion.wire.batch import encode_batch
from tests.kafka.differential.wrong import (
    GOOD,
    NO_TOPIC,
    NOW_MS,
    OFFSETS_TOPIC,
    STRANGE_ID,
    ZERO_ID,
    Case,
    asking,
    batch,
    offsets_at,
    patched,
    produce,
)
from tests.messages import request


def old_message(magic: int) -> bytes:
    """A message of an old format."""
    body = (
        struct.pack(">bb", magic, 0)
        + (struct.pack(">q", 0) if magic else b"")
        + struct.pack(">i1si1s", 1, b"k", 1, b"v")
    )
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def produces() -> Iterator[Case]:
    """Produce, to the wrong place or in the wrong way."""
    good = batch()
    yield Case("produce to an unknown topic", 12, produce(good, topic=NO_TOPIC))
    yield Case("produce to a bad name", 12, produce(good, topic="bad name"))
    yield Case("produce to an unknown id", 13, produce(good, topic_id=STRANGE_ID))
    yield Case("produce to the zero id", 13, produce(good, topic_id=ZERO_ID))
    for version in (3, 12, 13):
        yield Case("produce to an unknown partition", version, produce(good, partition=99))
    yield Case("produce to a negative partition", 12, produce(good, partition=-1))
    for acks in (2, -2):
        yield Case(f"produce with acks {acks}", 12, produce(good, acks=acks))
    yield Case("produce a topic of the broker", 12, produce(good, topic=OFFSETS_TOPIC))
    yield Case("produce in version 2", 2, produce(good))


def batches() -> Iterator[Case]:
    """Produce, with something wrong in the bytes."""
    good = batch()
    yield Case("produce nothing", 12, produce(b""))
    yield Case("produce null", 12, produce(None))
    yield Case("produce a few bytes", 12, produce(b"12345"))
    yield Case("produce a batch cut short", 12, produce(good[:-3]))
    yield Case("produce a batch cut in its header", 12, produce(good[:40]))
    yield Case("produce a batch and a byte", 12, produce(good + b"\0", partition=2))
    yield Case("produce two batches", 12, produce(good + good))
    yield Case("produce a wrong CRC", 12, produce(good[:-1] + b"\xff"))
    for magic in (0, 1):
        yield Case(f"produce format {magic}", 9, produce(old_message(magic)))
    yield Case("produce an unknown format", 12, produce(patched(good, 16, b"\3")))
    yield Case("produce a wrong count", 12, produce(patched(good, 57, struct.pack(">i", 7))))
    yield Case(
        "produce a wrong last offset delta", 12, produce(patched(good, 23, struct.pack(">i", 7)))
    )
    yield Case(
        "produce no record",
        12,
        produce(patched(patched(good, 57, struct.pack(">i", 0)), 23, struct.pack(">i", -1))),
    )
    yield Case("produce a marker", 12, produce(patched(good, 21, struct.pack(">h", 0x20))))
    yield Case(
        "produce an unknown compression", 12, produce(patched(good, 21, struct.pack(">h", 6)))
    )
    yield Case(
        "produce too much",
        12,
        produce(encode_batch([(b"k", b"v" * 1_100_000, ())], timestamp_ms=0)),
    )
    yield Case("produce from the future", 12, produce(batch(timestamp_ms=NOW_MS + 10 * 86_400_000)))
    yield Case("produce from long ago", 12, produce(batch(timestamp_ms=1), partition=1))
    yield Case("produce zstd in an old version", 6, produce(batch(compression=4)))
    yield Case(
        "produce of a transaction without one",
        12,
        produce(patched(good, 21, struct.pack(">h", 0x10))),
    )


def sequences() -> Iterator[Case]:
    """Idempotent producers, whose numbers go on, repeat, jump and grow old."""

    def numbered(
        sequence: int, epoch: int = 0, producer: int = 4711, partition: int = 1
    ) -> Callable[[bytes], Any]:
        return produce(
            batch(2, producer_id=producer, producer_epoch=epoch, base_sequence=sequence),
            partition=partition,
        )

    for name, asked in (
        ("first, not from 0", numbered(5, producer=4712)),
        ("first", numbered(0)),
        ("next", numbered(2)),
        ("the same again", numbered(2)),
        ("the first again", numbered(0)),
        ("a gap", numbered(9)),
        ("an overlap", numbered(3)),
        ("a new epoch, not from 0", numbered(4, epoch=1)),
        ("a new epoch", numbered(0, epoch=1)),
        ("an old epoch", numbered(4, epoch=0)),
        ("no epoch", numbered(0, epoch=-1, producer=4713, partition=2)),
        ("no sequence", numbered(-1, producer=4713)),
    ):
        yield Case(f"idempotent: {name}", 12, asked)


def fetches() -> Iterator[Case]:
    """Fetch."""

    def fetch(
        *,
        topic: str = GOOD,
        topic_id: bytes | None = None,
        whole: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Any:
        def made(good: bytes) -> Any:
            asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000} | facts
            wanted = {
                "topic": topic,
                "topic_id": good if topic_id is None else topic_id,
                "partitions": [asked],
            }
            fields = {"max_wait_ms": 10, "min_bytes": 1, "topics": [wanted]} | (whole or {})
            return request("Fetch", **fields)

        return made

    for version in (4, 11, 12):
        yield Case("fetch an unknown topic", version, fetch(topic=NO_TOPIC))
        yield Case("fetch behind the end", version, fetch(fetch_offset=10**6))
    for version in (13, 18):
        yield Case("fetch an unknown id", version, fetch(topic_id=STRANGE_ID))
        yield Case("fetch the zero id", version, fetch(topic_id=ZERO_ID))
        yield Case("fetch an unknown partition", version, fetch(partition=99))
        yield Case("fetch behind the end", version, fetch(fetch_offset=10**6))
    yield Case("fetch", 18, fetch())
    yield Case("fetch the end", 18, fetch(fetch_offset=2))
    yield Case("fetch one behind the end", 18, fetch(fetch_offset=3))
    yield Case("fetch before the start", 18, fetch(fetch_offset=-1))
    yield Case("fetch a negative partition", 18, fetch(partition=-1))
    yield Case("fetch no bytes of a partition", 18, fetch(partition_max_bytes=0))
    yield Case("fetch no bytes", 18, fetch(whole={"max_bytes": 0}))
    yield Case("fetch for a later leader", 18, fetch(current_leader_epoch=5))
    yield Case("fetch for this leader", 18, fetch(current_leader_epoch=0))
    yield Case("fetch after a later epoch", 18, fetch(last_fetched_epoch=5))
    yield Case(
        "fetch in a session that is none", 18, fetch(whole={"session_id": 77, "session_epoch": 3})
    )
    yield Case("fetch in no session, later", 18, fetch(whole={"session_id": 0, "session_epoch": 3}))
    yield Case(
        "close a session that is none", 18, fetch(whole={"session_id": 77, "session_epoch": -1})
    )
    yield Case("fetch nothing", 18, asking("Fetch", max_wait_ms=10, min_bytes=1, topics=()))
    yield Case("fetch at an unknown isolation level", 18, fetch(whole={"isolation_level": 7}))


def list_offsets() -> Iterator[Case]:
    """ListOffsets and OffsetForLeaderEpoch."""

    yield Case("offsets of an unknown topic", 10, offsets_at(-1, NO_TOPIC))
    yield Case("offsets of a bad name", 10, offsets_at(-1, "bad name"))
    yield Case("offsets of an unknown partition", 10, offsets_at(-1, partition_index=99))
    yield Case("offsets of a negative partition", 10, offsets_at(-1, partition_index=-1))
    yield Case("offsets for a later leader", 10, offsets_at(-1, current_leader_epoch=5))
    yield Case("offsets of one partition twice", 10, offsets_at(-1, times=2))
    for timestamp in range(-8, 1):
        for version in (1, 6, 7, 8, 9, 10, 11):
            yield Case(f"offsets at {timestamp}", version, offsets_at(timestamp))
    yield Case("offsets at a time", 10, offsets_at(NOW_MS))
    yield Case("offsets after all times", 10, offsets_at(2**62))

    def epochs(*, topic: str = GOOD, **facts: Any) -> Any:
        partition = {"partition": 0, "leader_epoch": 0} | facts
        topics = [{"topic": topic, "partitions": [partition]}]
        return asking("OffsetForLeaderEpoch", replica_id=-1, topics=topics)

    yield Case("end of the epoch", 4, epochs())
    yield Case("end of a later epoch", 4, epochs(leader_epoch=9))
    yield Case("end of an impossible epoch", 4, epochs(leader_epoch=-1))
    yield Case("end of an epoch, for a later leader", 4, epochs(current_leader_epoch=9))
    yield Case("end of an epoch of an unknown topic", 4, epochs(topic=NO_TOPIC))
    yield Case("end of an epoch of an unknown partition", 4, epochs(partition=99))


RECORD_CASES = [*produces(), *batches(), *sequences(), *fetches(), *list_offsets()]
