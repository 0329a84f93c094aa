"""The exactly-once writer for Delta Lake.

Executors write Parquet files where the partitions are (`files.py`); the driver commits them together with one app transaction
per Kafka partition, which holds the partition's next offset: its fence. A replay, or an application that lost its partitions
without knowing, finds the fence moved and writes nothing. No row passes through the driver.

    events.writeStream.foreachBatch(delta.Writer("/lake/flights")).option("checkpointLocation", "/checkpoints/v1").start()
"""

import logging
import os
import threading
from collections.abc import Mapping
from time import monotonic
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from apportion.member.spans import Place as SourcePlace
from apportion.member.spans import admit, id_text
from apportion.spark.files import (
    PLACE,
    REPORT,
    Files,
    Place,
    Window,
    WrittenFile,
    as_files,
    deleted,
    directory,
    is_ours,
    remove,
    rewritten,
)
from apportion.spark.running import Reading, execution_of, readings
from apportion.spark.stateless import refuse_state
from apportion.spark.table import Attempt, Beaten

CLEAN_EVERY_S = 24 * 3600

log = logging.getLogger("apportion.spark")


class Admission(NamedTuple):
    """What one look at the fences lets a batch write: the windows of its partitions, and the fences to set with it."""

    windows: dict[Place, Window]
    fences: dict[str, int]


class Writer:
    """A function for foreachBatch that puts every record's rows into one Delta table exactly once.

    table: path or URI, created on first use with the query's columns; columns that the table lacks are added. The query must keep
    the source's columns topic, partition and offset; one record may become no, one or several rows. It may have several sources,
    each with topics of its own. Several queries may write to one table, and those of one group must: the fences are the table's.
    Files of lost hosts are removed daily, after the table's own retention (a week unless the table says otherwise), and no others.

    Raises, and so stops the query: StatefulQuery for a query that keeps state; ValueError where the columns are missing or were
    changed, where two sources read one topic, or where the table's directory holds things and no table; LostOffsets where records
    between the table's fence and the batch are gone (unless `fail_on_data_loss` is False); TypeError where a column has another
    type in the table, or the table is partitioned.
    """

    def __init__(
        self,
        table: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        fail_on_data_loss: bool = True,
        attempts: int = 30,
    ) -> None:
        self.table = table if "://" in table else os.path.abspath(table)  # executors may run in other directories
        self.storage_options = storage_options
        self.fail_on_data_loss = fail_on_data_loss
        self.attempts = attempts
        self._checked: set[str] = set()  # run ids of queries whose plan was seen
        self._clean_at = 0.0

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """The rows of the batch that were not in the table are in it, and the fences of its partitions stand at its end."""
        execution = execution_of(frame)
        run = str(execution.runId())
        if run not in self._checked:
            refuse_state(execution, frame.sparkSession._jvm)
            self._checked.add(run)
        self.write(frame, readings(execution))
        self._clean_daily()

    def write(self, frame: DataFrame, sources: list[Reading]) -> None:
        """The rows of `frame`, which were read from `sources`, are in the table, and the fences stand at the end of their spans.

        Tried again with a fresh snapshot for as long as somebody else is quicker.
        """
        schema = table_schema(frame)
        draft = Draft(frame, Files(self.table, self.storage_options, schema, {}))
        beaten: Beaten | None = None
        for _ in range(self.attempts):
            try:
                self._attempt(draft, sources, schema)
                return
            except Beaten as error:
                beaten = error
        raise RuntimeError(f"the Delta table {self.table} changed under {self.attempts} attempts in a row") from beaten

    def _attempt(self, draft: "Draft", sources: list[Reading], schema: pa.Schema) -> None:
        """Admit, write, commit once. Raises Beaten.

        A commit that fails in any other way may still have landed (the checkpoint behind it failed, an answer was lost), so its
        files stay: the replay finds the fences moved, or a vacuum finds the files.
        """
        attempt = Attempt.on(self.table, self.storage_options, schema)
        draft.disown(attempt)
        try:
            admission = self._admitted(sources, attempt)
            files = draft.fitted(admission.windows) if admission.fences else draft.discard()
        except BaseException:
            draft.discard()
            raise
        if admission.fences:
            attempt.commit(files, admission.fences, schema)

    def _admitted(self, sources: list[Reading], attempt: Attempt) -> Admission:
        """The rule of `member.spans.admit` for every partition of the batch, against the fences of this snapshot."""
        _refuse_one_topic_twice(sources)
        windows: dict[Place, Window] = {}
        moved: dict[str, int] = {}
        for group, span in sources:
            names = {place: app_id(group, place) for place in span.ranges}
            fences = {place: fence for place, name in names.items() if (fence := attempt.fence_or_none(name)) is not None}
            for place, admission in admit(span, fences, fail_on_data_loss=self.fail_on_data_loss).items():
                windows[place.topic, place.partition] = Window(admission.lower, *span.ranges[place])
                if admission.fence is not None:
                    moved[names[place]] = admission.fence
        return Admission(windows, moved)

    def _clean_daily(self) -> None:
        """`clean` runs beside the query once a day."""
        if monotonic() >= self._clean_at:
            self._clean_at = monotonic() + CLEAN_EVERY_S
            threading.Thread(target=_clean_beside, args=(self.table, self.storage_options), daemon=True).start()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_checked": set(), "_clean_at": 0.0}


def _refuse_one_topic_twice(sources: list[Reading]) -> None:
    """ValueError where two sources read one topic; a source that is united with itself is one source."""
    readers: dict[str, Reading] = {}
    for reading in sources:
        for place in reading.span.ranges:
            if readers.setdefault(place.topic, reading) != reading:
                raise ValueError(
                    f"two sources of this query read topic {place.topic}, and nothing in a row says which of them it came from: "
                    f"read the topic with one source, or write with a query for each"
                )


def app_id(group: str, place: SourcePlace) -> str:
    """The name under which the table keeps the fence of one partition for one group."""
    return f"{group}/{id_text(place.topic_id)}/{place.partition}"


class Draft:
    """The files of one batch while they wait for their commit."""

    def __init__(self, frame: DataFrame, files: Files) -> None:
        self._frame = frame
        self._files = files
        self._written: list[WrittenFile] | None = None

    def fitted(self, windows: Mapping[Place, Window]) -> list[WrittenFile]:
        """The files with every row of the batch at or above the floors of `windows`, and none below; jobs run as needed."""
        files = self._files._replace(windows=windows)
        if self._written is None:
            self._written = self._run(self._frame, files.write)
            return self._written
        keep = [file for file in self._written if file.first >= windows[file.place].floor]
        straddling = [file for file in self._written if file.first < windows[file.place].floor <= file.last]
        if straddling:
            paths = self._frame.sparkSession.createDataFrame([(file.path,) for file in straddling], "path string")
            keep += self._run(paths, lambda batches: rewritten(files, batches))
        kept = {file.path for file in keep}
        remove(files, [file.path for file in self._written if file.path not in kept])
        self._written = keep
        return keep

    def disown(self, attempt: Attempt) -> None:
        """Files that the table holds are its own: a commit that seemed to be beaten was this draft's after all."""
        if self._written:
            held = attempt.paths()
            self._written = [file for file in self._written if file.path not in held]

    def discard(self) -> list[WrittenFile]:
        """The files are gone, and none is left."""
        remove(self._files, [file.path for file in self._written or ()])
        self._written = []
        return self._written

    @staticmethod
    def _run(frame: DataFrame, write: Any) -> list[WrittenFile]:
        return as_files(frame.mapInArrow(write, REPORT).collect())


def table_schema(frame: DataFrame) -> pa.Schema:
    """The columns of `frame` as the table holds them: nullable, timestamps in UTC. ValueError without the columns of PLACE."""
    missing = [name for name in PLACE.names if name not in frame.columns]
    if missing:
        raise ValueError(
            f"the Delta writer needs the source's columns topic, partition and offset to write each record once; "
            f"this query dropped {', '.join(missing)}"
        )
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    for place in PLACE:
        if schema.field(place.name).type != place.type:
            raise ValueError(
                f"the Delta writer needs the source's column {place.name} as {place.type}; this query made it "
                f"{schema.field(place.name).type}: keep it unchanged and give the other a name of its own"
            )
    return pa.schema([field.with_nullable(True) for field in schema])


def clean(table: str, storage_options: Mapping[str, str] | None = None, retention_hours: int | None = None) -> list[str]:
    """Files of this writer that no version of the table refers to, and older than the retention, are gone; returns their paths.

    What others wrote below the table's directory stays, whatever it is.

    retention_hours: None takes the table's own (a week by default). Keep it far above the longest batch plus the session timeout:
    younger files may belong to a batch that is not committed yet.
    """
    try:
        opened = DeltaTable(table, storage_options=dict(storage_options or {}))
    except TableNotFoundError:
        return []
    unused = opened.vacuum(retention_hours, dry_run=True, enforce_retention_duration=False, full=True)
    return deleted(directory(table, storage_options), [path for path in unused if is_ours(path)])


def _clean_beside(table: str, storage_options: Mapping[str, str] | None) -> None:
    """`clean`, where a failure must not disturb a query: the next day comes."""
    try:
        clean(table, storage_options)
    except (DeltaError, OSError) as error:
        log.warning("the daily cleaning of %s did not run: %s", table, error)
