"""A stream that cannot begin: Spark is told why when it asks for the first offsets.

Raised in `streamReader`, the error would be hidden: Spark's process then fails over the reader that
it has not got.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from apportion.spark.options.values import OptionError
from apportion.spark.processes.plain_errors import without_traceback
from apportion.spark.reading.admission_control import ReadLimit, SupportsTriggerAvailableNow


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream whose options are refused: every question is answered by the error."""

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        with without_traceback():
            raise self._error

    def initialOffset(self) -> dict[str, Any]:
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raise the error."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        """Raise the error."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error: a restart asks for these first."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise the error."""
        self._refuse()
