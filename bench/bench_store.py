"""The log on a real disk: appends with one sync for a hundred batches, and the check at a start."""

import tempfile
from statistics import median
from time import perf_counter
from typing import Any

from apportion.store.files import RealDisk
from apportion.store.log import Log
from apportion.wire.batch import encode_batch
from apportion.wire.batch_rewrite import set_base_offset

GROUP = 100  # appends that share a sync
ROUNDS = 300
RECOVER_BYTES = 256 << 20


def run() -> list[dict[str, Any]]:
    """Return the rows: appends per second, sync latency, MB/s of the check of a segment."""
    with tempfile.TemporaryDirectory(dir=".") as root:  # beside the sources: /tmp may be in memory
        batches_per_s, sync_ms = _append(RealDisk(root))
        recovered = _recover(root)
    return [
        _row("store_append_batches_per_s", batches_per_s, "batches/s", 100_000),
        _row("store_group_commit_ms", sync_ms, "ms", None, "lower"),
        _row("store_recover_mb_s", recovered, "MB/s", None),
    ]


def _row(
    name: str, value: float, unit: str, target: int | None, better: str = "higher"
) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target, "better": better}


def _append(disk: RealDisk) -> tuple[float, float]:
    """Return batches per second, and the median milliseconds of a hundred with their sync.

    A batch has one coordinator record, with a key and a value of 40 bytes.
    """
    log = Log.open(disk, "coordinator-0")
    batch = bytearray(encode_batch([(b"k" * 40, b"v" * 40, ())], timestamp_ms=1))
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        for _ in range(GROUP):
            offset = log.next_offset
            set_base_offset(batch, offset, 0)
            log.append(batch, last_offset=offset, max_timestamp_ms=1)
        disk.sync(log.take_unsynced_paths())
        times.append(perf_counter() - start)
    disk.close()
    return ROUNDS * GROUP / sum(times), median(times) * 1000


def _recover(root: str) -> float:
    disk = RealDisk(root)
    log = Log.open(disk, "topic-0")
    batch = bytearray(encode_batch([(b"k" * 10, b"v" * 90, ())] * 150, timestamp_ms=1))
    while log.size_bytes < RECOVER_BYTES:
        offset = log.next_offset
        set_base_offset(batch, offset, 0)
        log.append(batch, last_offset=offset + 149, max_timestamp_ms=1)
    disk.close()
    start = perf_counter()
    reopened = Log.open(RealDisk(root), "topic-0")
    seconds = perf_counter() - start
    assert (reopened.next_offset, reopened.size_bytes) == (log.next_offset, log.size_bytes)
    return reopened.size_bytes / seconds / 1e6
