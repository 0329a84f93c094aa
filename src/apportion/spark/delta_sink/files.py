"""The executor's part of the exactly-once writer: Parquet files, each of one Kafka partition.

A written file is not in the table yet: only the driver's commit adds it. So a task reports its
files to the driver as rows of `REPORT`, and a task that fails deletes what it has not reported.
Rows below a partition's lower bound are in the table already and are dropped here; rows that the
batch's span does not cover mean that the pipeline changed topic, partition or offset. Of such a
row, and of one that breaks a constraint of the table, the task reports a refusal and does not fail:
Spark would run it again, and the driver would not know the files of the other tasks.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileSystem, PyFileSystem

from apportion.spark.delta_sink.shared_directory import no_such_directory
from apportion.spark.delta_sink.stored_columns import with_required_parts
from apportion.spark.errors import NotWritable
from apportion.topics import TopicPartition

REPORT = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)
OUTCOME = REPORT.append(pa.field("refusal", pa.string()))
"""The rows that a task sends to the driver: its files, or instead why it refuses a row."""
WriteRows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function that writes rows to files and returns rows of `REPORT`."""
ROW_GROUP_BYTES = 16 << 20


class OffsetWindow(NamedTuple):
    """The offsets of one partition that a batch may write: [lower, end).

    The batch has read [start, end); what lies below `lower` is in the table already.
    """

    lower: int
    start: int
    end: int


class WrittenFile(NamedTuple):
    """One Parquet file that is not committed yet, as a row of `REPORT`.

    path: relative to the table. size: in bytes. rows: their number.
    `first` and `last` are the lowest and the highest offset in the file.
    """

    path: str
    size: int
    rows: int
    topic: str
    partition: int
    first: int
    last: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The Kafka partition whose records the file holds."""
        return TopicPartition(self.topic, self.partition)

    def stats(self) -> str:
        """Return the file's statistics as Delta's JSON, by which readers skip files."""
        low = {"topic": self.topic, "partition": self.partition, "offset": self.first}
        high = {"topic": self.topic, "partition": self.partition, "offset": self.last}
        return json.dumps({"numRecords": self.rows, "minValues": low, "maxValues": high})


def directory(table: str, storage_options: Mapping[str, str] | None) -> FileSystem:
    """Return the table's own directory as a file system."""
    return PyFileSystem(DeltaStorageHandler(table, dict(storage_options or {})))


class PartFileWriter(NamedTuple):
    """Writer of an executor's files: a value that is sent with the task.

    schema: the columns to write, nullable throughout. stored: the same as the files have them, some
    of them required; None for `schema`.
    constraints: what the table requires of each row. Of each the rows have a column of booleans at
    their end, which is not written: whether it is true of the row. job: the name of the Spark job
    whose tasks write, 16 hexadecimal digits.
    """

    table: str
    storage_options: Mapping[str, str] | None
    schema: pa.Schema
    windows: Mapping[TopicPartition, OffsetWindow]
    stored: pa.Schema | None = None
    constraints: tuple[str, ...] = ()
    job: str = "0" * 16

    def filesystem(self) -> FileSystem:
        """Return the table's own directory as a file system.

        Raises TableNotShared where this host does not have it: the driver's has.
        """
        try:
            return directory(self.table, self.storage_options)
        except TableNotFoundError:
            raise no_such_directory(self.table) from None

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows that the table does not have yet to files, as Spark's mapInArrow.

        Yields one report of all files that the task has written.
        """
        filesystem = self.filesystem()
        # One file holds one Kafka partition: after a conflict whole files can be dropped by their
        # offsets.
        writers: dict[TopicPartition, PartWriter] = {}
        try:
            for batch in batches:
                for partition, rows in self._admitted_rows(batch):
                    if partition not in writers:
                        writers[partition] = PartWriter(self, filesystem, partition)
                    writers[partition].add(rows)
            written = [writer.close() for writer in writers.values()]
            # One report for the task, at its end: of a task that fails Spark sees nothing, and its
            # files are deleted below. That holds until Spark has taken the report.
            if written:
                yield pa.RecordBatch.from_pylist(
                    [file._asdict() for file in written], schema=REPORT
                )
        except BaseException:  # also a task that Spark kills
            for writer in writers.values():
                writer.discard()
            raise

    def _admitted_rows(
        self, batch: pa.RecordBatch
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Yield the rows of each partition that are to be written, if there are any."""
        for partition, rows in split_by_partition(batch):
            new_rows = self._rows_to_write(partition, rows)
            if new_rows.num_rows:
                self._refuse_broken_constraint(partition, new_rows)
                yield partition, new_rows

    def _rows_to_write(self, partition: TopicPartition, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the Delta table does not have yet.

        Raises ValueError for rows whose offsets the batch has not read.
        """
        offsets = rows.column("offset")
        offset_range = pc.min_max(offsets).as_py()
        # The rows are checked against the batch's own range: a pipeline that changes an offset
        # would break the fences silently.
        window = self.windows.get(partition)
        if (
            window is None
            or offset_range["min"] < window.start
            or offset_range["max"] >= window.end
        ):
            expected = f"[{window.start}, {window.end})" if window else "no rows at all"
            raise NotWritable(
                f"rows of {partition.topic}-{partition.partition} with offsets "
                f"{offset_range['min']} to {offset_range['max']} reached the Delta writer, but "
                f"this batch reads {expected} there. Keep the source's columns topic, "
                "partition and offset unchanged in the pipeline."
            )
        if offset_range["min"] >= window.lower:
            return rows
        return rows.filter(pc.greater_equal(offsets, window.lower))

    def _refuse_broken_constraint(self, partition: TopicPartition, rows: pa.RecordBatch) -> None:
        """Raise NotWritable for the first of these rows that breaks a constraint of the table."""
        columns = rows.columns[rows.num_columns - len(self.constraints) :]
        for constraint, is_true in zip(self.constraints, columns, strict=True):
            row = pc.index(is_true, False).as_py()
            if row >= 0:
                raise NotWritable(
                    f"{partition.topic}-{partition.partition}, offset "
                    f"{rows.column('offset')[row]}: the row breaks {constraint} of the Delta table "
                    f"{self.table}, so nothing of the batch is written: correct such rows in the "
                    "query or filter them, or write to another table"
                )


def new_job_name() -> str:
    """Return a new, unique name for a Spark job that writes files: 16 hexadecimal digits."""
    return uuid4().hex[:16]


def new_file_name(partition: TopicPartition, job: str) -> str:
    """Return a new, unique name for a file with this partition's rows, which tells its job."""
    return f"part-{partition.topic}-{partition.partition}-{job}{uuid4().hex[16:]}.parquet"


def files_of_job(filesystem: FileSystem, job: str) -> list[str]:
    """Return the paths of the files in the table's directory that tasks of this job have made."""
    entries = filesystem.get_file_info(FileSelector(""))
    return [
        entry.path
        for entry in entries
        if is_part_file(entry.base_name) and entry.base_name[-len(".parquet") - 32 :][:16] == job
    ]


def is_part_file(path: str) -> bool:
    """Return whether the path, relative to the table, has the form of `new_file_name`.

    `clean` deletes no other file.
    """
    return re.fullmatch(r"part-[A-Za-z0-9._-]+-[0-9]+-[0-9a-f]{32}[.]parquet", path) is not None


class PartWriter:
    """One Parquet file that is being written: rows of one Kafka partition."""

    def __init__(
        self, files: PartFileWriter, filesystem: FileSystem, partition: TopicPartition
    ) -> None:
        """Create the Parquet file of an executor's rows of one Kafka partition."""
        self._filesystem = filesystem
        self._partition = partition
        self._schema = files.schema
        self._stored = files.stored or files.schema
        self.path = new_file_name(partition, files.job)
        self._sink = filesystem.open_output_stream(self.path)
        # Level 1: the executors' time is worth more here than smaller files.
        self._writer = pq.ParquetWriter(
            self._sink, self._stored, compression="zstd", compression_level=1
        )
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._rows = 0
        self._first = 1 << 62
        self._last = -1

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows to a part file of the Delta writer; they are buffered to a row group."""
        offset_range = pc.min_max(rows.column("offset")).as_py()
        self._first = min(self._first, offset_range["min"])
        self._last = max(self._last, offset_range["max"])
        self._rows += rows.num_rows
        self._buffered.append(rows)
        self._buffered_bytes += rows.nbytes
        # Spark's Arrow batches are small; a row group for each would make files that are slow to
        # read.
        if self._buffered_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        """Write a part file's buffered rows as one row group."""
        if self._buffered:
            table = (
                pa.Table.from_batches(self._buffered).select(self._schema.names).cast(self._schema)
            )
            self._writer.write_table(
                with_required_parts(table, self._stored), row_group_size=table.num_rows
            )
            self._buffered, self._buffered_bytes = [], 0

    def close(self) -> WrittenFile:
        """Finish a part file of the Delta writer and return its description."""
        self._write_group()
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        return WrittenFile(self.path, size, self._rows, *self._partition, self._first, self._last)

    def discard(self) -> None:
        """Delete a part file of the Delta writer, as far as the storage allows."""
        with suppress(OSError):  # a later cleaning finds what stays: nothing refers to it
            self._writer.close()
            self._sink.close()
            self._filesystem.delete_file(self.path)


def split_by_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Split the batch by Kafka partition, losing no row.

    Raises NotWritable for rows without topic, partition or offset.
    """
    if batch.num_rows == 0:
        return
    topics, partitions = batch.column("topic"), batch.column("partition")
    if topics.null_count or partitions.null_count or batch.column("offset").null_count:
        raise NotWritable(
            "a row without topic, partition or offset reached the Delta writer; keep the "
            "source's columns unchanged"
        )
    keys = (
        pa.table({"topic": topics, "partition": partitions})
        .group_by(["topic", "partition"])
        .aggregate([])
        .to_pylist()
    )
    for row in keys:
        key = TopicPartition(row["topic"], row["partition"])
        if len(keys) == 1:
            yield key, batch
        else:
            yield key, batch.filter(pc.and_(pc.equal(topics, key[0]), pc.equal(partitions, key[1])))


def report_or_refuse(
    write: WriteRows, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the Delta writer's rows by `write` and yield rows of `OUTCOME`.

    A function for Spark's mapInArrow, but for its first argument.
    """
    try:
        for report in write(batches):
            yield report.append_column(
                OUTCOME.field("refusal"), pa.nulls(report.num_rows, pa.string())
            )
    except NotWritable as refused:
        yield pa.RecordBatch.from_pylist([{"refusal": str(refused)}], schema=OUTCOME)


def rewrite_part_files(
    files: PartFileWriter, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the Delta writer's part files again without the rows that the table has.

    A function for Spark's mapInArrow.
    Yields a report of the new files.
    batches: the paths of the files, in a column `path`.
    """
    filesystem = files.filesystem()
    paths = (path for batch in batches for path in batch.column("path").to_pylist())
    for path in paths:
        with filesystem.open_input_file(path) as source:
            yield from files.write(pq.ParquetFile(source).iter_batches())


def delete_files(filesystem: FileSystem, paths: Iterable[str]) -> list[str]:
    """Delete files of a Delta table that no commit refers to; return the paths that were deleted.

    Called where a batch is not committed, and by `delta.clean`, which finds later what the storage
    refuses to delete now.
    """
    deleted = []
    for path in paths:
        with suppress(OSError):  # a later cleaning finds what stays: nothing refers to it
            filesystem.delete_file(path)
            deleted.append(path)
    return deleted
