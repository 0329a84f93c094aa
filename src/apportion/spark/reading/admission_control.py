"""The source on Spark without admission control: 4.0 and 4.1, whose classes are not those of 4.2.

From 4.2 on, Spark asks a Python source for `latestOffset(start, limit)`; `start` is the end of the
last batch, which is in the sink. Spark 4.0 and 4.1 ask for `latestOffset()`, and the reader must
know by itself where its checkpoint stands. It does, by the order of the calls in one query:

1. Where the checkpoint has offsets, `partitions(last, last)` comes first, with the last one that
   Spark has logged. If that batch was not committed, its replay comes next.
2. Whatever `latestOffset` returns is logged if it is new, and its batch is run and committed before
   `latestOffset` is called again.

So at each `latestOffset()` the last offset that went either way ends a batch that is in the sink;
if there was none, the checkpoint is new.

One setting breaks the order: with spark.sql.streaming.triggerAvailableNowWrapper.enabled=true,
trigger(availableNow=True) calls `latestOffset` before `partitions(last, last)`. What is returned
then is a first question to the query's writers, which changes nothing anywhere, and the call that
comes too late is refused.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from apportion.spark.processes.plain_errors import without_traceback
from apportion.spark.versions import UnsupportedTrigger, has_admission_control

if TYPE_CHECKING:
    import pyarrow as pa

if TYPE_CHECKING or has_admission_control():
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """Limit of what one batch may read."""

    class ReadAllAvailable(ReadLimit):
        """Limit of what is there."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """Limit of so many records."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Mark of readers for trigger(availableNow=True), which these releases do not know."""


__all__ = [
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReaderWithoutStart",
    "SupportsTriggerAvailableNow",
    "suited_to_spark",
]

ONE_BATCH = (
    "this query has planned one batch at the most. If it was started with "
    "trigger(availableNow=True), records may be left unread: Spark runs all of them from version "
    "4.2 on, and before it one batch"
)
WRAPPED = (
    "trigger(availableNow=True) needs Spark 4.2 or newer, whatever "
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled is. Start the query with "
    "trigger(processingTime=...), and stop it when its group has no lag"
)

log = logging.getLogger("apportion.spark")


def suited_to_spark(reader: DataSourceStreamReader) -> DataSourceStreamReader:
    """Return the reader in the form that the installed Spark calls."""
    return reader if has_admission_control() else ReaderWithoutStart(reader)


class ReaderWithoutStart(DataSourceStreamReader):
    """A stream reader for Spark 4.0 and 4.1, around one for later releases."""

    def __init__(self, reader: DataSourceStreamReader) -> None:
        self._reader = reader
        # The offset that Spark has shown first, or was given last.
        self._last: dict[str, Any] | None = None
        self._takes_checkpoint_for_new = False
        self._batches_asked = 0

    def initialOffset(self) -> dict[str, Any]:
        """Return the empty span."""
        return self._reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # as Spark 4.0 declares it
        """Commit the last batch, and return the span of the next one, or the last one's again."""
        self._takes_checkpoint_for_new = self._last is None
        start = self._reader.initialOffset() if self._last is None else self._last
        self._last = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        self._batches_asked += 1
        return self._last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch; none where Spark only shows the checkpoint's last offset."""
        if self._last is None:
            self._last = end
        elif self._takes_checkpoint_for_new and end != self._last:
            with without_traceback():
                raise UnsupportedTrigger(WRAPPED)
        # Any other `end` than the last is of an older batch, whose rows a program reads late.
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read the rows of one task, in an executor."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing, as on later releases."""

    def stop(self) -> None:
        """Leave the group; say it if the query may have ended before it read everything."""
        self._reader.stop()
        if self._last is not None and self._batches_asked < 2:
            log.warning(ONE_BATCH)
