"""The laws of records that plain consumers deliver, and of the positions that they commit.

A group of consumers delivers every record at least once. It delivers one again only where a
position was not committed: a consumer died, was fenced, or got no answer. So a tenure, the time in
which one consumer uses a partition without a break, begins at the last offset whose commit was
acknowledged, if it goes on where that one ended, and never beyond what was delivered.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.sim.kernel.observer import PartitionOwner
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition, TopicPartition


class Tenure(NamedTuple):
    """The use of one partition by one consumer.

    committed: the offset whose commit was acknowledged when it began; 0: none. position: the next
    offset to deliver; None before the first record.
    """

    owner: str
    incarnation: int
    committed: int
    position: int | None = None


class DeliveryChecker:
    """The checks of the readers' group, and the end of each partition as it delivered it."""

    def __init__(self) -> None:
        """Know no delivery yet."""
        self._tenures: dict[tuple[str, TopicIdPartition], Tenure] = {}
        # consumers with a failed request since the last acknowledged commit
        self._unacknowledged: dict[str, None] = {}
        # of each partition, the offset after the last record delivered by anybody
        self._delivered: dict[TopicIdPartition, int] = {}
        self._acknowledged: dict[TopicIdPartition, int] = {}  # the highest commit

    def ownership_changed(self, owner: PartitionOwner) -> None:
        """Begin and end tenures: `owner` uses exactly `owner.in_use` now."""
        in_use = owner.in_use
        for key in [key for key in self._tenures if key[0] == owner.name]:
            tenure = self._tenures[key]
            if tenure.incarnation != in_use.incarnation:
                del self._tenures[key]
            elif key[1] not in in_use.partitions:
                del self._tenures[key]
                self._check_release(owner, key[1], tenure.position)
        for partition in in_use.partitions:
            self._tenures.setdefault(
                (owner.name, partition),
                Tenure(owner.name, in_use.incarnation, self._acknowledged.get(partition, 0)),
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
        if is_lost or owner.name in self._unacknowledged or position is None:
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
        tenure = self._tenures[owner.name, partition]
        end = self._delivered.get(partition, 0)
        if tenure.position is not None:
            if offset != tenure.position:
                raise LawBroken(
                    "delivered-in-order",
                    f"{owner.name} delivered offset {offset} of {partition}, where "
                    f"{tenure.position} was the next.",
                )
        elif offset > end:
            raise LawBroken(
                "none-skipped",
                f"{owner.name} began {partition} at {offset}; nobody has delivered "
                f"[{end}, {offset}).",
            )
        elif offset < tenure.committed:
            raise LawBroken(
                "goes-on-at-commit",
                f"{owner.name} began {partition} at {offset}, where the group had committed "
                f"{tenure.committed}.",
            )
        self._tenures[owner.name, partition] = tenure._replace(position=offset + 1)
        self._delivered[partition] = max(end, offset + 1)

    def request_failed(self, owner: PartitionOwner) -> None:
        """Expect no commit of this consumer until one is acknowledged again."""
        self._unacknowledged[owner.name] = None

    def commit_sent(self, owner: PartitionOwner, offsets: Mapping[TopicIdPartition, int]) -> None:
        """Check that a consumer commits positions of its own partitions, and none undelivered."""
        for partition, offset in offsets.items():
            tenure = self._tenures.get((owner.name, partition))
            if tenure is None:
                raise LawBroken(
                    "commit-is-delivered",
                    f"{owner.name} commits {offset} for {partition}, which it no longer uses.",
                )
            if tenure.position is not None and offset != tenure.position:
                raise LawBroken(
                    "commit-is-delivered",
                    f"{owner.name} commits {offset} for {partition}, and has delivered the records "
                    f"below {tenure.position}.",
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
        self._unacknowledged.pop(owner.name, None)
        for partition, offset in offsets.items():
            # A response may arrive long after another consumer has taken over and committed more.
            self._acknowledged[partition] = max(self._acknowledged.get(partition, 0), offset)
