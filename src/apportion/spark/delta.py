"""The exactly-once writer for Delta Lake.

Executors write Parquet files where the partitions are (`files.py`); the driver commits them
together with one app transaction per Kafka partition, which holds the partition's next offset: its
fence. A replay, or an application that lost its partitions without knowing, finds the fence moved
and writes nothing. No row passes through the driver.

    writer = delta.Writer("/lake/flights")
    events.writeStream.foreachBatch(writer).option("checkpointLocation", "/checkpoints/v1").start()
"""

import logging
import threading
from collections.abc import Mapping
from time import monotonic
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame

from apportion.member.batch.span import LostOffsets, admit_range, topic_id_text
from apportion.member.batch.span import RangeAdmission as Admitted
from apportion.spark import handover
from apportion.spark.files import (
    OffsetWindow,
    PartFileWriter,
    delete_files,
    directory,
    is_part_file,
    table_schema,
)
from apportion.spark.ownership import (
    explain_lost_offsets,
    fetch_group_state,
    location_of,
    refuse_foreign_batch,
    table_name,
)
from apportion.spark.query_introspection import SourceReading, execution_of, readings
from apportion.spark.stateless import refuse_state
from apportion.spark.table import CommitConflict, TableAttempt
from apportion.spark.uncommitted_files import UncommittedFiles
from apportion.topics import TopicIdPartition, TopicPartition

CLEAN_EVERY_S = 24 * 3600

log = logging.getLogger("apportion.spark")


class BatchAdmission(NamedTuple):
    """What a batch may write, by the fences of one snapshot of the table.

    windows: of each partition. fences: the new ones, to be set in the same commit.
    rewinds: by source number, the partitions that go back to their fence, and of which nothing is
    written now.
    """

    windows: dict[TopicPartition, OffsetWindow]
    fences: dict[str, int]
    rewinds: dict[int, dict[TopicIdPartition, int]]


class Rewind(NamedTuple):
    """The offset to which the source is to go back with one partition, of which nothing is written
    now.
    """

    to: int


class Writer:
    """A function for foreachBatch that puts every record's rows into one Delta table exactly once.

    table: path or URI, created on first use with the query's columns; columns that the table lacks
    are added. The query must keep the source's columns topic, partition and offset; one record may
    become no, one or several rows. It may have several sources, each with topics of its own.
    Several queries may write to one table, and those of one group must: the fences are the table's.
    A query may write to several tables, with a writer for each; it calls all of them once for every
    batch.

    adopt: begin in a group, or go on with a checkpoint, whose offsets did not come from this table,
    as if they had; the group must have no members then.
    rewind: where something else has moved the group's offsets past what the table has, go back to
    that, instead of LostOffsets.

    Files of lost hosts are removed daily, after the table's own retention (a week unless the table
    says otherwise), and no others.

    Raises, and so stops the query: AnotherSink where the batch belongs to a query with other
    tables; StatefulQuery for a query that keeps state; ValueError where the columns are missing or
    were changed, where two sources read one topic, where it is called twice for one batch, or where
    the table's directory holds things and no table; LostOffsets where records between the table's
    fence and the batch are missing (unless `fail_on_data_loss` is False); TypeError where a column
    has another type in the table, or the table is partitioned.
    """

    def __init__(
        self,
        table: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        fail_on_data_loss: bool = True,
        adopt: bool = False,
        rewind: bool = False,
        attempts: int = 30,
    ) -> None:
        self.table = location_of(table)  # executors may run in other directories
        self.storage_options = storage_options
        self.fail_on_data_loss = fail_on_data_loss
        self.adopt, self.rewind = adopt, rewind
        self.attempts = attempts
        self.sink = table_name(self.table)
        self._rewinds: dict[tuple[str, TopicIdPartition, int], tuple[int, int]] = {}
        # By group, partition and fence: the offset range of the batch that went back to the fence.
        self._checked: set[str] = set()  # run ids of queries whose plan was seen
        # run id of a query, and the last batch that it has brought
        self._written: tuple[str, int] | None = None
        self._clean_at = 0.0

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write the rows of the batch that the table does not have, and set its partitions'
        fences.
        """
        execution = execution_of(frame)
        run = str(execution.runId())
        if run not in self._checked:
            refuse_state(execution, frame.sparkSession._jvm)
            self._checked.add(run)
        if self._written == (run, batch_id):
            raise ValueError(
                f"the writer to {self.sink} was called a second time for batch "
                f"{batch_id}: the rows of this call would not be "
                "written, since the first has moved the fences of all partitions. Unite "
                "the frames and call it once for a batch"
            )
        self.write(frame, readings(execution))
        self._written = run, batch_id
        self._clean_daily()

    def write(self, frame: DataFrame, sources: list[SourceReading]) -> None:
        """Write the rows of `frame`, read from `sources`, and set the fences to the ends of their
        spans.

        Tries again with a fresh snapshot as long as other writers are quicker. Questions are
        answered; they have no rows.
        """
        schema = table_schema(frame)
        for reading in sources:
            if reading.span.question_number:
                self._announce(reading)
        sources = [reading for reading in sources if not reading.span.question_number]
        if not sources:
            return
        if not self.adopt:
            refuse_foreign_batch(sources, self.sink)
        draft = UncommittedFiles(
            frame, PartFileWriter(self.table, self.storage_options, schema, {})
        )
        beaten: CommitConflict | None = None
        for _ in range(self.attempts):
            try:
                backs = self._attempt(draft, sources, schema)
                for number, reading in enumerate(sources):
                    self._report(reading, backs.get(number, {}))
                return
            except CommitConflict as error:
                beaten = error
        raise RuntimeError(
            f"the Delta table {self.table} changed under {self.attempts} attempts in a row"
        ) from beaten

    def _attempt(
        self, draft: "UncommittedFiles", sources: list[SourceReading], schema: pa.Schema
    ) -> dict[int, dict[TopicIdPartition, int]]:
        """Admit, write and commit once; return the rewinds, as in `BatchAdmission`.

        Raises CommitConflict.

        A commit that fails in any other way may still have been made (the checkpoint behind it
        failed, a response was lost), so its files stay: the replay finds the fences moved, or a
        vacuum finds the files.
        """
        attempt = TableAttempt.on(self.table, self.storage_options, schema)
        draft.disown(attempt)
        try:
            admission = self._admitted(sources, attempt)
            files = draft.fitted(admission.windows) if admission.fences else draft.discard()
        except BaseException:
            draft.discard()
            raise
        if admission.fences:
            attempt.commit(files, admission.fences, schema)
        return admission.rewinds

    def _admitted(self, sources: list[SourceReading], attempt: TableAttempt) -> BatchAdmission:
        """Apply `member.batch.span.admit_range` to every partition, with the fences of this
        snapshot.
        """
        _refuse_one_topic_twice(sources)
        windows: dict[TopicPartition, OffsetWindow] = {}
        moved: dict[str, int] = {}
        backs: dict[int, dict[TopicIdPartition, int]] = {}
        for number, reading in enumerate(sources):
            for place, bounds in reading.span.ranges.items():
                name = app_id(reading.group, place)
                fence = attempt.fence_or_none(name)
                admission = self._admitted_range(reading, place, fence)
                if isinstance(admission, Rewind):
                    backs.setdefault(number, {})[place] = admission.to
                    admission = Admitted(
                        bounds[1], bounds[1], admission.to if fence is None else None
                    )
                windows[place.topic_partition] = OffsetWindow(admission.lower, *bounds)
                if admission.fence is not None:
                    moved[name] = admission.fence
        return BatchAdmission(windows, moved, backs)

    def _admitted_range(
        self, reading: SourceReading, place: TopicIdPartition, fence: int | None
    ) -> Admitted | Rewind:
        """Return what is admitted of one partition, or a rewind where the batch starts above the
        fence.

        A rewind is asked for only once at each fence, since what comes then is all that exists; and
        not where the log begins no earlier than the batch. A partition without a fence goes back to
        where its log begins.
        """
        bounds = reading.span.ranges[place]
        is_unclaimed = place in reading.span.unclaimed and not self._adopts(reading)
        try:
            return admit_range(place, bounds, fence, is_unclaimed=is_unclaimed)
        except LostOffsets as lost:
            stored, log_start = fetch_group_state(place, reading)
            to = log_start if lost.fence is None else lost.fence
            is_left = to is not None and (log_start is None or log_start < bounds[0])
            if (
                self.rewind
                and to is not None
                and is_left
                and self._rewinds.get((reading.group, place, to)) in (None, bounds)
            ):
                return Rewind(to)
            if self.fail_on_data_loss:
                raise explain_lost_offsets(lost, reading, self.sink, stored, log_start) from None
            return admit_range(place, bounds, fence, fail_on_data_loss=False)

    def _adopts(self, reading: SourceReading) -> bool:
        """Return whether this writer takes over a batch of other sinks, with the offsets as they
        are.
        """
        return self.adopt and self.sink not in (reading.span.sinks or ())

    def _announce(self, reading: SourceReading) -> None:
        """Tell the source the name of this sink, and whether the table has fences of the group."""
        attempt = TableAttempt.on_existing_or_none(self.table, self.storage_options)
        names = (
            app_id(reading.group, place)
            for place in (*reading.span.ranges, *reading.span.unclaimed)
        )
        holds = attempt is not None and any(
            attempt.fence_or_none(name) is not None for name in names
        )
        handover.write_report(reading.span, self.sink, adopt=self.adopt, has_records=holds)

    def _report(self, reading: SourceReading, back: Mapping[TopicIdPartition, int]) -> None:
        """Tell the source its rewinds, and that this sink was given a batch of another sink or of
        several.
        """
        for place, fence in back.items():
            self._rewinds[reading.group, place, fence] = reading.span.ranges[place]
            log.warning(
                "group %s: %s goes back to offset %d, which is what %s has",
                reading.group,
                place,
                fence,
                self.sink,
            )
        sinks = reading.span.sinks
        if back or (sinks is not None and sinks != (self.sink,)):
            handover.write_report(reading.span, self.sink, adopt=self.adopt, rewind=back)

    def _clean_daily(self) -> None:
        """Run `clean` in the background once a day."""
        if monotonic() >= self._clean_at:
            self._clean_at = monotonic() + CLEAN_EVERY_S
            threading.Thread(
                target=_clean_beside, args=(self.table, self.storage_options), daemon=True
            ).start()

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_checked": set(),
            "_rewinds": {},
            "_written": None,
            "_clean_at": 0.0,
        }


def _refuse_one_topic_twice(sources: list[SourceReading]) -> None:
    """Raise ValueError where two sources read one topic.

    A source united with itself is one source.
    """
    readers: dict[str, SourceReading] = {}
    for reading in sources:
        for place in reading.span.ranges:
            if readers.setdefault(place.topic, reading) != reading:
                raise ValueError(
                    f"two sources of this query read topic {place.topic}, and nothing in "
                    "a row says which of them it came from: "
                    "read the topic with one source, or write with a query for each"
                )


def app_id(group: str, place: TopicIdPartition) -> str:
    """Return the app id under which the table keeps one partition's fence for one group."""
    return f"{group}/{topic_id_text(place.topic_id)}/{place.partition}"


def clean(
    table: str, storage_options: Mapping[str, str] | None = None, retention_hours: int | None = None
) -> list[str]:
    """Files of this writer that no version of the table refers to, and older than the retention,
    are gone; returns their paths.

    What others wrote below the table's directory stays, whatever it is.

    retention_hours: None takes the table's own (a week by default). Keep it far above the longest
    batch plus the session timeout: younger files may belong to a batch that is not committed yet.
    """
    try:
        opened = DeltaTable(table, storage_options=dict(storage_options or {}))
    except TableNotFoundError:
        return []
    unused = opened.vacuum(
        retention_hours, dry_run=True, enforce_retention_duration=False, full=True
    )
    return delete_files(
        directory(table, storage_options), [path for path in unused if is_part_file(path)]
    )


def _clean_beside(table: str, storage_options: Mapping[str, str] | None) -> None:
    """Run `clean`, logging a failure: the next day comes."""
    try:
        clean(table, storage_options)
    except (DeltaError, OSError) as error:
        log.warning("the daily cleaning of %s did not run: %s", table, error)
