"""Log lines that say which partitions a query gained and gave up, one for each rebalance.

A rebalance that moves none of the query's partitions has no line. The lines have a logger of their
own, so that they can be turned off or sent elsewhere.
"""

from collections.abc import Iterable
from typing import NamedTuple

from apportion.member.batch.membership import BatchOwnership
from apportion.readable import listed, readable
from apportion.spark.monitoring.log_lines import rebalance_log as log
from apportion.topics import TopicIdPartition, grouped, ranges

NOTHING_OWNED = BatchOwnership(0, {})
EPOCH_NAMES = {False: "member epoch", True: "generation"}
"""The field's word for a member's epoch, by whether the group is classic."""


class GroupName(NamedTuple):
    """The group of a query, and how the query is a member of it.

    instance_id: that of a static member, or None. classic: the member speaks the classic protocol.
    """

    group_id: str
    instance_id: str | None = None
    classic: bool = False


def partitions_text(partitions: Iterable[TopicIdPartition]) -> str:
    """Return partitions by topic, as `flights 0-3,7, orders 0`."""
    by_topic = grouped((each.topic, each.partition) for each in sorted(partitions))
    return listed([f"{topic} {ranges(numbers)}" for topic, numbers in by_topic.items()])


def count_text(count: int) -> str:
    """Return how many partitions there are, in words."""
    return f"{count} partition{'' if count == 1 else 's'}"


def rebalance_text(before: BatchOwnership, after: BatchOwnership) -> str:
    """Return what a query gained, gave up and lost, and how many partitions it has now.

    Partitions of an earlier incarnation are lost even if they have come back: in between, another
    member may have had them.
    """
    is_new_member = before.incarnation != after.incarnation
    kept = {} if is_new_member else before.partitions
    gone = [each for each in before.partitions if is_new_member or each not in after.partitions]
    gained = [each for each in after.partitions if each not in kept]
    gone_word = "lost with its membership" if is_new_member else "gave up"
    changes = [
        *([f"{gone_word} {partitions_text(gone)}"] if gone else []),
        *([f"gained {partitions_text(gained)}"] if gained else []),
    ]
    return f"{', '.join(changes) or 'joined'}; has {count_text(len(after.partitions))} now"


class RebalanceLines:
    """The log lines of one query's membership, as its partitions change."""

    def __init__(self, group: GroupName) -> None:
        self._group = group
        self._last = NOTHING_OWNED

    def has_change(self, ownership: BatchOwnership, *, is_planned: bool) -> bool:
        """Return whether the query's partitions have changed since the last line.

        is_planned: a micro-batch was planned with them. Until then a new member has no line, as
        its assignment may be on its way.
        """
        return ownership != self._last and (is_planned or bool(self._last.partitions))

    def gives_up_some(self, ownership: BatchOwnership) -> bool:
        """Return whether the member gives up partitions that it had at the last line."""
        return ownership.incarnation == self._last.incarnation and any(
            each not in ownership.partitions for each in self._last.partitions
        )

    def log_change(self, ownership: BatchOwnership, epoch: int) -> None:
        """Log what has changed since the last call.

        epoch: of the member; 0 while it has none.
        """
        text = rebalance_text(self._last, ownership)
        self._last = ownership
        log.info("%s", self._line(f"rebalance: {text}{self._epoch_text(epoch)}"))

    def log_end(self, *, is_confirmed: bool) -> None:
        """Log what becomes of the query's partitions, as it has left its group: once.

        is_confirmed: the coordinator knows that the member has left.
        """
        line, self._last = self.end_line(is_confirmed=is_confirmed), NOTHING_OWNED
        if line:
            log.info("%s", line)

    def end_line(self, *, is_confirmed: bool) -> str:
        """Return the line that `log_end` would log; "" if the query has no partitions."""
        if not self._last.partitions:
            return ""
        names = partitions_text(self._last.partitions)
        if self._group.instance_id is not None:
            return self._line(
                f"ended; the group keeps {names} for static member {self._group.instance_id} "
                "until it is back or its session times out"
            )
        if is_confirmed:
            return self._line(f"left the group: gave up {names}")
        return self._line(
            f"ended without an answer of the coordinator: {names} may have no owner until the "
            "session times out"
        )

    def _epoch_text(self, epoch: int) -> str:
        return f", {EPOCH_NAMES[self._group.classic]} {epoch}" if epoch > 0 else ""

    def _line(self, text: str) -> str:
        # Names of topics are the cluster's, and a terminal obeys control characters.
        return readable(f"group {self._group.group_id}: {text}")
