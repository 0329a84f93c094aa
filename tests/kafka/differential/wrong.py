"""One wrong request as a value, and what the modules `wrong_*.py` make theirs from.

Both brokers have the topic `good`: three partitions, two records in the first.

A case is a name, a version and a function of `good`'s id (or that of another topic) that makes the
request.
"""

import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import crc32c

from apportion.wire.batch import encode_batch
from tests.messages import request

GOOD = "good"
NO_TOPIC = "no-topic"
STRANGE_ID = b"no topic at all!"
ZERO_ID = bytes(16)
WAIT_MS = 5_000
NOW_MS = int(time.time() * 1000)
"""When these records were made: a real Kafka deletes what is older than a week."""
OFFSETS_TOPIC = "__consumer_offsets"


class Case(NamedTuple):
    """One request in one version."""

    name: str
    version: int
    request: Callable[..., Any]
    topic: str = GOOD


def batch(count: int = 1, **facts: Any) -> bytes:
    """A record batch of that many small records."""
    facts.setdefault("timestamp_ms", NOW_MS)
    return encode_batch([(b"k", b"v", ()) for _ in range(count)], **facts)


def patched(records: bytes, at: int, new: bytes) -> bytes:
    """The batch with some bytes changed and its CRC made right again."""
    changed = bytearray(records)
    changed[at : at + len(new)] = new
    changed[17:21] = struct.pack(">I", crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


def produce(
    records: bytes | None,
    *,
    topic: str = GOOD,
    topic_id: bytes | None = None,
    partition: int = 0,
    **facts: Any,
) -> Callable[[bytes], Any]:
    """A function of good's id: one batch for one partition."""

    def made(good: bytes) -> Any:
        data = {
            "name": topic,
            "topic_id": good if topic_id is None else topic_id,
            "partition_data": [{"index": partition, "records": records}],
        }
        return request("Produce", **{"acks": -1, "timeout_ms": WAIT_MS} | facts, topic_data=[data])

    return made


def asking(api: str, **fields: Any) -> Callable[[bytes], Any]:
    """A function of good's id that does not need it: the request of that API."""
    return lambda good: request(api, **fields)


def offsets_at(timestamp: int, topic: str = GOOD, times: int = 1, **facts: Any) -> Any:
    """A function of good's id: ListOffsets of one partition, the first."""
    partition = {"partition_index": 0, "timestamp": timestamp} | facts
    topics = [{"name": topic, "partitions": [partition] * times}]
    return asking("ListOffsets", replica_id=-1, topics=topics)
