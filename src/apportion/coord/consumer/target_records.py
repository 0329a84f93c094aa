"""The records of the target assignments of many members, encoded from arrays.

The problem. A target of 10,000 members may name a million partitions. As a value, each partition is
a number of Python's, and each topic of each member an object: to make them, to apply them and to
encode them takes seconds, in which the broker would answer nobody.

The method. The partitions of all members lie in one array, by member, topic and number. The bytes
of one topic in one record, a block, are an id, a count, the partitions and no tagged field; blocks
of as many partitions are as long, so NumPy makes all of them at once, and puts each where it
belongs; only a few blocks are made faster one by one. What is left for each member is to cut its
blocks out and to put its key before them. It is all done where the target is computed, beside the
shard if the group is large.

The bytes are those that `encode_value` makes of the record's value (`tests/coord` compares them).

Example: members a and b have the partitions 0 and 2 of topic T, and 1 of T and 5 of U. There are
three blocks, T 0 2, T 1 and U 5. The last two are of one partition each, and made together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from apportion.coord.consumer.units import PARTITION, SHIFT
from apportion.coord.records import CoordinatorRecord
from apportion.lazy_imports import lazy_module
from apportion.wire.record_fields import decode_record, encode_record
from apportion.wire.records.codec import decode_key, decode_value, encode_key, encode_value
from apportion.wire.records.groups import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from apportion.wire.writing import varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from apportion.coord.consumer.units import UnitArray
    from apportion.topics import TopicId

    Numbers = NDArray[np.int64]
else:
    np = lazy_module("numpy")

ID_BYTES = 16
FEW_BLOCKS = 32
"""Up to so many blocks are made faster one by one than at once."""
NO_TAGS = b"\0"
# All of a value but its topics: the version, their number plus one, and no tagged field.
VERSION = encode_value(ConsumerGroupTargetAssignmentMemberValue(topic_partitions=()))[:2]


@dataclass(slots=True, frozen=True, eq=False)
class TargetRecords:
    """ConsumerGroupTargetAssignmentMember records of a group, in order, with what they say.

    In columns: the members, the units of their targets, and the records as `encode_record` returns
    them. ids: of the topics from which the units are made, by number; the first ones are those that
    the group has numbered already.
    """

    group_id: str
    ids: tuple[TopicId, ...]
    member_ids: list[str]
    units: list[UnitArray]
    each_encoded: list[bytes]

    def encoded(self) -> list[bytes]:
        """Return the records as `encode_record` returns them."""
        return self.each_encoded

    def records(self) -> Iterator[CoordinatorRecord]:
        """Yield the records one by one, as they are read from the log."""
        for encoded in self.each_encoded:
            key_bytes, value_bytes, _ = decode_record(encoded)
            assert key_bytes is not None, "a record without a key"
            assert value_bytes is not None, "a tombstone"
            key = decode_key(key_bytes)
            yield CoordinatorRecord(key, decode_value(key, value_bytes))

    def of_members(self, names: Sequence[str | None]) -> TargetRecords:
        """Return the records with these names for the members; those without a name are left out.

        names: one for each record.
        """
        if names == self.member_ids:
            return self
        kept = [index for index, name in enumerate(names) if name is not None]
        encoded = [
            each if name in (None, member_id) else _renamed(each, self.group_id, name)
            for each, member_id, name in zip(self.each_encoded, self.member_ids, names, strict=True)
        ]
        return TargetRecords(
            self.group_id,
            self.ids,
            [name for name in names if name is not None],
            [self.units[index] for index in kept],
            [encoded[index] for index in kept],
        )


def _renamed(encoded: bytes, group_id: str, member_id: str | None) -> bytes:
    """Return an encoded target assignment record as that of another member."""
    assert member_id is not None, "a record that is left out"
    _, value, _ = decode_record(encoded)
    return encode_record(_key(group_id, member_id), value)


def _key(group_id: str, member_id: str) -> bytes:
    """Return the key of a member's target assignment record as the log has it."""
    return encode_key(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    )


def encode_targets(
    group_id: str,
    member_ids: list[str],
    rank: Numbers,
    units: UnitArray,
    *,
    ids: Sequence[TopicId],
) -> TargetRecords:
    """Return the records of the targets of members, in their order.

    rank, units: each assigned unit with the index of its member, ascending; and within a member all
    units of a topic together. A member without units has an empty target. ids: of the topics from
    which the units are made, by number.
    """
    numbers = units >> SHIFT
    is_first = np.ones(len(units), np.bool_)
    # By slices: np.diff costs a small group more than all the rest.
    is_first[1:] = (rank[1:] != rank[:-1]) | (numbers[1:] != numbers[:-1])
    firsts = is_first.nonzero()[0]
    ends = np.concatenate((firsts, (len(units),)))
    blocks, block_ends = _blocks(numbers[firsts], ends, units & PARTITION, ids)
    members = np.arange(len(member_ids) + 1)
    unit_edges = rank.searchsorted(members).tolist()
    edges = rank[firsts].searchsorted(members)
    parts = zip(pairwise(edges.tolist()), pairwise(block_ends[edges].tolist()), strict=True)
    each_encoded = []
    for member_id, ((first, end), (first_byte, end_byte)) in zip(member_ids, parts, strict=True):
        value = (VERSION, varint(end - first + 1), blocks[first_byte:end_byte], NO_TAGS)
        each_encoded.append(encode_record(_key(group_id, member_id), b"".join(value)))
    # Copied, or the target of one member would keep the array of all.
    own = [units[first:end].copy() for first, end in pairwise(unit_edges)]
    return TargetRecords(group_id, tuple(ids), member_ids, own, each_encoded)


def _blocks(
    numbers: Numbers, edges: Numbers, partitions: Numbers, ids: Sequence[TopicId]
) -> tuple[memoryview, Numbers]:
    """Return the bytes of topics with partitions one behind the other, and where they meet.

    numbers: of the topic of each block. edges: block b has partitions[edges[b]:edges[b + 1]]. The
    second result has one entry more than there are blocks, too.
    """
    if len(numbers) <= FEW_BLOCKS:
        return _few_blocks(numbers, edges, partitions, ids)
    counts = edges[1:] - edges[:-1]
    order = counts.argsort(kind="stable")
    # The blocks of as many partitions stand together in this order.
    ascending = counts[order]
    firsts = (ascending[1:] != ascending[:-1]).nonzero()[0] + 1
    alike = [order[first:end] for first, end in pairwise([0, *firsts.tolist(), len(order)])]
    sizes = np.zeros(len(counts) + 1, np.int64)
    formats = []
    for blocks in alike:
        formats.append(_block_format(int(counts[blocks[0]])))
        sizes[blocks + 1] = formats[-1].itemsize
    ends = sizes.cumsum()
    out = bytearray(int(ends[-1]))
    id_of = np.frombuffer(b"".join(ids), f"V{ID_BYTES}")
    for blocks, form in zip(alike, formats, strict=True):
        count = int(counts[blocks[0]])
        rows = np.zeros(len(blocks), form)
        rows["id"] = id_of[numbers[blocks]]
        rows["count"] = np.void(varint(count + 1))
        rows["partitions"] = partitions[edges[blocks][:, None] + np.arange(count)]
        # One place at each byte, so that a block is copied at once, wherever it begins.
        places: NDArray[np.void] = np.ndarray(
            len(out) - form.itemsize + 1, f"V{form.itemsize}", out, strides=(1,)
        )
        places[ends[blocks]] = rows.view(places.dtype)
    return memoryview(out), ends


def _few_blocks(
    numbers: Numbers, edges: Numbers, partitions: Numbers, ids: Sequence[TopicId]
) -> tuple[memoryview, Numbers]:
    """Return what `_blocks` returns, each block made by itself."""
    out, ends = bytearray(), [0]
    big_endian, meets = partitions.astype(">i4"), edges.tolist()
    for number, (first, end) in zip(numbers.tolist(), pairwise(meets), strict=True):
        out += ids[number] + varint(end - first + 1) + big_endian[first:end].tobytes() + NO_TAGS
        ends.append(len(out))
    return memoryview(out), np.array(ends)


@lru_cache(maxsize=256)
def _block_format(partitions: int) -> np.dtype[np.void]:
    """Return the layout of a topic with that many partitions in a record of version 0."""
    return np.dtype(
        [
            ("id", f"V{ID_BYTES}"),
            ("count", f"V{len(varint(partitions + 1))}"),
            ("partitions", ">i4", (partitions,)),
            ("tags", f"V{len(NO_TAGS)}"),
        ]
    )
