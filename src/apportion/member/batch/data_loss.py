"""Records that are gone before they were read: data loss, or a warning (failOnDataLoss).

Two causes: a topic was deleted, or recreated under its name; and offsets were deleted by retention
or by DeleteRecords, or are beyond the log's end.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from apportion.machine import Note
from apportion.member.batch.queries import NotReady
from apportion.member.batch.span import Span
from apportion.member.deleted_topics import deleted_partitions
from apportion.rules import Rule
from apportion.topics import TopicIdPartition
from apportion.wire.uuids import uuid_text

# The tasks of a batch raise DataLoss, too, and plan nothing.
if TYPE_CHECKING:
    from apportion.member.batch.plan import BatchPlan


class DataLoss(RuntimeError):
    """Records that should have been read are gone; the text names the offsets and what to do."""


class DataLossCheck:
    """Finds records that are gone. fail: raise DataLoss for them, else log a warning."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail

    def check_revoked(self, previous: Span, owned: tuple[TopicIdPartition, ...]) -> Rule[None]:
        """Report the unread records of deleted topics that the last micro-batch has read.

        owned: the partitions that the member has now; only the others may have been deleted.
        """
        still_owned = dict.fromkeys(owned)
        deleted = yield from deleted_partitions(
            partition for partition in previous.ranges if partition not in still_owned
        )
        if deleted:
            yield from self.report_deleted(previous.end_offsets(), deleted)

    def check_gaps(self, plan: "BatchPlan") -> Rule[None]:
        """Report the offsets that the plan of a micro-batch steps over, as data loss.

        ListOffsets asks by topic name, so the gap may be one of a recreated topic: then NotReady is
        raised, as the coordinator has yet to revoke the deleted topic's partitions.
        """
        if not plan.gaps:
            return
        # Is it a gap of this topic at all?
        deleted = yield from deleted_partitions(gap.partition for gap in plan.gaps)
        if deleted:
            yield from self.report_deleted(
                {gap.partition: gap.expected for gap in plan.gaps}, deleted
            )
            raise NotReady(f"the group does not know yet that topic {deleted[0].topic} was deleted")
        yield from self._report("; ".join(map(str, plan.gaps)))

    def report_deleted(
        self, positions: Mapping[TopicIdPartition, int], deleted: tuple[TopicIdPartition, ...]
    ) -> Rule[None]:
        """Report partitions of deleted topics as data loss: raise DataLoss, or note a warning.

        positions: the next offset to read of each.
        """
        topics = ", ".join(
            dict.fromkeys(
                f"{partition.topic} (id {uuid_text(partition.topic_id)})" for partition in deleted
            )
        )
        unread = ", ".join(
            f"{partition} from offset {positions[partition]}" for partition in deleted
        )
        # The simulator's digests contain this text: with another one they would differ.
        yield from self._report(
            f"topic {topics} was deleted or created again: not read were {unread}"
        )

    def _report(self, what: str) -> Rule[None]:
        if self._fail:
            raise DataLoss(f"{what}. Set failOnDataLoss to false to go on without these records.")
        yield Note("warning", f"{what}; failOnDataLoss is false, so the query goes on")
