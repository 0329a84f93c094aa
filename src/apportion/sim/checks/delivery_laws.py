"""The laws of records that plain consumers deliver, and of the positions that they commit.

A group of consumers delivers every record at least once. It delivers one again only where a
position was not committed: a consumer died, was fenced, or got no answer. So a use, the time in
which one consumer uses a partition without a break, begins at the committed offset that the
coordinator has shown to this consumer after the consumer had adopted the partition, never before
one whose commit was acknowledged when the consumer asked, and never beyond what was delivered.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.sim.kernel.observer import PartitionOwner
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition, TopicPartition, Topics


class OffsetRequest(NamedTuple):
    """A consumer's request for the committed offset of a partition that it had adopted.

    acknowledged: the offset whose commit was acknowledged when the consumer asked first; 0: none.
    The group may have removed a consumer that is paused or cut off meanwhile, and others may have
    committed more. offset: the answer; None without one, 0 if none was committed.
    """

    incarnation: int
    acknowledged: int
    offset: int | None = None


class PartitionUse(NamedTuple):
    """The use of one partition by one consumer.

    start: the committed offset that the consumer fetched for it after it had adopted it; None if it
    fetched none. committed: the offset whose commit was acknowledged when it asked; 0: none.
    position: the next offset to deliver; None before the first record. unsaved: the offset of the
    last commit that failed.
    """

    incarnation: int
    start: int | None
    committed: int
    position: int | None = None
    unsaved: int | None = None


class DeliveryChecker:
    """The checks of plain consumers' groups, and the end of each partition as they delivered it.

    existing_topics: returns the topics of the broker; while it is down, those that it had.
    """

    def __init__(self, existing_topics: Callable[[], Topics]) -> None:
        """Know no delivery yet."""
        self._existing_topics = existing_topics
        self._uses: dict[tuple[str, TopicIdPartition], PartitionUse] = {}
        # by consumer and partition: its last request, until a use begins with it
        self._requests: dict[tuple[str, TopicIdPartition], OffsetRequest] = {}
        # of each group's partition, the offset after the last record delivered by anybody in it
        self._delivered: dict[tuple[str, TopicIdPartition], int] = {}
        self._acknowledged: dict[tuple[str, TopicIdPartition], int] = {}  # the highest commit

    def ownership_changed(self, owner: PartitionOwner) -> None:
        """Begin and end uses: `owner` uses exactly `owner.in_use` now."""
        in_use = owner.in_use
        for key in [key for key in self._uses if key[0] == owner.name]:
            use = self._uses[key]
            if use.incarnation != in_use.incarnation:
                del self._uses[key]
            elif key[1] not in in_use.partitions:
                del self._uses[key]
                self._check_release(owner, key[1], use)
        if in_use.incarnation == 0:
            # The process ended; the incarnations of the next one begin anew.
            self._requests = {
                key: request for key, request in self._requests.items() if key[0] != owner.name
            }
        for partition in in_use.partitions:
            key = owner.name, partition
            if key not in self._uses:
                # Taken out: the next use of the partition needs a request of its own.
                request = self._requests.pop(key, None)
                if request is not None and request.incarnation == in_use.incarnation:
                    start, committed = request.offset, request.acknowledged
                else:
                    start = None
                    committed = self._acknowledged.get((owner.group, partition), 0)
                self._uses[key] = PartitionUse(in_use.incarnation, start, committed)

    def _check_release(
        self, owner: PartitionOwner, partition: TopicIdPartition, use: PartitionUse
    ) -> None:
        """Check that a consumer has committed its position in a partition that it gives up."""
        view = owner.member.view()
        is_lost = (
            view.incarnation != owner.in_use.incarnation
            or view.error is not None
            # It left because the application did not poll in time.
            or view.target is None
        )
        # A commit of this very position was refused or had no answer.
        has_failed = use.unsaved == use.position
        # Nobody can commit for a topic that was deleted.
        is_deleted = self._existing_topics().with_id(partition.topic_id) is None
        if is_lost or has_failed or is_deleted or use.position is None:
            return
        # Others may have gone on from there: a paused consumer gives up what it was removed from.
        if self._acknowledged.get((owner.group, partition), 0) < use.position:
            raise LawBroken(
                "released-with-commit",
                f"{owner.name} gave up {partition} at {use.position}; the group has committed "
                f"{self._acknowledged.get((owner.group, partition))}.",
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
        end = self._delivered.get((owner.group, partition), 0)
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
        elif offset != use.start:
            raise LawBroken(
                "goes-on-at-commit",
                f"{owner.name} began {partition} at {offset}, where it had fetched {use.start} as "
                "the committed offset.",
            )
        self._uses[owner.name, partition] = use._replace(position=offset + 1)
        self._delivered[owner.group, partition] = max(end, offset + 1)

    def committed_requested(
        self, owner: PartitionOwner, incarnation: int, partitions: Iterable[TopicIdPartition]
    ) -> None:
        """Note that a consumer asks for the committed offsets of these partitions.

        Before it has adopted a partition, the last owner may commit once more: a consumer asks then
        only to look for a sink's claim.
        """
        view = owner.member.view()
        for partition in partitions:
            key = owner.name, partition
            is_adopted = incarnation == view.incarnation and partition.id_partition in view.owned
            if is_adopted and key not in self._uses:
                self._requests[key] = OffsetRequest(
                    incarnation, self._acknowledged.get((owner.group, partition), 0)
                )

    def committed_fetched(
        self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int | None]
    ) -> None:
        """Note the committed offsets that the coordinator has shown to a consumer."""
        for partition, offset in offsets.items():
            key = owner.name, partition
            if (request := self._requests.get(key)) is not None:
                self._requests[key] = request._replace(offset=offset or 0)

    def commit_failed(self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]) -> None:
        """Note that a commit was refused or unanswered: its offsets may be stored or not."""
        for partition, offset in offsets.items():
            key = owner.name, partition
            if (use := self._uses.get(key)) is not None:
                self._uses[key] = use._replace(unsaved=offset)

    def poll_failed(self, owner: PartitionOwner, error: Exception) -> None:
        """Refuse the error: nothing in the simulated world is final for a plain consumer."""
        raise LawBroken("poll-goes-on", f"poll of {owner.name} raised {error!r}.")

    def commit_sent(self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]) -> None:
        """Check that a consumer commits positions of its own partitions, and none undelivered."""
        for partition, offset in offsets.items():
            use = self._uses.get((owner.name, partition))
            if use is None:
                raise LawBroken(
                    "commit-is-delivered",
                    f"{owner.name} commits {offset} for {partition}, which it no longer uses.",
                )
            position = use.start if use.position is None else use.position
            if offset != position:
                raise LawBroken(
                    "commit-is-delivered",
                    f"{owner.name} commits {offset} for {partition}, where {position} is the next "
                    "record to deliver.",
                )

    def commit_acknowledged(
        self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]
    ) -> None:
        """Note that a commit was acknowledged: from now on the partitions go on there."""
        for partition, offset in offsets.items():
            # A response may arrive long after another consumer has taken over and committed more.
            key = owner.group, partition
            self._acknowledged[key] = max(self._acknowledged.get(key, 0), offset)

    def range_read(
        self,
        owner: PartitionOwner,
        partition: TopicIdPartition,
        bounds: tuple[int, int],
        offsets: list[int],
    ) -> None:
        """Check that a task has read each record of its range once, in order.

        If the topic was deleted, the last ones may be missing.
        """
        expected = [*range(*bounds)]
        if self._existing_topics().with_id(partition.topic_id) is None:
            expected = expected[: len(offsets)]
        if offsets != expected:
            raise LawBroken(
                "range-is-read",
                f"a task of {owner.name} read the offsets {offsets} of {partition}, where "
                f"[{bounds[0]}, {bounds[1]}) is its range.",
            )
