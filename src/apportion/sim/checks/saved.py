"""What a shard has saved, as one value to compare: live against replayed, and against what is left
after a log cleaner.

Nothing in the value depends on how a group numbered its topics, nor on the order in which anything
came.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.config import GroupSettings
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.units import PARTITION, SHIFT, AssignedUnits
from apportion.coord.records import CoordinatorRecord
from apportion.coord.replay import Ledger
from apportion.coord.shard import Shard
from apportion.topics import IdPartition, TopicId, Topics
from apportion.wire.records.codec import encode_key
from apportion.wire.records.groups import (
    ConsumerGroupMemberMetadataValue,
    GroupMetadataValue,
    OffsetCommitValue,
)


class SavedMember(NamedTuple):
    """One member. assigned, revoking: the epoch at which each partition was given. target: in the
    order in which it is given.
    """

    metadata: ConsumerGroupMemberMetadataValue
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: dict[IdPartition, int]
    pending_revocation: dict[IdPartition, int]
    target: tuple[IdPartition, ...] | None


class SavedGroup(NamedTuple):
    """One group, with what is counted beside its members: a counter that is 0 is not there."""

    epoch: int
    assignment_epoch: int
    metadata_hash: int
    members: dict[str, SavedMember]
    instances: dict[str, str]
    subscribers: dict[str, int]
    votes: dict[str, int]
    speakers: dict[str, int]
    classics: int
    settled_at: dict[int, int]
    holders: dict[IdPartition, str]


class SavedShard(NamedTuple):
    """One shard. offsets: by group, topic and partition."""

    groups: dict[str, SavedGroup | GroupMetadataValue | None]
    offsets: dict[str, dict[str, dict[int, OffsetCommitValue]]]


def saved_state(ledger: Ledger) -> SavedShard:
    """All that is saved in `ledger`; it stays what it is when the ledger goes on."""
    return SavedShard(
        {group_id: _group_state(group) for group_id, group in ledger.groups.items()},
        {
            group_id: {topic: dict(partitions) for topic, partitions in topics.items()}
            for group_id, topics in ledger.offsets.items()
        },
    )


def difference_or_none(live: SavedShard, replayed: SavedShard) -> str | None:
    """The first thing that differs, in one sentence; None where nothing does."""
    return None if live == replayed else _difference("", live, replayed)


def replay_records(records: Iterable[CoordinatorRecord]) -> Ledger:
    """What a shard knows that has read these records and nothing else."""
    shard = Shard(GroupSettings(), Topics())
    for record in records:
        shard.replay(record)
    return shard.ledger


def compact(
    records: Sequence[CoordinatorRecord], upto: int, drops_tombstones: bool
) -> list[CoordinatorRecord]:
    """What a log cleaner leaves that has cleaned the first `upto` records: of these the last of
    each key, the rest as it is.

    drops_tombstones: they have stood long enough for the cleaner to take them too.
    """
    left = [records[index] for index in _last_of_each_key(records, upto)]
    return [
        *(record for record in left if not (drops_tombstones and record.value is None)),
        *records[upto:],
    ]


def read_during_compaction(
    records: Sequence[CoordinatorRecord], read: int, upto: int
) -> list[CoordinatorRecord]:
    """What a reader sees who had read `read` records when a cleaner came and cleaned the first
    `upto` (KAFKA-19862).

    It may see what was given and never that it was taken back first; but tombstones stand longer
    than any reader needs.
    """
    left = [records[index] for index in _last_of_each_key(records, upto) if index >= read]
    return [*records[:read], *left, *records[max(read, upto) :]]


def _last_of_each_key(records: Sequence[CoordinatorRecord], upto: int) -> list[int]:
    return sorted(
        {
            encode_key(record.key): index for index, record in enumerate(islice(records, upto))
        }.values()
    )


def _group_state(group: ConsumerGroup | ClassicGroup) -> SavedGroup | GroupMetadataValue | None:
    """What is saved of a group of either kind; of a classic one, the record itself."""
    return group.saved if isinstance(group, ClassicGroup) else _consumer_group_state(group)


def _consumer_group_state(group: ConsumerGroup) -> SavedGroup:
    saved = group.saved
    return SavedGroup(
        saved.epoch,
        saved.assignment_epoch,
        saved.metadata_hash,
        {
            member_id: _member_state(member, saved.units.ids)
            for member_id, member in saved.members.items()
        },
        dict(saved.instances),
        _non_zero(saved.subscriber_counts),
        _non_zero(saved.assignor_votes),
        _non_zero(saved.protocol_counts),
        saved.classic_member_count,
        _non_zero(saved.stable_members_by_epoch),
        saved.owners.owned(saved.units),
    )


def _member_state(member: ConsumerGroupMember, ids: list[TopicId]) -> SavedMember:
    target = (
        None
        if member.target is None
        else tuple(_id_partition(unit, ids) for unit in member.target.tolist())
    )
    return SavedMember(
        member.metadata,
        member.epoch,
        member.previous_epoch,
        member.state,
        _epochs_by_partition(member.assigned, ids),
        _epochs_by_partition(member.pending_revocation, ids),
        target,
    )


def _epochs_by_partition(grants: AssignedUnits, ids: list[TopicId]) -> dict[IdPartition, int]:
    places = [_id_partition(unit, ids) for unit in grants.units.tolist()]
    return dict(zip(places, grants.epochs.tolist(), strict=True))


def _non_zero(counts: dict[Any, int]) -> dict[Any, int]:
    return {name: count for name, count in counts.items() if count}


def _difference(where: str, live: Any, replayed: Any) -> str:
    """`live` and `replayed`, which stand at `where` and are not equal: the first that differs in
    them, by name.
    """
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
    """The key of a table as people say it: partitions by their topic's id."""
    return f"{name[0].hex()}-{name[1]}" if isinstance(name, tuple) else str(name)


def _value_text(value: Any) -> str:
    """A value as people read it: targets as a list of partitions."""
    return f"[{', '.join(map(_key_text, value))}]" if type(value) is tuple else repr(value)


def _id_partition(unit: int, ids: list[TopicId]) -> IdPartition:
    return IdPartition(ids[unit >> SHIFT], unit & PARTITION)
