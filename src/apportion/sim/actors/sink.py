"""A transactional sink with many writers: rows and fences change atomically; a stale fence aborts.

Rows are ranges of offsets. The sink raises LawBroken for a row that is written twice or left out.
"""

from collections.abc import Mapping

from apportion.member.batch.fences import RangeAdmission, advance
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition


class Sink:
    """The rows that were written.

    fences: the next offset of each partition. rows: the ranges of each partition, in order.
    first_offset: where queries begin every log; None: at the group's first committed offset of each
    partition.
    """

    def __init__(self, first_offset: int | None = None) -> None:
        self.first_offset = first_offset
        self.fences: dict[TopicIdPartition, int] = {}
        self.rows: dict[TopicIdPartition, list[tuple[int, int]]] = {}
        self.row_count = 0

    def commit(
        self,
        seen: Mapping[TopicIdPartition, int],
        admitted: Mapping[TopicIdPartition, RangeAdmission],
        first: Mapping[TopicIdPartition, int],
    ) -> bool:
        """Write the admitted rows of a batch and move the fences; return whether it did.

        A fence is a partition's next offset in the sink; `seen` are those by which the rows were
        admitted. Nothing is written if a fence has moved since. first: where partitions without
        rows begin, that is the group's first committed offset of each.
        """
        # As Delta does with app transactions: only the fences of this commit count, so writers of
        # other partitions do not disturb.
        if any(self.fences.get(partition) != seen.get(partition) for partition in admitted):
            return False
        for partition, (lower, to, _) in admitted.items():
            if lower < to:
                self._write(partition, lower, to, first.get(partition))
        self.fences = advance(self.fences, admitted)
        return True

    def _write(self, partition: TopicIdPartition, lower: int, to: int, first: int | None) -> None:
        """Append a range of rows to the sink.

        Raises LawBroken if it overlaps the last one or leaves a gap.
        """
        ranges = self.rows.setdefault(partition, [])
        expected = ranges[-1][1] if ranges else lower if first is None else first
        if lower < expected:
            raise LawBroken(
                "sink-once",
                f"rows [{lower}, {min(to, expected)}) of {partition} are in the sink twice.",
            )
        if lower > expected:
            raise LawBroken(
                "sink-once", f"rows [{expected}, {lower}) of {partition} are not in the sink."
            )
        ranges.append((lower, to))
        self.row_count += to - lower
