"""The running query of a writer that Spark Connect calls, without the JVM.

The server calls the function of foreachBatch in a Python process of its own, one for each run of a
query. What a batch reads is in the file that the source has left (`queries/planned_batches.py`).
Whether the query keeps state is in its printed plan (`queries/plan_text.py`), which the session
that started it shows; the frame of a batch belongs to a clone of that session, which lists no
query.
"""

import os
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from apportion.spark.delta_sink.columns import refuse_missing_columns
from apportion.spark.errors import PlainError
from apportion.spark.queries.introspection import SourceReading
from apportion.spark.queries.plan_text import printed_plan
from apportion.spark.queries.planned_batches import planned_batches
from apportion.spark.queries.stateless import StatefulQuery
from apportion.spark.reading.source_columns import load_id
from apportion.spark.versions import connect_shows_queries

if TYPE_CHECKING:
    from pathlib import Path

BESIDE_ANOTHER = (
    'this query reads another stream beside format("apportion"), and Spark Connect does not show '
    "the writer which batches have rows of the other stream only: write each stream with a query "
    "of its own, or start the query from a classic SparkSession"
)


class ConnectRefused(PlainError, RuntimeError):
    """Spark Connect does not show the writer what it must know of this query."""


class ConnectQuery:
    """The query of a writer in a Connect server's process, over all batches of one run."""

    def __init__(self) -> None:
        self.run = str(os.getpid())
        self._session: SparkSession | None = None
        self._frame: DataFrame | None = None
        self._batch_id = 0
        self._file: Path | None = None  # of this query's source
        self._last: tuple[int, SourceReading] | None = None

    def begin(self, session: SparkSession | None, frame: DataFrame, batch_id: int) -> None:
        """Note the batch that the writer was given. session: the one that started the query."""
        self._session, self._frame, self._batch_id = session, frame, batch_id

    def refuse_state(self) -> None:
        """Raise StatefulQuery if the query keeps state, ConnectRefused if nothing can be said."""
        session: Any = self._session or self._of_batch().sparkSession
        if not connect_shows_queries(session.version):
            raise ConnectRefused(
                "apportion's writer works through Spark Connect from Spark 4.2 on, and this server "
                f"has {session.version}: start the query from a classic SparkSession"
            )
        at_this_batch = [
            plan
            for plan in map(printed_plan, session.streams.active)
            if plan.foreach_batch_or_none() == self._batch_id
        ]
        plans = [plan for plan in at_this_batch if plan.count_sources()]
        if not plans:
            # Of a stream without new rows the plan does not say what it is.
            if any(plan.count_streams() > 1 for plan in at_this_batch):
                raise ConnectRefused(BESIDE_ANOTHER)
            raise ConnectRefused(
                "the session lists no running query whose foreachBatch was given batch "
                f'{self._batch_id} of format("apportion"), so the plan of this query cannot be '
                "checked: make the writer where the query is started, and not within the function "
                "of foreachBatch"
            )
        # Of several such queries nothing says which is this one, and none of them may keep state.
        for plan in plans:
            operator = plan.stateful_operator_or_none()
            if operator:
                raise StatefulQuery(operator)
            if plan.count_sources() > 1:
                raise ConnectRefused(
                    'this query reads from format("apportion") more than once, and Spark Connect '
                    "shows the writer one source only: subscribe to all topics with one source, "
                    "or write with a query for each, or start it from a classic SparkSession"
                )
            # Without new rows the source is asked for no tasks, and leaves no batch.
            if plan.count_streams() > 1:
                raise ConnectRefused(BESIDE_ANOTHER)

    def readings(self) -> list[SourceReading]:
        """Return the query's source with the span of the batch."""
        reading = self._source_reading()
        # A source has planned another span for each batch: its file was not written for this one.
        if self._last is not None and self._last[0] != self._batch_id and self._last[1] == reading:
            raise ConnectRefused(_no_batch(self._batch_id))
        self._last = self._batch_id, reading
        return [reading]

    def _source_reading(self) -> SourceReading:
        refuse_missing_columns(self._of_batch())
        load = load_id(self._of_batch().schema)
        if not load:
            raise ConnectRefused(
                "the column offset of this batch does not say which source it came from, and Spark "
                "Connect shows the writer nothing else. A schema that is given as a text loses it: "
                "give mapInArrow and the like the schema of a frame, as in "
                "rows.mapInArrow(function, rows.schema), or put it back by "
                '.withMetadata("offset", events.schema["offset"].metadata)'
            )
        batches = planned_batches(load)
        if self._file is None:
            if len(batches) > 1:
                raise ConnectRefused(
                    "two running queries read from one load(), and Spark Connect does not show the "
                    "writer which of them is its own: give each query a load() of its own"
                )
            self._file = next(iter(batches), None)
        reading = None if self._file is None else batches.get(self._file)
        if reading is None:
            raise ConnectRefused(_no_batch(self._batch_id))
        return reading

    def _of_batch(self) -> DataFrame:
        assert self._frame is not None  # `begin` comes first
        return self._frame


def _no_batch(batch_id: int) -> str:
    """Return the sentence for a batch that the query's source has not left in its file."""
    return (
        f"nothing says what batch {batch_id} reads: the source leaves it in the temporary "
        "directory of the Connect server. Let TMPDIR name a directory where the server's user may "
        "write, the same for its Java process and its Python processes"
    )
