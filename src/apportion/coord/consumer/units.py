"""Partitions as integers, and the table of their owners: a group's assignments in arrays.

A unit is one int: the number of its topic, shifted, plus the partition. Topics are numbered as the
group's records first name them, or a target that was computed for the group does, so a unit means
nothing outside its group or after a restart.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from apportion.lazy_imports import lazy_module
from apportion.topics import IdPartition, TopicId, grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    UnitArray = NDArray[np.int64]
    EpochArray = NDArray[np.int32]
else:
    np = lazy_module("numpy")

# A partition index is an int32 in Kafka's messages.
SHIFT = 32
PARTITION = (1 << SHIFT) - 1
UNKNOWN_UNIT = -1
"""The unit of a partition whose topic has no number in the group. Nobody owns it."""


class PartitionsOfTopic(Protocol):
    """Partitions of one topic, as requests and records have them."""

    @property
    def topic_id(self) -> bytes:
        """The topic id."""
        ...

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partition indexes."""
        ...


class PartitionsWithEpochs(PartitionsOfTopic, Protocol):
    """Partitions of one topic with the epochs at which they were assigned, if recorded."""

    @property
    def assignment_epochs(self) -> tuple[int, ...] | None:
        """One epoch for each partition."""
        ...


class AssignedUnits(NamedTuple):
    """Units and, side by side, the epoch at which each was assigned."""

    units: UnitArray
    epochs: EpochArray

    def as_mapping(self) -> dict[int, int]:
        """Return unit -> epoch."""
        return dict(zip(self.units.tolist(), self.epochs.tolist(), strict=True))


@cache
def no_units() -> UnitArray:
    """Return the units of an empty assignment, always the same array."""
    return np.empty(0, np.int64)


@cache
def no_assigned_units() -> AssignedUnits:
    """Return an empty assignment with its epochs, always the same value."""
    return AssignedUnits(no_units(), np.empty(0, np.int32))


class UnitNumbering:
    """The numbers of a group's topics, from which its units are made."""

    __slots__ = ("_numbers", "ids")

    def __init__(self) -> None:
        self.ids: list[TopicId] = []
        self._numbers: dict[TopicId, int] = {}

    def number_or_none(self, topic_id: TopicId) -> int | None:
        """Return the number of the topic; None if it has none."""
        return self._numbers.get(topic_id)

    def unit(self, topic_id: TopicId, partition: int) -> int:
        """Return the unit of a topic partition; UNKNOWN_UNIT for an unknown topic.

        A topic is unknown until a record names it, or a target was computed for its subscribers.
        """
        number = self._numbers.get(topic_id)
        return UNKNOWN_UNIT if number is None else number << SHIFT | partition

    def id_partition(self, unit: int) -> IdPartition:
        """Return the partition that a unit stands for."""
        return IdPartition(self.ids[unit >> SHIFT], unit & PARTITION)

    def reported_units(self, parts: Iterable[PartitionsOfTopic]) -> frozenset[int]:
        """Return the units that the member says it owns.

        With UNKNOWN_UNIT: a member that names a partition it was never assigned must fail the
        subset test of `fencing.may_use_previous_epoch`.
        """
        return frozenset(
            self.unit(part.topic_id, partition) for part in parts for partition in part.partitions
        )

    def assign_units(self, parts: Iterable[PartitionsOfTopic]) -> UnitArray:
        """Return the units of an assignment record.

        New topics get a number, so only `apply_*` may call it.
        """
        packed = [
            np.array(part.partitions, np.int64) + (self._number(part.topic_id) << SHIFT)
            for part in parts
        ]
        if len(packed) == 1:
            return packed[0]
        return np.concatenate(packed) if packed else no_units()

    def adopt(self, ids: Sequence[TopicId]) -> None:
        """Give the topics the numbers that they have in `ids`, where the known ones come first.

        Only `apply_*` may call it, as `assign_units`.
        """
        numbers = [self._number(topic_id) for topic_id in ids]
        assert numbers == [*range(len(ids))], "units were made by other numbers of the topics"

    def assign_units_with_epochs(
        self, parts: tuple[PartitionsWithEpochs, ...], epoch: int
    ) -> AssignedUnits:
        """Return the units of an assignment record, each with its epoch.

        Without recorded epochs all have `epoch`.
        """
        if not parts:
            return no_assigned_units()
        units = self.assign_units(parts)
        # Logs of Kafka before 4.3 lack the epochs (KIP-1251).
        if all(part.assignment_epochs is None for part in parts):
            return AssignedUnits(units, np.full(len(units), epoch, np.int32))
        return AssignedUnits(
            units,
            np.array([since for part in parts for since in _epochs_of(part, epoch)], np.int32),
        )

    def as_topics(self, units: Iterable[int]) -> Iterator[tuple[TopicId, tuple[int, ...]]]:
        """Yield units as topics with partitions, both ascending."""
        return units_by_topic(units, self.ids)

    def _number(self, topic_id: TopicId) -> int:
        """Return the topic's number in this group; give a new topic the next one."""
        number = self._numbers.get(topic_id)
        if number is None:
            number = self._numbers[topic_id] = len(self.ids)
            self.ids.append(topic_id)
        return number


def units_by_topic(
    units: Iterable[int], ids: Sequence[TopicId]
) -> Iterator[tuple[TopicId, tuple[int, ...]]]:
    """Yield units as topics with partitions, both ascending. ids: of the topics, by number."""
    # Ascending, so that equal assignments make equal records and responses.
    pairs = ((unit >> SHIFT, unit & PARTITION) for unit in sorted(units))
    for number, partitions in grouped(pairs).items():
        yield ids[number], partitions


def _epochs_of(part: PartitionsWithEpochs, epoch: int) -> Iterable[int]:
    """Return the epoch at which each partition was assigned, as an assignment record says.

    If the record's list has another length, every partition has `epoch`.
    """
    epochs = part.assignment_epochs
    return (
        epochs
        if epochs is not None and len(epochs) == len(part.partitions)
        else [epoch] * len(part.partitions)
    )


class UnitOwners:
    """The owner of each unit: the member that uses it or has yet to give it up.

    Only while a compacted log is replayed may two members claim one unit: then the later claim
    wins, and a release frees only what the member owns. So the last record of each member decides,
    in whichever order the records survived.
    """

    __slots__ = "_by_topic"

    def __init__(self) -> None:
        self._by_topic: list[list[str | None]] = []

    def owner_or_none(self, unit: int) -> str | None:
        """Return the member that owns a partition; None if it is free."""
        number, partition = unit >> SHIFT, unit & PARTITION
        if (
            unit == UNKNOWN_UNIT
            or number >= len(self._by_topic)
            or partition >= len(self._by_topic[number])
        ):
            return None
        return self._by_topic[number][partition]

    def owned_count(self, number: int | None, partitions: int) -> int:
        """Return how many of the first partitions of a topic have an owner.

        number: of the topic in this group; None if it has none.
        """
        if number is None or number >= len(self._by_topic):
            return 0
        owners = self._by_topic[number][:partitions]
        return len(owners) - owners.count(None)

    def claim(self, member_id: str, units: list[int]) -> None:
        """Make the member the owner of partitions, whoever had them before."""
        by_topic = self._by_topic
        for unit in units:
            number, partition = unit >> SHIFT, unit & PARTITION
            while number >= len(by_topic):
                by_topic.append([])
            owners = by_topic[number]
            if partition >= len(owners):
                owners.extend([None] * (partition + 1 - len(owners)))
            owners[partition] = member_id

    def release(self, member_id: str, units: list[int]) -> None:
        """Free those of the partitions that the member owns."""
        by_topic = self._by_topic
        for unit in units:
            owners = by_topic[unit >> SHIFT]
            # KAFKA-19862: where compaction removed the records in between, another member may have
            # claimed the unit already.
            if owners[unit & PARTITION] == member_id:
                owners[unit & PARTITION] = None

    def owned(self, units: UnitNumbering) -> dict[IdPartition, str]:
        """Return the owner of each owned partition, by topic id and partition index."""
        return {
            IdPartition(units.ids[number], partition): owner
            for number, owners in enumerate(self._by_topic)
            for partition, owner in enumerate(owners)
            if owner is not None
        }


def by_topic_with_epochs(
    epochs_by_unit: Mapping[int, int], units: UnitNumbering
) -> Iterator[tuple[TopicId, tuple[int, ...], tuple[int, ...]]]:
    """Yield a consumer group member's assignment as its record has it.

    Each topic comes with its partitions, ascending, and their epochs.
    """
    for topic_id, partitions in units.as_topics(epochs_by_unit):
        yield (
            topic_id,
            partitions,
            tuple(epochs_by_unit[units.unit(topic_id, partition)] for partition in partitions),
        )
