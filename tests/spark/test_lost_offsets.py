"""Foreign commits in a query's group: no record is passed over in silence, and each way on leads
there. Only Spark is played.

The broker is in this process; a micro-batch is planned by the source's owner and given to the
writer by the test.
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
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import metadata_of
from apportion.server.embedded import EmbeddedBroker
from apportion.spark.delta import Writer
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.options.stream import SourceOptions
from apportion.spark.queries.introspection import SourceReading
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch
from tests.client import changes
from tests.spark.micro_batches import ARROW, Frame, every, stored

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
            self.planned = self.owner.next_span(self.done, None)
            if self.planned != self.done:
                self.write()

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


def test_a_partition_that_was_idle_when_a_foreign_client_had_it_is_not_passed_over(
    query: Query,
) -> None:
    (partition,) = query.topic(3)
    query.starts(partition, source={"startingOffsets": "latest"})
    query.runs_until({partition: 3})
    query.stops()
    query.produce(partition, 5)
    query.commits(partition, 6)
    query.starts(partition)
    error = query.loses({partition: 8})
    assert "the sink has everything below offset 3, but the batch starts at 6: 3 lost" in error
    # the evidence
    assert query.cluster.committed_offsets(query.group, [partition])[
        partition
    ] == OffsetAndMetadata(6, FOREIGN)
    query.starts(partition, rewind=True)
    query.runs_until({partition: 8})
    assert query.offsets(partition) == [3, 4, 5, 6, 7]
    assert query.cluster.committed_offsets(query.group, [partition])[
        partition
    ] == OffsetAndMetadata(8, metadata_of((str(query.path),)))


@pytest.mark.parametrize("way_on", [{"rewind": True}, {"fail_on_data_loss": False}])
def test_a_partition_new_to_the_table_does_not_begin_at_a_foreign_commit(
    query: Query, way_on: dict[str, Any]
) -> None:
    old, (_, new) = query.has_written(4), query.topic(8, partitions=2)
    query.commits(new, 5)
    query.trim(new, 2)
    query.starts(old, new)
    error = query.loses({new: 8})
    assert (
        "the sink has nothing of it, but the batch starts at 5, which did not come from the sink"
        in error
    )
    assert "it goes back to 2" in error
    query.starts(old, new, **way_on)
    query.runs_until({new: 8})
    assert query.offsets(new) == [2, 3, 4, 5, 6, 7] if "rewind" in way_on else [5, 6, 7]


def test_a_query_that_rewound_without_a_fence_rewinds_again_if_the_report_is_lost(
    query: Query, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old, (_, new) = query.has_written(4), query.topic(8, partitions=2)
    query.commits(new, 5)
    query.starts(old, new)
    query.loses({new: 8})
    query.starts(old, new, rewind=True)  # which writes the batch again
    (tmp_path / "of another host").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "of another host"))
    query.starts(old, new, rewind=True)
    query.produce(new, 2)
    query.runs_until({new: 10})
    assert query.offsets(new) == list(range(10))


def test_a_foreign_offset_that_passes_over_nothing_is_taken_up(query: Query) -> None:
    partition = query.has_written(4)
    query.produce(partition, 2)
    query.commits(partition, 4)  # the sink's own end, without its name
    query.starts(partition)
    query.runs_until({partition: 6})
    assert query.offsets(partition) == list(range(6))


@pytest.mark.parametrize(
    ("metadata", "who"),
    [
        (FOREIGN, "somebody whose commits bear the metadata 'java consumer'"),
        ("", "a consumer, a query that does not belong there, or somebody who set the offsets"),
    ],
)
def test_it_is_said_who_has_committed_if_the_metadata_tells_and_what_else_it_may_be(
    query: Query, metadata: str, who: str
) -> None:
    partition = query.has_written(4)
    query.produce(partition, 9)
    query.commits(partition, 7, metadata)
    query.starts(partition)
    error = query.loses({partition: 13})
    assert (
        f"Something else has committed in group {query.group}, past what {query.path} "
        f"holds: {who}; or this writer was" in error
    )
    assert "or the table was restored to an earlier version" in error
    assert "The records are still in the topic" in error


def test_a_query_with_two_tables_does_not_take_the_other_table_for_a_stranger(query: Query) -> None:
    (partition,) = query.topic(9)
    both = (str(query.path), "/lake/second")
    query.commits(partition, 7, metadata_of(both))
    for bounds in ((0, 5), (7, 9)):
        query.writer, query.planned = (
            Writer(str(query.path)),
            EMPTY_SPAN._replace(id="a", ranges={partition: bounds}, sinks=both),
        )
        if bounds[0]:
            with pytest.raises(
                LostOffsets, match="holds: a consumer, a query that does not belong there"
            ) as caught:
                query.write()
            assert "/lake/second" not in str(caught.value)
        else:
            query.write()


def test_skipped_records_that_still_exist_are_read_as_the_error_message_says(
    query: Query,
) -> None:
    partition = query.has_written(5)
    query.produce(partition, 15)
    query.commits(partition, 15)
    query.trim(partition, 7)
    query.starts(partition)
    error = query.loses({partition: 20})
    assert "The records in [5, 7) are no longer in the topic, those in [7, 15) are" in error
    assert (
        "delta.Writer(..., rewind=True, fail_on_data_loss=False) and the source's option "
        "failOnDataLoss=false" in error
    )
    query.starts(
        partition, source={"failOnDataLoss": "false"}, rewind=True, fail_on_data_loss=False
    )
    query.runs_until({partition: 20})
    assert query.offsets(partition) == [*range(5), *range(7, 20)]


def test_with_nothing_to_go_back_to_an_idle_partition_is_written_at_once(query: Query) -> None:
    partition = query.has_written(5)
    query.produce(partition, 4)
    query.trim(partition, 7)
    query.starts(
        partition, source={"failOnDataLoss": "false"}, rewind=True, fail_on_data_loss=False
    )
    query.runs_until({partition: 9})
    assert query.offsets(partition) == [*range(5), 7, 8]


def test_records_that_are_gone_are_not_gone_back_to(query: Query) -> None:
    partition = query.has_written(5)
    query.produce(partition, 4)
    query.trim(partition, 7)
    query.starts(partition, source={"failOnDataLoss": "false"}, rewind=True)
    assert (
        "The records in [5, 7) are no longer in the topic: delta.Writer(..., "
        "fail_on_data_loss=False)" in query.loses({partition: 9})
    )
    assert stored(str(query.path)) == every((0, 0, 5))
