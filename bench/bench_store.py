"""The log on a real disk: appends of small batches with one sync for every hundred, and how fast a
start checks a segment.
"""

import tempfile
from statistics import median
from time import perf_counter
from typing import Any

from apportion.store.files import RealDisk
from apportion.store.log import Log
from apportion.wire.batch import encode_batch, set_base_offset

GROUP = 100  # appends that share a sync
ROUNDS = 300
RECOVER_BYTES = 256 << 20


def run() -> list[dict[str, Any]]:
    """Appended batches per second and sync latency, and megabytes per second through the check of
    an unsealed segment.
    """
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
    """Batches of one coordinator record (40 B key, 40 B value) per second, and the median of a
    hundred appends with their sync.
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
        disk.sync(log.unsynced_paths())
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
    found = Log.open(RealDisk(root), "topic-0")
    seconds = perf_counter() - start
    assert (found.next_offset, found.size_bytes) == (log.next_offset, log.size_bytes)
    return found.size_bytes / seconds / 1e6
