"""The saved state of a shard as one value, to compare the live one with a replayed one.

The value does not depend on how a group numbered its topics, nor on the order in which anything
came. `compact` and `read_during_compaction` simulate the log cleaner.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.config import GroupSettings
from apportion.coord.consumer.client_assignors import AgreedAssignor, ClientOffer
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.units import AssignedUnits, UnitNumbering
from apportion.coord.records import CoordinatorRecord, TargetAnswer
from apportion.coord.replay import Ledger
from apportion.coord.shard import Shard
from apportion.topics import IdPartition, Topics
from apportion.wire.records.codec import encode_key
from apportion.wire.records.groups import (
    ConsumerGroupMemberMetadataValue,
    GroupMetadataValue,
    OffsetCommitValue,
)


class SavedMember(NamedTuple):
    """The saved state of one member.

    assigned, pending_revocation: the epoch at which each partition was assigned. target: in the
    order of assignment; None without a target. target_answer: what a client-side assignor said.
    """

    metadata: ConsumerGroupMemberMetadataValue
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: dict[IdPartition, int]
    pending_revocation: dict[IdPartition, int]
    target: tuple[IdPartition, ...] | None
    target_answer: TargetAnswer


class SavedGroup(NamedTuple):
    """The saved state of one consumer group, with its counters.

    A counter that is 0 is left out: the coordinator may keep it or drop it.
    """

    epoch: int
    assignment_epoch: int
    metadata_hash: int
    members: dict[str, SavedMember]
    instances: dict[str, str]
    subscriber_counts: dict[str, int]
    expression_counts: dict[str, int]
    resolutions: dict[str, tuple[str, ...]]
    assignor_votes: dict[str, int]
    client_offers: dict[ClientOffer, int]
    client_assignor: AgreedAssignor | None
    protocol_counts: dict[str, int]
    classic_member_count: int
    stable_members_by_epoch: dict[int, int]
    owners: dict[IdPartition, str]


class SavedShard(NamedTuple):
    """The saved state of one shard. offsets: by group, topic and partition."""

    groups: dict[str, SavedGroup | GroupMetadataValue | None]
    offsets: dict[str, dict[str, dict[int, OffsetCommitValue]]]


def saved_state(ledger: Ledger) -> SavedShard:
    """Return a copy of all that a simulated coordinator shard has saved in `ledger`."""
    return SavedShard(
        {group_id: _group_state(group) for group_id, group in ledger.groups.items()},
        {
            group_id: {topic: dict(partitions) for topic, partitions in topics.items()}
            for group_id, topics in ledger.offsets.items()
        },
    )


def difference_or_none(live: SavedShard, replayed: SavedShard) -> str | None:
    """Return the first difference, in one sentence; None if there is none."""
    return None if live == replayed else _difference("", live, replayed)


def replay_records(records: Iterable[CoordinatorRecord]) -> Ledger:
    """Return the ledger of a coordinator shard that has replayed only these records."""
    shard = Shard(GroupSettings(), Topics())
    for record in records:
        shard.replay(record)
    return shard.ledger


def compact(
    records: Sequence[CoordinatorRecord], cleaned: int, drops_tombstones: bool
) -> list[CoordinatorRecord]:
    """Return the records that the log cleaner leaves after it has cleaned the first `cleaned`.

    Of these it keeps the last of each key. drops_tombstones: they are old enough
    (`delete.retention.ms`) to be removed as well.
    """
    kept = [records[index] for index in _last_of_each_key(records, cleaned)]
    return [
        # With its tombstone a key disappears altogether, so a replay must accept missing
        # predecessors.
        *(record for record in kept if not (drops_tombstones and record.value is None)),
        *records[cleaned:],
    ]


def read_during_compaction(
    records: Sequence[CoordinatorRecord], read: int, cleaned: int
) -> list[CoordinatorRecord]:
    """Return the records of a reader that had read `read` when the first `cleaned` were cleaned.

    A reader may see a record and miss the one that took it back before the next of that key
    (KAFKA-19862). Tombstones stay longer than any reader needs.
    """
    kept = [records[index] for index in _last_of_each_key(records, cleaned) if index >= read]
    return [*records[:read], *kept, *records[max(read, cleaned) :]]


def _last_of_each_key(records: Sequence[CoordinatorRecord], cleaned: int) -> list[int]:
    """Return the indexes of those first `cleaned` records that are the last of their keys.

    The log cleaner keeps them and removes the others.
    """
    return sorted(
        {
            encode_key(record.key): index for index, record in enumerate(islice(records, cleaned))
        }.values()
    )


def _group_state(group: ConsumerGroup | ClassicGroup) -> SavedGroup | GroupMetadataValue | None:
    """Return the saved state of a group; of a classic one it is the record itself.

    That of a consumer group has partitions in place of numbered units.
    """
    if isinstance(group, ClassicGroup):
        return group.saved
    saved = group.saved
    return SavedGroup(
        saved.epoch,
        saved.assignment_epoch,
        saved.metadata_hash,
        {
            member_id: _member_state(member, saved.units)
            for member_id, member in saved.members.items()
        },
        dict(saved.instances),
        _non_zero(saved.subscriber_counts),
        _non_zero(saved.expression_counts),
        dict(saved.resolutions),
        _non_zero(saved.assignor_votes),
        _non_zero(saved.client_offers),
        saved.client_assignor,
        _non_zero(saved.protocol_counts),
        saved.classic_member_count,
        _non_zero(saved.stable_members_by_epoch),
        saved.owners.owned(saved.units),
    )


def _member_state(member: ConsumerGroupMember, units: UnitNumbering) -> SavedMember:
    """Return the saved state of a consumer group's member as a value to compare."""
    target = (
        None if member.target is None else tuple(map(units.id_partition, member.target.tolist()))
    )
    return SavedMember(
        member.metadata,
        member.epoch,
        member.previous_epoch,
        member.state,
        _epochs_by_partition(member.assigned, units),
        _epochs_by_partition(member.pending_revocation, units),
        target,
        member.target_answer,
    )


def _epochs_by_partition(assigned: AssignedUnits, units: UnitNumbering) -> dict[IdPartition, int]:
    return {units.id_partition(unit): epoch for unit, epoch in assigned.as_mapping().items()}


def _non_zero(counts: dict[Any, int]) -> dict[Any, int]:
    return {name: count for name, count in counts.items() if count}


def _difference(where: str, live: Any, replayed: Any) -> str:
    """Return the first difference between two saved states that are unequal at `where`."""
    if isinstance(live, dict):
        for name in sorted({**live, **replayed}):
            if name not in replayed:
                return (
                    f"{where}{_key_text(name)} is {_value_text(live[name])} live and missing "
                    "in the replay."
                )
            if name not in live:
                return (
                    f"{where}{_key_text(name)} is {_value_text(replayed[name])} in the replay "
                    "and missing live."
                )
            if live[name] != replayed[name]:
                return _difference(f"{where}{_key_text(name)}, ", live[name], replayed[name])
    elif hasattr(live, "_fields"):
        for field, ours, theirs in zip(live._fields, live, replayed, strict=True):
            if ours != theirs:
                return _difference(f"{where}{field} ", ours, theirs)
    return (
        f"{where.rstrip(', ')} is {_value_text(live)} live and {_value_text(replayed)} in the "
        "replay."
    )


def _key_text(name: Any) -> str:
    """Return a key of a table for people: a partition by the id of its topic."""
    return f"{name[0].hex()}-{name[1]}" if isinstance(name, tuple) else str(name)


def _value_text(value: Any) -> str:
    """Return a value for people: a target as a list of partitions."""
    return f"[{', '.join(map(_key_text, value))}]" if type(value) is tuple else repr(value)
