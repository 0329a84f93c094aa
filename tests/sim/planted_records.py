"""Bugs to be found in the rule of members that read record by record.

See `planted.py`.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from apportion.member.membership import (
    CoordinatorFound,
    Leave,
    Unanswered,
    View,
    assignment,
)
from apportion.member.queries import AdoptAssignment, MembershipSnapshot
from apportion.member.records.fetch_buffer import ConsumerRecord, FetchBuffer
from apportion.member.records.queries import FetchRecords
from apportion.member.records.record_consumer import RecordConsumer
from apportion.member.records.resets import reset_offsets
from apportion.member.records.sink_claims import JoinCheck
from apportion.rules import Rule
from apportion.topics import TopicIdPartition
from apportion.wire.batch import decode_batch
from apportion.wire.messages.list_offsets import LATEST
from tests.sim.bug import Planted, Swap

adopt_target = RecordConsumer._adopt_target  # as they are, whatever stands in their places
start_partitions = RecordConsumer._start_partitions
take = FetchBuffer.take
check_before_join = JoinCheck.run


def adopt_first(self: RecordConsumer, view: View) -> Rule[None]:
    assert view.target is not None
    assigned = tuple((yield from self.resolve_partitions(view.target)))
    self.adopted = assignment(partition.id_partition for partition in assigned)
    now: View = yield AdoptAssignment(view.incarnation, self.adopted)
    is_adopted = (now.incarnation, now.owned) == (view.incarnation, self.adopted)
    self._owned = assigned if is_adopted else ()
    revoked = tuple(each for each in self.positions if each not in assigned)
    if revoked:
        yield from self._revoke_partitions(revoked)


def start_by_policy(self: RecordConsumer, added: tuple[TopicIdPartition, ...]) -> Rule[None]:
    starts = yield from reset_offsets(self.settings.reset, added, "it was assigned")
    self.buffer.positions.update(starts)
    self.changes += 1


def start_before_adopting(self: RecordConsumer, view: View) -> Rule[None]:
    assert view.target is not None
    assigned = yield from self.resolve_partitions(view.target)
    added = tuple(each for each in assigned if each not in self.positions)
    stored = (yield from self._check_claims((), added)) if added else {}
    yield from adopt_target(self, view)
    starts = {
        each: offset
        for each in self._owned
        if each in stored and (offset := stored[each].offset) is not None
    }
    self.buffer.positions.update(starts)
    self.committed |= starts
    self.changes += 1


def forget_positions(self: FetchBuffer, partitions: Any) -> None:
    for partition in partitions:
        self.positions.pop(partition, None)


def take_what_is_there(self: FetchBuffer, limit: int) -> list[ConsumerRecord]:
    taken: list[ConsumerRecord] = []
    while len(taken) < limit and self._batches:
        partition, batch = self._batches.popleft()
        for record in decode_batch(batch):
            if record.offset >= self.positions.get(partition, 0):
                taken.append(ConsumerRecord(partition.topic, partition.partition, *record))
                if partition in self.positions:
                    self.positions[partition] = record.offset + 1
    return taken


def take_whatever_the_group_says(
    self: RecordConsumer, snapshot: MembershipSnapshot, limit: int
) -> list[ConsumerRecord]:
    return self.buffer.take(limit)


def start_one_before(self: RecordConsumer, added: tuple[TopicIdPartition, ...]) -> Rule[None]:
    yield from start_partitions(self, added)
    for partition in added:
        if self.positions.get(partition):
            self.buffer.positions[partition] -= 1
            self.committed[partition] = self.positions[partition]


def start_at_the_end(self: RecordConsumer, added: tuple[TopicIdPartition, ...]) -> Rule[None]:
    self.settings = self.settings._replace(reset=LATEST)
    yield from start_partitions(self, added)
    self.committed |= {each: self.positions[each] for each in added if each in self.positions}


def commit_what_comes_next(self: RecordConsumer) -> dict[TopicIdPartition, int]:
    return {partition: offset + 1 for partition, offset in self.positions.items()}


def start_everything_anew(self: RecordConsumer, view: View) -> Rule[None]:
    yield from self.drop_partitions(tuple(self.positions))
    yield from adopt_target(self, view)


def leave_the_last(self: FetchBuffer, limit: int) -> list[ConsumerRecord]:
    taken = take(self, limit)
    if taken:
        last = taken[-1]
        for partition in self.positions:
            if partition.topic_partition == (last.topic, last.partition):
                self._records = chain((last,), self._records)
                self._records_of = partition
                self.positions[partition] = last.offset
    return taken


def drop_at_once(self: RecordConsumer, revoked: tuple[TopicIdPartition, ...]) -> Rule[None]:
    yield from self.drop_partitions(revoked)


def start_what_is_offered(self: RecordConsumer, view: View) -> Rule[None]:
    assert view.target is not None
    assigned = tuple((yield from self.resolve_partitions(view.target)))
    revoked = tuple(each for each in self.positions if each not in assigned)
    added = tuple(each for each in assigned if each not in self.positions)
    if revoked:
        yield from self._revoke_partitions(revoked)
    if added:
        yield from self._start_partitions(added)
    self.adopted = assignment(partition.id_partition for partition in self.positions)
    yield AdoptAssignment(view.incarnation, self.adopted)
    self._owned = ()


def own_what_was_acknowledged(self: RecordConsumer, view: View) -> Rule[None]:
    yield from adopt_target(self, view)
    assert view.target is not None
    self.adopted = view.target
    self._owned = tuple((yield from self.resolve_partitions(view.target)))


def close_at_once(self: RecordConsumer) -> Rule[None]:
    yield from self.drop_partitions(tuple(self.positions))


def commit_or_raise(self: RecordConsumer, timeout_ms: int) -> Rule[None]:
    yield from self.commit(self.uncommitted(), timeout_ms)


def fetch_or_raise(self: RecordConsumer, wait_ms: int) -> Rule[bool]:
    if not self.positions:
        return False
    for partition, fetched in (yield FetchRecords(self.buffer.rotate_positions(), wait_ms)).items():
        self.buffer.add(partition, fetched)
    return True


def join_unchecked(
    self: JoinCheck, found: CoordinatorFound, names: Iterable[str]
) -> Rule[CoordinatorFound]:
    yield from ()
    return found


def join_without_an_answer(
    self: JoinCheck, found: CoordinatorFound, names: Iterable[str]
) -> Rule[CoordinatorFound | Unanswered | Leave]:
    event = yield from check_before_join(self, found, names)
    return found if isinstance(event, Unanswered) else event


STRAY_CONSUMERS = (
    *("stray-consumer", "crash", "restart", "broker-crash", "broker-pause", "cut"),
    "more-partitions",
)


def reading(name: str, why: str, *swaps: Swap) -> Planted:
    """A bug of those that read record by record, in worlds of nobody else."""
    return Planted(name, why, swaps, {"readers": 3, "workers": 0})


RECORDS = (
    reading(
        "commit-after-adopt",
        "The target is acknowledged as early as possible; the commit has time until then.",
        (RecordConsumer, "_adopt_target", adopt_first),
    ),
    reading(
        "start-without-committed",
        "auto.offset.reset says where a partition starts.",
        (RecordConsumer, "_start_partitions", start_by_policy),
    ),
    reading(
        "start-from-a-look",
        "The committed offsets were read a moment ago, to look for a claim of the group.",
        (RecordConsumer, "_adopt_target", start_before_adopting),
    ),
    reading(
        "start-one-before",
        "The last record may not have been processed.",
        (RecordConsumer, "_start_partitions", start_one_before),
    ),
    reading(
        "start-at-the-end",
        "Nobody has read the partition yet, so nobody misses what is in it.",
        (RecordConsumer, "_start_partitions", start_at_the_end),
    ),
    reading(
        "revoked-records",
        "A revoked partition has no position, so nothing of it is delivered.",
        (FetchBuffer, "drop", forget_positions),
        (FetchBuffer, "take", take_what_is_there),
    ),
    reading(
        "commit-undelivered",
        "The record after the last one is the next to commit.",
        (RecordConsumer, "uncommitted", commit_what_comes_next),
    ),
    reading(
        "position-lost-on-rejoin",
        "A new generation is a new beginning: every partition starts at its committed offset.",
        (RecordConsumer, "_adopt_target", start_everything_anew),
    ),
    reading(
        "delivered-twice",
        "The position moves when the application asks for the record after it.",
        (FetchBuffer, "take", leave_the_last),
    ),
    reading(
        "revoked-without-commit",
        "The next automatic commit is due soon.",
        (RecordConsumer, "_revoke_partitions", drop_at_once),
    ),
    reading(
        "closed-without-commit",
        "The consumer leaves its group, so there is nobody who could commit.",
        (RecordConsumer, "close", close_at_once),
    ),
    reading(
        "used-before-adopted",
        "The target gives the partitions to this member, so it can start them at once.",
        (RecordConsumer, "_adopt_target", start_what_is_offered),
    ),
    reading(
        "commit-failure-raised",
        "The application wants to know that its positions are not committed.",
        (RecordConsumer, "_commit_automatically", commit_or_raise),
    ),
    reading(
        "outage-raised",
        "Without a broker there are no records, and the application should hear why.",
        (RecordConsumer, "_fetch", fetch_or_raise),
    ),
    reading(
        "used-though-withdrawn",
        "The target was acknowledged, so its partitions are this member's.",
        (RecordConsumer, "_adopt_target", own_what_was_acknowledged),
    ),
    reading(
        "taken-after-a-loss",
        "The record is here, and the next poll will look at the group.",
        (RecordConsumer, "take_at_once", take_whatever_the_group_says),
    ),
    Planted(
        "joins-unchecked",
        "The first poll checks whether a sink has claimed the group, and that is soon enough.",
        ((JoinCheck, "run", join_unchecked),),
        kinds=STRAY_CONSUMERS,
    ),
    Planted(
        "joins-without-an-answer",
        "A check that nobody answers must not keep the consumer out of its group.",
        ((JoinCheck, "run", join_without_an_answer),),
        kinds=STRAY_CONSUMERS,
    ),
)
