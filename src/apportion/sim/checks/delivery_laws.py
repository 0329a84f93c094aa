"""The laws of records that plain consumers deliver, and of the positions that they commit.

A group of consumers delivers every record at least once. It delivers one again only where a
position was not committed: a consumer died, was fenced, or got no answer. So a use, the time in
which one consumer uses a partition without a break, begins at the last offset whose commit was
acknowledged or at one that was committed later, and never beyond what was delivered.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.sim.kernel.observer import PartitionOwner
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition, TopicPartition, Topics


class PartitionUse(NamedTuple):
    """The use of one partition by one consumer.

    committed: the offset whose commit was acknowledged when it began; 0: none. position: the next
    offset to deliver; None before the first record.
    """

    incarnation: int
    committed: int
    position: int | None = None


class DeliveryChecker:
    """The checks of the readers' group, and the end of each partition as it delivered it.

    existing_topics: returns the topics of the broker; none while it is down.
    """

    def __init__(self, existing_topics: Callable[[], Topics]) -> None:
        """Know no delivery yet."""
        self._existing_topics = existing_topics
        self._uses: dict[tuple[str, TopicIdPartition], PartitionUse] = {}
        # of each consumer whose last commit failed, the incarnation in which it did
        self._failed_commits: dict[str, int] = {}
        # of each partition, the offset after the last record delivered by anybody
        self._delivered: dict[TopicIdPartition, int] = {}
        self._acknowledged: dict[TopicIdPartition, int] = {}  # the highest commit
        # the offsets that may be stored: those of every commit, answered or not
        self._sent: dict[TopicIdPartition, dict[int, None]] = {}

    def ownership_changed(self, owner: PartitionOwner) -> None:
        """Begin and end uses: `owner` uses exactly `owner.in_use` now."""
        in_use, has_released = owner.in_use, False
        for key in [key for key in self._uses if key[0] == owner.name]:
            use = self._uses[key]
            if use.incarnation != in_use.incarnation:
                del self._uses[key]
            elif key[1] not in in_use.partitions:
                del self._uses[key]
                self._check_release(owner, key[1], use.position)
                has_released = True
        if has_released:
            # The next release is preceded by a commit of its own.
            self._failed_commits.pop(owner.name, None)
        for partition in in_use.partitions:
            self._uses.setdefault(
                (owner.name, partition),
                PartitionUse(in_use.incarnation, self._acknowledged.get(partition, 0)),
            )

    def _check_release(
        self, owner: PartitionOwner, partition: TopicIdPartition, position: int | None
    ) -> None:
        """Check that a consumer has committed its position in a partition that it gives up."""
        view = owner.member.view()
        is_lost = (
            view.incarnation != owner.in_use.incarnation
            or view.error is not None
            # It left because the application did not poll in time.
            or view.target is None
        )
        has_failed = self._failed_commits.get(owner.name) == owner.in_use.incarnation
        # Nobody can commit for a topic that was deleted.
        is_deleted = self._existing_topics().with_id(partition.topic_id) is None
        if is_lost or has_failed or is_deleted or position is None:
            return
        # Others may have gone on from there: a paused consumer gives up what it was removed from.
        if self._acknowledged.get(partition, 0) < position:
            raise LawBroken(
                "released-with-commit",
                f"{owner.name} gave up {partition} at {position}; the group has committed "
                f"{self._acknowledged.get(partition)}.",
            )

    def records_delivered(self, owner: PartitionOwner, records: Iterable[ConsumerRecord]) -> None:
        """Check that each record is the next one of a partition that its consumer uses."""
        view = owner.member.view()
        # What the member gave up or lost is no longer in use, whatever the rule believes.
        named = {
            partition.topic_partition: partition
            for partition in owner.in_use.partitions
            if partition.id_partition in view.owned and view.incarnation == owner.in_use.incarnation
        }
        for record in records:
            name = TopicPartition(record.topic, record.partition)
            partition = named.get(name)
            if partition is None:
                raise LawBroken(
                    "delivered-by-owner",
                    f"{owner.name} delivered offset {record.offset} of {record.topic}-"
                    f"{record.partition}, which it does not own.",
                )
            self._deliver(owner, partition, record.offset)

    def _deliver(self, owner: PartitionOwner, partition: TopicIdPartition, offset: int) -> None:
        use = self._uses[owner.name, partition]
        end = self._delivered.get(partition, 0)
        if use.position is not None:
            if offset != use.position:
                raise LawBroken(
                    "delivered-in-order",
                    f"{owner.name} delivered offset {offset} of {partition}, where "
                    f"{use.position} was the next.",
                )
        elif offset > end:
            raise LawBroken(
                "none-skipped",
                f"{owner.name} began {partition} at {offset}; nobody has delivered "
                f"[{end}, {offset}).",
            )
        elif offset < use.committed:
            raise LawBroken(
                "goes-on-at-commit",
                f"{owner.name} began {partition} at {offset}, where the group had committed "
                f"{use.committed}.",
            )
        elif offset and offset not in self._sent.get(partition, {}):
            raise LawBroken(
                "goes-on-at-commit",
                f"{owner.name} began {partition} at {offset}, which nobody has committed.",
            )
        self._uses[owner.name, partition] = use._replace(position=offset + 1)
        self._delivered[partition] = max(end, offset + 1)

    def commit_failed(self, owner: PartitionOwner) -> None:
        """Note that a commit was refused or unanswered: its offsets may be stored or not."""
        self._failed_commits[owner.name] = owner.in_use.incarnation

    def poll_failed(self, owner: PartitionOwner, error: Exception) -> None:
        """Refuse the error: nothing in the simulated world is final for a plain consumer."""
        raise LawBroken("poll-goes-on", f"poll of {owner.name} raised {error!r}.")

    def commit_sent(self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]) -> None:
        """Check that a consumer commits positions of its own partitions, and none undelivered."""
        for partition, offset in offsets.items():
            self._sent.setdefault(partition, {})[offset] = None
            use = self._uses.get((owner.name, partition))
            if use is None:
                raise LawBroken(
                    "commit-is-delivered",
                    f"{owner.name} commits {offset} for {partition}, which it no longer uses.",
                )
            if use.position is not None and offset != use.position:
                raise LawBroken(
                    "commit-is-delivered",
                    f"{owner.name} commits {offset} for {partition}, and has delivered the records "
                    f"below {use.position}.",
                )
            if offset > self._delivered.get(partition, 0):
                raise LawBroken(
                    "commit-is-delivered",
                    f"{owner.name} commits {offset} for {partition}, of which the records below "
                    f"{self._delivered.get(partition, 0)} are delivered.",
                )

    def commit_acknowledged(
        self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]
    ) -> None:
        """Note that a commit was acknowledged: from now on the partitions go on there."""
        self._failed_commits.pop(owner.name, None)
        for partition, offset in offsets.items():
            # A response may arrive long after another consumer has taken over and committed more.
            self._acknowledged[partition] = max(self._acknowledged.get(partition, 0), offset)
