"""Topics with settings, and batches that the settings have something to say about. The topics are
made first of all.
"""

import struct
from collections.abc import Iterator
from typing import Any

from apportion.wire.batch import Record, encode_batch, encode_records
from tests.kafka.differential.wrong import (
    NOW_MS,
    WAIT_MS,
    Case,
    asking,
    offsets_at,
    patched,
    produce,
)

DAYS_MS = 10 * 86_400_000
APPEND = {"message.timestamp.type": "LogAppendTime"}
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "appended": APPEND,
    "appended-bounded": APPEND
    | {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"},
    "keyed": {"cleanup.policy": "compact"},
    "keyed-deleted": {"cleanup.policy": "delete,compact"},
    "keyed-appended": APPEND | {"cleanup.policy": "compact"},
    "kept": {"cleanup.policy": ""},
    "bounded": {
        "message.timestamp.before.max.ms": "86400000",
        "message.timestamp.after.max.ms": "86400000",
    },
    "squeezed": {"compression.type": "gzip"},
    "two-in-sync": {"min.insync.replicas": "2"},
}
IN_VAIN = "create in vain with "
"""How cases begin that ask for what is not there: Kafka takes these values."""
CLAIMED = struct.pack(">h", 8)


def makes() -> Iterator[Case]:
    """The topics are there, and some that cannot be are refused."""
    for name, config in TOPICS.items():
        yield Case(f"make {name}", 7, make(name, config))
    for name, value in (
        ("cleanup.policy", "none"),
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "Compact"),
        ("cleanup.policy", "delete,delete"),
        ("message.timestamp.type", "logappendtime"),
        ("compression.type", "GZIP"),
        ("preallocate", "TRUE"),
        ("preallocate", "yes"),
        ("retention.bytes", "-5"),
        ("retention.ms", "0"),
        ("segment.ms", "0"),
        ("remote.storage.enable", "true"),
        ("compression.gzip.level", "99"),
        ("local.retention.ms", "-2"),
        ("follower.replication.throttled.replicas", ""),
        ("min.insync.replicas", "0"),
        ("message.timestamp.before.max.ms", "-1"),
    ):
        yield Case(
            f"create with {name}={value!r}", 7, make("tried", {name: value}, only_check=True)
        )
    for name, value in (
        ("compression.gzip.level", "1"),
        ("max.compaction.lag.ms", "1000"),
        ("local.retention.ms", "1000"),
        ("follower.replication.throttled.replicas", "*"),
    ):
        yield Case(f"{IN_VAIN}{name}={value!r}", 7, make("tried", {name: value}, only_check=True))


def make(name: str, config: dict[str, str], *, only_check: bool = False) -> Any:
    """A function of good's id: CreateTopics."""
    configs = [{"name": key, "value": value} for key, value in config.items()]
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": configs}
    return asking("CreateTopics", topics=[topic], timeout_ms=WAIT_MS, validate_only=only_check)


def batch(
    *records: tuple[bytes | None, int],
    compression: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """One batch of (key, timestamp) pairs."""
    made = [Record(number, time, key, b"v") for number, (key, time) in enumerate(records)]
    return encode_records(made, base_offset=0, attributes=compression, producer=producer)


def batches() -> Iterator[Case]:
    """Produce, with records that some topics do not take."""
    plain, keyless = (b"k", NOW_MS), (None, NOW_MS)
    contents = {
        "with keys": (plain, (b"", NOW_MS)),
        "without keys": (keyless, keyless),
        "with some keys": (plain, keyless, plain, keyless, keyless, keyless),
        "from the future": (plain, (b"k", NOW_MS + DAYS_MS), (None, NOW_MS + DAYS_MS)),
        "from the future, without keys": (
            (None, NOW_MS + DAYS_MS),
            keyless,
            (b"k", NOW_MS + DAYS_MS),
        ),
        "from long ago": (plain, (b"k", NOW_MS - DAYS_MS), (None, NOW_MS - DAYS_MS)),
        "from long ago at first": ((b"k", NOW_MS - DAYS_MS), plain),
        "of no time": ((b"k", -1), (b"k", -1)),
    }
    for topic in TOPICS:
        for name, records in contents.items():
            for compression in (0, 1, 4):
                yield Case(
                    f"to {topic}: {name}",
                    12,
                    produce(batch(*records, compression=compression), topic=topic, partition=0),
                )
        for version in (3, 7, 8):
            yield Case(
                f"to {topic}: an old version without keys",
                version,
                produce(batch(keyless), topic=topic),
            )
        claimed = patched(batch((b"k", NOW_MS - 5), plain), 21, CLAIMED)
        yield Case(
            f"to {topic}: a claim of the time of the append", 12, produce(claimed, topic=topic)
        )
        tombstone = encode_batch([(b"k", None, ())], timestamp_ms=NOW_MS)
        yield Case(f"to {topic}: a tombstone", 12, produce(tombstone, topic=topic))
    for sequence, key in ((0, b"k"), (0, b"k"), (1, None), (1, b"k")):
        for topic in ("appended", "keyed", "keyed-appended"):
            sent = batch((key, NOW_MS - 60_000), producer=(4711, 0, sequence))
            yield Case(
                f"to {topic}: idempotent, {sequence} of {key!r}", 12, produce(sent, topic=topic)
            )


def reads() -> Iterator[Case]:
    """ListOffsets by the time of the append, and what may be deleted."""
    for topic in TOPICS:
        for timestamp in (-3, -2, -1, 0, NOW_MS - 60_000, NOW_MS + 2 * DAYS_MS):
            yield Case(f"offsets of {topic} at {timestamp}", 10, offsets_at(timestamp, topic))
    for topic in TOPICS:
        trimmed = {"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}
        asked = asking("DeleteRecords", topics=[trimmed], timeout_ms=WAIT_MS)
        yield Case(f"trim {topic}", 2, asked)


SETTING_TOPICS = [*makes()]
SETTING_CASES = [*batches(), *reads()]
