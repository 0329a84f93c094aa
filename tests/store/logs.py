"""Logs on both disks, and batches to append to them."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from apportion.store.files import RealDisk
from apportion.store.log import Log
from apportion.store.memory_disk import MemoryDisk
from apportion.store.settings import LogSettings
from apportion.wire.batch import Record, encode_records

SMALL = LogSettings(segment_bytes=700, index_interval_bytes=150, growth_bytes=256)


class BatchShape(NamedTuple):
    """A batch to append: the times of its records, and the size of each value."""

    times: tuple[int, ...]
    value_bytes: int


@contextmanager
def disk_of(kind: str) -> Iterator[RealDisk | MemoryDisk]:
    if kind == "memory":
        yield MemoryDisk()
    else:
        with tempfile.TemporaryDirectory() as root:
            disk = RealDisk(root, open_files=3)
            yield disk
            disk.close()


def append(log: Log, shape: BatchShape, compression: int = 0) -> tuple[bytes, list[Record]]:
    base = log.next_offset
    records = [
        Record(base + i, time, b"k", b"v" * shape.value_bytes) for i, time in enumerate(shape.times)
    ]
    batch = encode_records(records, base_offset=base, attributes=compression)
    log.append(batch, last_offset=records[-1].offset, max_timestamp_ms=max(shape.times))
    return batch, records


def segment_starts(disk: RealDisk | MemoryDisk, directory: str) -> list[int]:
    return [int(name[:20]) for name in disk.list_dir(directory) if name.endswith(".log")]
