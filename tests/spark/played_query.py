"""A query without Spark, and the broker of this process: its micro-batches are planned by the
source's owner and given to the writer by the test.
"""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from apportion.client.cluster import Cluster
from apportion.member.batch.fences import LostOffsets
from apportion.member.batch.span import EMPTY_SPAN
from apportion.server.embedded import EmbeddedBroker
from apportion.spark.delta import Writer
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.options.stream import SourceOptions
from apportion.spark.queries.introspection import SourceReading
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes
from tests.spark.micro_batches import ARROW, Frame, stored

FOREIGN = "java consumer"
NUMBERS = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings: dict[str, Any] = {
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.session.timeout.ms": 4_000,
    }
    with EmbeddedBroker(**settings) as running:
        yield running


class Query:
    """A query whose runs have one checkpoint: `done` is the last batch that was written, `planned`
    the last one at all.
    """

    def __init__(self, cluster: Cluster, bootstrap: str, path: Path) -> None:
        self.cluster, self.bootstrap, self.path = cluster, bootstrap, path
        self.group = f"lost-{next(NUMBERS)}"
        self.done = self.planned = EMPTY_SPAN
        self.owner: Any = None  # the BatchMember of a run, else None
        self.writer: Any = None  # a Writer, from the first run on

    def topic(self, records: int, partitions: int = 1) -> tuple[TopicIdPartition, ...]:
        """The places of a new topic, with so many records each."""
        created = partitions_of(
            self.cluster.create_topic(f"{self.group}-{next(NUMBERS)}", partitions)
        )
        for partition in created:
            self.produce(partition, records)
        return created

    def produce(self, partition: TopicIdPartition, records: int) -> None:
        if records:
            self.cluster.produce(
                partition, encode_batch([(None, b"x", ())] * records, timestamp_ms=1)
            )

    def trim(self, topic_partition: TopicIdPartition, offset: int) -> None:
        """The log begins at that offset."""
        changes.delete_records(self.cluster, topic_partition, offset)

    def commits(self, partition: TopicIdPartition, offset: int, metadata: str = FOREIGN) -> None:
        """A foreign client commits, while the query does not run."""
        changes.commit(self.cluster, self.group, {partition: offset}, metadata=metadata)

    def starts(
        self, *partitions: TopicIdPartition, source: dict[str, str] | None = None, **options: Any
    ) -> None:
        """A new run of the query, of the topics of these places; a batch that was not written is
        written first.
        """
        self.stops()
        topics = ",".join(dict.fromkeys(partition.topic for partition in partitions))
        given = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.group.id": self.group,
            "subscribe": topics,
        }
        self.owner = BatchMember(
            SourceOptions.parse(given | {"startingOffsets": "earliest"} | (source or {}))
        )
        self.writer = Writer(str(self.path), **options)
        if self.planned != self.done:
            self.write()

    def stops(self) -> None:
        if self.owner is not None:
            self.owner.close()
            self.owner = None

    def write(self) -> None:
        rows = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": offset,
                "city": partition.topic,
            }
            for partition, bounds in self.planned.ranges.items()
            for offset in range(*bounds)
        ]
        frame = Frame(pa.RecordBatch.from_pylist(rows, schema=ARROW))
        self.writer.write(frame, [SourceReading(self.group, self.planned, self.bootstrap)])
        self.done = self.planned

    def has_written(self, records: int) -> TopicIdPartition:
        """The one partition of a new topic, of which a run that has ended wrote every record."""
        (partition,) = self.topic(records)
        self.starts(partition)
        self.runs_until({partition: records})
        self.stops()
        return partition

    def runs_until(self, ends: dict[TopicIdPartition, int]) -> None:
        """Micro-batches, until the group's offsets are these."""
        give_up = time.monotonic() + 30
        while self.cluster.committed(self.group, ends) != ends:
            assert time.monotonic() < give_up, self.done
            self.plans()
            if self.planned != self.done:
                self.write()

    def plans(self) -> None:
        self.planned = self.owner.next_span(self.done, None)

    def loses(self, ends: dict[TopicIdPartition, int]) -> str:
        """What LostOffsets says on the way there."""
        with pytest.raises(LostOffsets) as caught:
            self.runs_until(ends)
        self.stops()
        return str(caught.value)

    def offsets(self, topic_partition: TopicIdPartition) -> list[int]:
        """Those of the partition that the table has, in their order."""
        return [
            offset
            for partition, offset in stored(str(self.path))
            if partition == topic_partition.partition
        ]


@pytest.fixture
def query(broker: EmbeddedBroker, cluster: Cluster, tmp_path: Path) -> Iterator[Query]:
    made = Query(cluster, broker.bootstrap, tmp_path / "table")
    yield made
    made.stops()
