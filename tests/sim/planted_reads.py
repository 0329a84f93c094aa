"""Bugs to be found in the rule by which a query's task reads a range: see `planted.py`."""

from apportion.member.batch import range_reader
from apportion.member.batch.range_reader import RangeReader
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.time_limits import metadata_limit_ms
from apportion.rules import Rule
from tests.sim.bug import Planted


def skip_to_the_end(self: RangeReader, fetch: PartitionFetch) -> None:
    self.position = self.end


def raise_anything(error: Exception) -> None:
    raise error


def name_exists(self: RangeReader) -> Rule[bool]:
    topics = yield from self._look_up(
        lambda: self._cache.topics([self._partition.topic], fresh=True),
        metadata_limit_ms(self._timeouts.request_ms),
    )
    return topics.named(self._partition.topic) is not None


READS = (
    Planted(
        "answered-is-read",
        "The leader was asked for the whole range, so its answer has all of it.",
        ((RangeReader, "_advance", skip_to_the_end),),
    ),
    Planted(
        "task-ends-at-once",
        "Spark repeats a task that has failed, so its first error may end it.",
        ((range_reader, "raise_unless_retriable", raise_anything),),
    ),
    Planted(
        "same-name-is-there",
        "The topic exists, so its records will come.",
        ((RangeReader, "_topic_exists", name_exists),),
    ),
)
"""The guards of `member.batch.range_reader`."""
