"""The value of the record ConsumerGroupCurrentMemberAssignment."""

from collections.abc import Mapping

from apportion.coord.consumer.reconcile import CurrentAssignment
from apportion.coord.consumer.units import UnitNumbering, by_topic_with_epochs
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    RecordTopicPartitions,
)


def to_current_assignment_value(
    current: CurrentAssignment[int], units: UnitNumbering
) -> ConsumerGroupCurrentMemberAssignmentValue:
    """Return the ConsumerGroupCurrentMemberAssignment record's value."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=int(current.state),
        assigned_partitions=_with_epochs(current.assigned, units),
        partitions_pending_revocation=_with_epochs(current.pending_revocation, units),
    )


def _with_epochs(
    epochs_by_unit: Mapping[int, int], units: UnitNumbering
) -> tuple[RecordTopicPartitions, ...]:
    """Return partitions with their assignment epochs (KIP-1251) as a record has them."""
    return tuple(
        RecordTopicPartitions(topic_id=topic_id, partitions=partitions, assignment_epochs=epochs)
        for topic_id, partitions, epochs in by_topic_with_epochs(epochs_by_unit, units)
    )
