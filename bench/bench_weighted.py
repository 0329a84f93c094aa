"""Skewed topics: how long three consumers need for a lag under `uniform` and under `lag-weighted`.

Each consumer handles HANDLED_PER_S records, as one does that calls a database for each record: it
waits, so that the readers do not share a processor. All records are there before the three start,
at the same time. The seconds are until every record is handled, joining included.

The bytes are of a topic that is written meanwhile: the largest share of a consumer in the bytes
that all have read, under `uniform` and under `bytes-weighted`, once that has measured.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

import apportion
from apportion.assignors import Assignor, BytesWeighted
from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch

READERS = 3
PARTITIONS = 12
RECORDS = 60_000
HANDLED_PER_S = 5_000
BATCH = 500
LONGEST_S = 120
VALUE = b"." * 100
MEASURE_MS = 2_000
WRITING_S, SETTLED_S = 20, 5  # of which the last count
Assignors = dict[str, Any]
UNIFORM: Assignors = {"group_remote_assignor": "uniform"}


def run() -> list[dict[str, Any]]:
    """Return the rows: seconds for a lag, and largest shares of bytes."""
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        by_lag: Assignors = {"group_local_assignors": "lag-weighted"}
        rows = []
        for name, heavy in (("half_in_one", [6]), ("half_in_two", [3, 3])):
            partitions = partitions_of(cluster.create_topic(name, PARTITIONS))
            write(cluster, partitions, sizes(heavy))
            for label, options in (("uniform", UNIFORM), ("lag", by_lag)):
                seconds = seconds_until_handled(broker.bootstrap, name, f"{name}-{label}", options)
                rows.append(row(f"{name}_{label}_s", seconds, "s"))
        for label in ("uniform", "bytes"):
            share = largest_share(broker.bootstrap, cluster, f"written-{label}", label == "bytes")
            rows.append(row(f"share_of_bytes_{label}_pct", share, "%"))
        cluster.close()
    return rows


def row(name: str, value: float, unit: str) -> dict[str, Any]:
    """Return one row of the table, without a target."""
    return {"name": name, "value": value, "unit": unit, "target": None, "better": "lower"}


def sizes(heavy: Sequence[int]) -> list[int]:
    """Return the records of each partition, the same in sum always.

    heavy: the twelfths in single partitions, which are every third; the other ones share the rest.
    Every third: where partitions are dealt out in turn, they meet in one reader.
    """
    found = [0] * PARTITIONS
    for index, twelfths in enumerate(heavy):
        found[index * READERS] = RECORDS * twelfths // PARTITIONS
    light = [partition for partition in range(PARTITIONS) if not found[partition]]
    rest = (RECORDS - sum(found)) // len(light)
    return [size or rest for size in found]


def write(cluster: Cluster, partitions: Sequence[TopicIdPartition], counts: Sequence[int]) -> None:
    """Write so many records into each partition, BATCH at a time, fewer in the last one."""
    for partition, count in zip(partitions, counts, strict=True):
        for written in range(0, count, BATCH):
            records = [(None, VALUE, ())] * min(BATCH, count - written)
            cluster.produce(partition, encode_batch(records, timestamp_ms=1))


def seconds_until_handled(bootstrap: str, topic: str, group: str, options: Assignors) -> float:
    """Return how long three consumers need until all records of the topic are handled."""
    total = sum(sizes([6] if topic == "half_in_one" else [3, 3]))
    readers = Readers(bootstrap, topic, group, [options] * READERS, handled_per_s=HANDLED_PER_S)
    started = time.perf_counter()
    with readers:
        while sum(readers.handled) < total and time.perf_counter() - started < LONGEST_S:
            time.sleep(0.01)
    return time.perf_counter() - started


def largest_share(bootstrap: str, cluster: Cluster, topic: str, by_bytes: bool) -> float:
    """Return the largest share in what three consumers have read at the end, in percent."""
    partitions = partitions_of(cluster.create_topic(topic, PARTITIONS))
    options = [
        {"group_local_assignors": assignor} if by_bytes else UNIFORM
        for assignor in [BytesWeighted(measure_ms=MEASURE_MS) for _ in range(READERS)]
    ]
    with Readers(bootstrap, topic, topic, options, handled_per_s=10**6) as readers:
        ends_at, before = time.perf_counter() + WRITING_S, [0] * READERS
        counts = [size // 300 for size in sizes([3, 3])]
        while (left_s := ends_at - time.perf_counter()) > 0:
            write(cluster, partitions, counts)
            time.sleep(0.05)
            if left_s > SETTLED_S:
                before = [*readers.handled]
        read = [after - first for after, first in zip(readers.handled, before, strict=True)]
    return 100 * max(read) / sum(read)


class Readers:
    """Three consumers on threads of their own. handled: the records of each so far."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        options: Sequence[Assignors],
        *,
        handled_per_s: int,
    ) -> None:
        """Keep how to make them; `with` starts them, and closes them at its end."""
        self.handled = [0] * len(options)
        self._of = (bootstrap, topic, group)
        self._handled_per_s = handled_per_s
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=each, daemon=True)
            for each in enumerate(options)
        ]

    def __enter__(self) -> "Readers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _read(self, index: int, options: dict[str, str | Assignor]) -> None:
        bootstrap, topic, group = self._of
        with apportion.Consumer(
            bootstrap,
            group,
            topics=[topic],
            auto_offset_reset="earliest",
            max_poll_records=BATCH,
            **options,  # type: ignore[arg-type]
        ) as consumer:
            while not self._is_over.is_set():
                records = consumer.poll(100)
                self._is_over.wait(len(records) / self._handled_per_s)
                self.handled[index] += len(records)
                consumer.commit()
