"""The offsets topic with a million commits: recovery before and after its cleaning, and its cost.

Ten partitions a commit, ten thousand in all. Everything is processor time: the disk's part is
measured by `bench_store.py`.
"""

import tempfile
from time import process_time
from typing import Any

from apportion.coord import records
from apportion.coord.config import GroupSettings
from apportion.coord.shard import Shard
from apportion.node.coordinator_log import stored_records
from apportion.node.flush_gate import FlushGate
from apportion.node.partitions import Partition
from apportion.node.settings import BrokerSettings
from apportion.store.compact import CleanerPause, clean_log
from apportion.store.files import RealDisk
from apportion.store.log import Log
from apportion.store.settings import LogSettings
from apportion.topics import Topic, Topics
from apportion.wire.batch import encode_batch
from apportion.wire.records.codec import encode_key, encode_value
from apportion.wire.records.groups import OffsetCommitValue

COMMITS, PARTITIONS, KEYS = 1_000_000, 10, 10_000
LAYOUT = LogSettings(segment_bytes=BrokerSettings().offsets_topic_segment_bytes)


def run() -> list[dict[str, Any]]:
    """Return the seconds of both replays and of the cleaning, and the p99 of its steps."""
    with tempfile.TemporaryDirectory(dir=".") as root:  # beside the sources: /tmp may be in memory
        disk = RealDisk(root)
        log = _write_log(disk)
        before_s, before_bytes = _replay(disk), log.size_bytes
        steps = _clean(disk, log)
        after_s = _replay(disk)
        after_bytes = log.size_bytes
        disk.close()
    steps.sort()
    return [
        _row("offsets_replay_s", before_s, "s"),
        _row("offsets_clean_s", sum(steps), "s"),
        _row("offsets_clean_step_ms", steps[len(steps) * 99 // 100] * 1000, "ms"),
        _row("offsets_replay_clean_s", after_s, "s"),
        _row("offsets_left", after_bytes / before_bytes, "of 1"),
    ]


def _row(name: str, value: float, unit: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": None, "better": "lower"}


def _write_log(disk: RealDisk) -> Log:
    log = Log.open(disk, "o-0", LAYOUT)
    for first in range(0, COMMITS, PARTITIONS):
        value = encode_value(OffsetCommitValue(offset=first, commit_timestamp=first))
        numbers = [(first + number) % KEYS for number in range(PARTITIONS)]
        batch_records = [
            (
                encode_key(records.offset_commit(f"group-{n // 100}", "orders", n % 100, None).key),
                value,
                (),
            )
            for n in numbers
        ]
        batch = encode_batch(batch_records, base_offset=log.next_offset, timestamp_ms=first)
        log.append(batch, last_offset=log.next_offset + PARTITIONS - 1, max_timestamp_ms=first)
    for _ in range(2):  # the second one seals the closed segments
        disk.sync(log.take_unsynced_paths())
    return log


def _replay(disk: RealDisk) -> float:
    """Return the seconds in which a start replays the log."""
    start_s = process_time()
    partition = Partition(
        Topic("__consumer_offsets", bytes(16), 1), 0, Log.open(disk, "o-0", LAYOUT), FlushGate()
    )
    shard = Shard(GroupSettings(), Topics())
    for record in stored_records(partition):
        shard.replay(record)
    assert sum(len(by_topic["orders"]) for by_topic in shard.ledger.offsets.values()) == KEYS
    return process_time() - start_s


def _clean(disk: RealDisk, log: Log) -> list[float]:
    """Return the seconds of each step of the cleaning."""
    steps, work = [], clean_log(log, log.next_offset, 0)
    while True:
        start_s = process_time()
        pause = next(work, None)
        steps.append(process_time() - start_s)
        if pause is None:
            return steps
        if pause is CleanerPause.FLUSH:
            disk.sync(log.take_unsynced_paths())
