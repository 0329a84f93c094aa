"""The reports of a query's writers on its batches: which sinks they are, and where they stand."""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.member.batch.span import Span
from apportion.member.group_claims import AnotherSink, Sinks, sink_names
from apportion.topics import TopicIdPartition


class WriterReport(NamedTuple):
    """The report of a query's writers to its source on a batch (`ReadWriterReport`).

    sinks: what they write to. adopt: the user gives the group to this query
    (delta.Writer(adopt=True)).
    has_records: a sink has fences of this group already. rewind: by partition, where to go on
    instead of at the end of the last span.
    """

    sinks: Sinks = ()
    adopt: bool = False
    has_records: bool = False
    rewind: Mapping[TopicIdPartition, int] = {}


NO_REPORT = WriterReport()
"""No writer has reported."""


def rewound(previous: Span, rewinds: Mapping[TopicIdPartition, int]) -> Span:
    """Return the query's last span as if it had ended at the offsets in `rewinds`.

    Used where a writer's fences are behind the span (`WriterReport.rewind`). Offsets of partitions
    that the span does not have are ignored.
    """
    moved = {
        partition: (offset, offset)
        for partition, offset in rewinds.items()
        if partition in previous.ranges
    }
    return previous._replace(ranges={**previous.ranges, **moved}) if moved else previous


def sinks_without_report(batch: Span, report: WriterReport) -> Sinks:
    """Return the sinks of a Spark micro-batch whose writer has not reported it.

    () for an empty batch, and for a single sink: a single writer reports no batch of its own.
    """
    sinks = batch.sinks or ()
    if len(sinks) < 2 or not any(start < to for start, to in batch.ranges.values()):
        return ()
    return tuple(sink for sink in sinks if sink not in report.sinks)


def refuse_silent_writers(awaited: Sinks, report: WriterReport) -> None:
    """Raise AnotherSink if the writer of one of the query's sinks has not reported the batch."""
    missing = tuple(sink for sink in awaited if sink not in report.sinks)
    if missing:
        raise AnotherSink(
            f"this query writes to {sink_names(awaited)}, and a batch was not given to "
            f"{sink_names(missing)}: "
            "call every writer for every batch, empty ones too (none behind `if "
            "frame.isEmpty(): return`), "
            "and start again, with the same checkpoint: the group's offsets have not moved "
            "over what is missing, and it is written then. Or, if the query is to write "
            "to fewer tables, "
            "start it with delta.Writer(..., adopt=True)"
        )


class FinishedBatch(NamedTuple):
    """The last batch, which is in the sink, or a question that the writers have answered."""

    span: Span
    report: WriterReport

    @property
    def sinks(self) -> Sinks:
        """The sinks that the query writes to; a question is answered with them."""
        return self.report.sinks if self.span.sinks is None else self.span.sinks

    @property
    def written(self) -> Span:
        """The span as far as the writers keep it, without the records they read again."""
        return rewound(self.span, self.report.rewind)

    @property
    def is_upgrade(self) -> bool:
        """Return whether the query asked its writers and a sink has fences of the group."""
        return self.report.has_records and self.span.asks_for_sinks

    def says_written(self, partition: TopicIdPartition, committed: int | None) -> bool:
        """Return whether the sinks have what is below the end of the span, by their fences.

        Otherwise they are to begin there: after a question in a group that has no offset of it (a
        group of a new name), or that is adopted. committed: the group's offset of the partition.
        """
        end = self.written.end_or_none(partition)
        if end is None or not self.span.question_number:
            return end is not None and end >= (committed or 0)
        return committed is not None and end > committed and not self.report.adopt

    def rewind_offsets(
        self,
        earlier: Mapping[TopicIdPartition, tuple[int, int]],
        committed: Mapping[TopicIdPartition, int | None],
    ) -> dict[TopicIdPartition, int]:
        """Return the offsets to which the Spark query's writers rewind, by partition.

        A partition is left out if it was read past the end of the batch in question since, here or
        by another member. earlier: the offsets that the writers asked for before, each with the end
        of its batch. committed: the group's offsets of the gained partitions.
        """
        ends = self.span.end_offsets()
        requested = {
            **earlier,
            **{
                partition: (offset, ends[partition])
                for partition, offset in self.report.rewind.items()
                if partition in ends
            },
        }
        return {
            partition: offset
            for partition, (offset, end) in requested.items()
            # Past the end of that batch others have read and written, so going back would read it
            # again for nothing.
            if (newest := committed.get(partition)) is None or newest <= end
        }
