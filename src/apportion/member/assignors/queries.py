"""The queries that an assignor may yield before it assigns; the cluster's answers are sent back.

`errors.Unanswerable` is thrown in where the cluster cannot answer now, `errors.Refused` where it
never can. Those that Kafka Streams needs, too, are in `streams/queries.py`.
"""

from dataclasses import dataclass

from apportion.rules import RuleQuery
from apportion.streams.queries import FetchCommittedOffsets, ListEndOffsets
from apportion.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class ListStartOffsets(RuleQuery):
    """List the first offsets of these partitions. The answer maps each of them to its offset."""

    partitions: tuple[TopicPartition, ...]


__all__ = ["FetchCommittedOffsets", "ListEndOffsets", "ListStartOffsets"]
