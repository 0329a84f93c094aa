"""The admission of a batch to a Delta table by its fences, and the way back to a fence.

Each fence is an app transaction of the table's log, for one group and partition. A batch that
starts above it would leave records out: the source is asked to go back, if the user lets the writer
do so, or the batch is refused.
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from apportion.member.batch.fences import LostOffsets, RangeAdmission, admit_range
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import is_starting, sinks_of
from apportion.spark.delta_sink.files import OffsetWindow
from apportion.spark.delta_sink.ownership import explain_lost_offsets, fetch_group_progress
from apportion.spark.delta_sink.table import TableAttempt
from apportion.spark.queries.introspection import SourceReading, refuse_one_topic_twice
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.uuids import uuid_text

log = logging.getLogger("apportion.spark")


class BatchAdmission(NamedTuple):
    """The rows that a batch may write, by the fences of one snapshot of the table.

    windows: the admitted offsets of each partition. fences: by app id, the fences to set in the
    same commit. rewinds: by index of the source, the partitions that the source is to read again
    from their fence, and of which nothing is written now.
    """

    windows: dict[TopicPartition, OffsetWindow]
    fences: dict[str, int]
    rewinds: dict[int, dict[TopicIdPartition, int]]


class Rewind(NamedTuple):
    """A partition that the source is to read again from an offset; nothing is written of it now."""

    rewind_offset: int


AskedRewinds = dict[tuple[str, TopicIdPartition, int], tuple[int, int]]
"""By group, partition and fence: the offset range of the batch that went back to the fence."""


class FencePolicy:
    """The rule by which one writer admits batches: its table's fences, and the user's options.

    sink: the table's name. asked: the rewinds that the writer has asked for; they are added there.
    fail_on_data_loss, adopt, rewind: the writer's.
    """

    def __init__(
        self,
        sink: str,
        asked: AskedRewinds,
        *,
        fail_on_data_loss: bool,
        adopt: bool,
        rewind: bool,
    ) -> None:
        self._sink, self._fail_on_data_loss = sink, fail_on_data_loss
        self._adopts, self._may_rewind = adopt, rewind
        self._asked = asked

    def admit(self, sources: list[SourceReading], attempt: TableAttempt | None) -> BatchAdmission:
        """Admit each partition's offset range of the batch, by the fences of this snapshot.

        attempt: None where there is no table.
        """
        refuse_one_topic_twice(sources)
        windows: dict[TopicPartition, OffsetWindow] = {}
        fences: dict[str, int] = {}
        rewinds: dict[int, dict[TopicIdPartition, int]] = {}
        for number, reading in enumerate(sources):
            for partition, bounds in reading.span.ranges.items():
                # One app transaction for each partition, so writers of different partitions do not
                # conflict (Delta aborts only for the same app id).
                app_id = app_id_of(reading.group, partition)
                fence = None if attempt is None else attempt.fence_or_none(app_id)
                admission = self._admit_partition(reading, partition, fence)
                if isinstance(admission, Rewind):
                    rewinds.setdefault(number, {})[partition] = admission.rewind_offset
                    # Write nothing of this range. A partition without a fence gets its first one
                    # now: the offset that it goes back to.
                    admission = RangeAdmission(
                        bounds[1], bounds[1], admission.rewind_offset if fence is None else None
                    )
                windows[partition.topic_partition] = OffsetWindow(admission.lower, *bounds)
                if admission.fence is not None:
                    fences[app_id] = admission.fence
        return BatchAdmission(windows, fences, rewinds)

    def _admit_partition(
        self, reading: SourceReading, partition: TopicIdPartition, fence: int | None
    ) -> RangeAdmission | Rewind:
        """Return which offsets of one partition may be written, or a rewind to its fence.

        A rewind is for a batch that starts above the fence: records between the two are missing
        from the table. A partition without a fence goes back to its log start offset.
        Raises LostOffsets where there can be no rewind and the loss must not be ignored.
        """
        bounds = reading.span.ranges[partition]
        required = reading.span.requires_fence(partition) and not self._adopts_batch(reading)
        try:
            return admit_range(partition, bounds, fence, requires_fence=required)
        except LostOffsets as lost:
            # Asked only when something is wrong: a normal batch needs no broker in the driver.
            committed, log_start = fetch_group_progress(reading.group, partition, reading)
            rewind_offset = log_start if lost.fence is None else lost.fence
            if self._may_rewind and rewind_offset is not None:
                if lost.fence is None and rewind_offset >= bounds[0]:
                    # The batch begins where its log does: that is as far as a rewind goes.
                    return admit_range(partition, bounds, None)
                # Another batch above the same fence means that the source went back as far as it
                # could: asking for it once more would never end.
                asked = self._asked.get((reading.group, partition, rewind_offset))
                if (log_start is None or log_start < bounds[0]) and asked in (None, bounds):
                    return Rewind(rewind_offset)
            if self._fail_on_data_loss:
                raise explain_lost_offsets(
                    lost, reading.group, self._sink, committed=committed, log_start=log_start
                ) from None
            return admit_range(partition, bounds, fence, fail_on_data_loss=False)

    def _adopts_batch(self, reading: SourceReading) -> bool:
        """Return whether this writer takes over a batch that was planned for other sinks."""
        return self._adopts and self._sink not in (reading.span.sinks or ())

    def record_rewinds(
        self, reading: SourceReading, rewinds: Mapping[TopicIdPartition, int]
    ) -> None:
        """Record that the source is asked to go back to these fences, and log it."""
        for partition, fence in rewinds.items():
            self._asked[reading.group, partition, fence] = reading.span.ranges[partition]
            log.warning(
                "group %s: %s goes back to offset %d, which is what %s has",
                reading.group,
                partition,
                fence,
                self._sink,
            )


def missing_records_or_none(
    attempt: TableAttempt | None,
    group: str,
    stored: Mapping[TopicIdPartition, OffsetAndMetadata],
    sink: str,
) -> LostOffsets | None:
    """Return what a group has committed for a sink and the sink does not have, of one partition.

    attempt: a snapshot of the sink's table; None if there is none. stored: the group's offsets.
    """
    for partition, (offset, metadata) in sorted(stored.items()):
        if not offset or sink not in (sinks_of(metadata) or ()) or is_starting(metadata):
            continue
        fence = None if attempt is None else attempt.fence_or_none(app_id_of(group, partition))
        if fence is None or fence < offset:
            return LostOffsets(partition, fence, offset)
    return None


def app_id_of(group: str, partition: TopicIdPartition) -> str:
    """Return the app id of Delta's `txn` action that stores a partition's fence for a group."""
    return f"{group}/{uuid_text(partition.topic_id)}/{partition.partition}"
