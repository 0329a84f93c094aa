"""A query as `start()` returns it, of a classic session or of Spark Connect.

PySpark has a class for each of the two, and none above both.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


class SparkQuery(Protocol):
    """A query, as far as it is asked here.

    A classic one also has `_jsq`, its query in the JVM.
    """

    @property
    def id(self) -> str:
        """Return the id of the query, the same after each restart from its checkpoint."""

    @property
    def name(self) -> str | None:
        """Return the name that the program has given; None for none."""

    @property
    def isActive(self) -> bool:
        """Return whether the query runs."""

    @property
    def status(self) -> Mapping[str, Any]:
        """Return what the query does now, in the fields of Spark's JSON."""

    @property
    def lastProgress(self) -> "StreamingQueryProgress | None":
        """Return the progress of the last trigger; None before the first."""

    def awaitTermination(self, timeout: int, /) -> bool | None:
        """Wait for the end, for so many seconds; return whether the query has ended."""

    def explain(self, extended: bool, /) -> None:
        """Print the plan of the last batch, and the logical ones with it where `extended`."""

    def stop(self) -> None:
        """End the query, and interrupt its batch."""

    def exception(self) -> object | None:
        """Return the error with which the query has ended, whose text says why; None for none."""
