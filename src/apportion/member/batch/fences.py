"""The rule that admits a micro-batch to an exactly-once sink: fencing.

Exactly once, the problem: Spark repeats a batch after a failure, and an application that lost its
partitions without knowing goes on writing them. Neither may bring a record to the sink twice, and
no record may be left out between two batches.

The method is fencing (an idempotent write by a stored high-water mark). The sink keeps one number
for each partition, its fence: the offset after the last one that it has. A batch `[start, to)` and
its new fences are written in one transaction, which fails if a fence has moved since it was read.
`admit_range` compares:

| fence | admitted of `[start, to)` | new fence |
|---|---|---|
| none | all, or nothing where there must be one (`Span.requires_fence`) | `to` |
| below `start` | nothing: LostOffsets, as `[fence, start)` would never be written | |
| from `start` up to `to` | `[fence, to)`: what is below was written by an earlier attempt | `to` |
| above `to` | nothing: all of it was written already | unchanged |

Why each offset is written once: of two transactions that read the same fence one fails, so admitted
ranges follow one another without overlap; and they leave no gap, as a range above the fence is
refused.

Record by record: a row is known by partition and offset alone, never by its place in the batch or
by a count, since compaction and transaction markers leave holes among the offsets. Of the rows of
`[start, to)` the sink writes those with an offset of at least `lower` (`RangeAdmission`), and drops
the others. A range without any row still moves the fence, or the next batch would look like a gap.

Example: fence 5, batch [3, 9): rows 5 to 8 are written and the fence becomes 9. The same batch
again: fence 9, nothing is written. A batch [12, 15): LostOffsets, since 9 to 11 are missing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.member.batch.span import Span
from apportion.topics import TopicIdPartition


class LostOffsets(ValueError):
    """Offsets between a sink's fence and the next batch were never written to the sink.

    fence: None where the sink has none, and the batch does not start where a sink may begin.
    """

    def __init__(
        self, partition: TopicIdPartition, fence: int | None, start: int, why: str = ""
    ) -> None:
        """Create the error for a batch whose range starts above the sink's fence.

        fence: the sink's next offset of the partition; None if it has none. why: another sentence.
        """
        if fence is None:
            what = (
                f"{partition}: the sink has nothing of it, but the batch starts at {start}, above "
                "records that it should have"
            )
        else:
            what = (
                f"{partition}: the sink has everything below offset {fence}, but the batch starts "
                f"at {start}: {start - fence} lost"
            )
        super().__init__(f"{what}. {why}" if why else what)
        self.partition, self.fence, self.start = partition, fence, start


class RangeAdmission(NamedTuple):
    """The rows of one partition's range that a sink may write: those in `[lower, to)`.

    fence: the sink's new fence, to be set in the same transaction; None if it stays.
    """

    lower: int
    to: int
    fence: int | None


def lowest_admitted(start: int, fence: int) -> int:
    """Return the first offset of a range that the sink does not have yet.

    A guard: the fence wins over the start, or a repeated batch would be written twice.
    """
    return max(start, fence)


def admit_range(
    partition: TopicIdPartition,
    offset_range: tuple[int, int],
    fence: int | None,
    *,
    requires_fence: bool = False,
    fail_on_data_loss: bool = True,
) -> RangeAdmission:
    """Return the offsets of a micro-batch's range that a sink may write, by the sink's fence.

    A fence is the offset after the last one that the sink has of the partition.
    fence: None if the sink has none for this partition. requires_fence: as `Span.requires_fence`
    says: without one the range is refused.
    Raises LostOffsets, unless `fail_on_data_loss` is False.
    """
    start, to = offset_range
    if fence is None:
        # The sink never got the records below the start, or it has lost them.
        if requires_fence and fail_on_data_loss:
            raise LostOffsets(partition, None, start)
        return RangeAdmission(start, to, to)
    # A gap: `[fence, start)` would never be written.
    if start > fence and fail_on_data_loss:
        raise LostOffsets(partition, fence, start)
    return RangeAdmission(min(lowest_admitted(start, fence), to), to, to if to > fence else None)


def admit(
    batch: Span, fences: Mapping[TopicIdPartition, int], *, fail_on_data_loss: bool = True
) -> dict[TopicIdPartition, RangeAdmission]:
    """Return the ranges of a micro-batch that a sink may write: `admit_range` of each partition."""
    return {
        partition: admit_range(
            partition,
            offset_range,
            fences.get(partition),
            requires_fence=batch.requires_fence(partition),
            fail_on_data_loss=fail_on_data_loss,
        )
        for partition, offset_range in batch.ranges.items()
    }


def advance(
    fences: Mapping[TopicIdPartition, int], admitted: Mapping[TopicIdPartition, RangeAdmission]
) -> dict[TopicIdPartition, int]:
    """Return the sink's fences after the transaction that wrote the admitted ranges."""
    moved = {
        partition: admission.fence
        for partition, admission in admitted.items()
        if admission.fence is not None
    }
    return {**fences, **moved}
