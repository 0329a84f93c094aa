"""Assignors by weight: `lag-weighted` and `bytes-weighted`.

Both give each member about the same weight of partitions (`assign/weighted.py`), and differ in what
a partition weighs: the records that its group has still to read, or the bytes that a consumer has
read of it in a second. In a consumer group (KIP-848) partitions stay where they are unless a move
is worth it; in a classic group all are given up in each rebalance anyway.
"""

import json
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.assign.subscriptions import Vector
from apportion.assign.weighted import weighted
from apportion.errors import Refused, Unanswerable
from apportion.member.assignors.checks import partitions_of
from apportion.member.assignors.interface import AssignmentQueries, Assignor, FollowUp
from apportion.member.assignors.numbering import Numbering
from apportion.streams.queries import (
    FetchCommittedOffsets,
    ListEndOffsets,
    ListStartOffsets,
)
from apportion.topics import TopicPartition

LEAST_LAG = 1_000
LEAST_BYTES_PER_S = 1_000
LIGHTEST = 20
"""A partition weighs at least this part of the mean, since more may come to any of them."""
MEASURE_MS = 10_000
MOST_USER_DATA_BYTES = 60_000
"""Less than a broker takes of all assignors of a member together."""
MAX_INT64 = 2**63 - 1


class LagWeighted(Assignor):
    """Give each member about the same lag.

    The lag of a partition is the number of records after the group's committed offset; without one,
    of all that there are. The cluster is asked for it when partitions are assigned.
    least: the records for which a partition counts at least, so that small lags move nothing.
    """

    name = "lag-weighted"

    def __init__(self, least: int = LEAST_LAG) -> None:
        self.least = least

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> AssignmentQueries:
        """Ask for all offsets, then assign by lag; by number where the cluster cannot answer."""
        group = Numbering(cluster, members)
        partitions = _partitions(group)
        try:
            lags = yield from _lags(partitions)
        except (Refused, Unanswerable):
            # Who waits for offsets has no assignment at all.
            lags = {}
        return _assigned(group, members, [lags.get(each, 0) for each in partitions], self.least)


def _lags(
    partitions: tuple[TopicPartition, ...],
) -> Generator[Any, Any, dict[TopicPartition, int]]:
    """Ask the cluster for the lag of each partition."""
    ends = yield ListEndOffsets(partitions)
    starts = yield ListStartOffsets(partitions)
    committed = yield FetchCommittedOffsets(partitions)
    return {each: max(0, ends[each] - max(starts[each], committed[each])) for each in partitions}


class BytesWeighted(Assignor):
    """Give each member about the same bytes per second.

    Each consumer measures what it reads of its partitions, and sends that with its metadata when
    its partitions or its subscription change. A while after it has got partitions that it has not
    measured, it asks for a new assignment, so that what it has measured meanwhile counts.
    least: the bytes per second for which a partition counts at least. measure_ms: how long it
    measures.
    """

    name = "bytes-weighted"

    def __init__(self, least: int = LEAST_BYTES_PER_S, measure_ms: int = MEASURE_MS) -> None:
        self.least = least
        self._measure_ms = measure_ms
        self._begun_ms: int | None = None
        # Of the last fetch; before the first one the clock is unknown, and counts from here.
        self._now_ms = 0
        self._follow_up_ms = -measure_ms
        # Each is replaced as a whole, never changed: another thread may read it.
        self._bytes: Mapping[TopicPartition, int] = {}
        self._rates: Mapping[TopicPartition, int] = {}

    def record_fetched(self, fetched: Mapping[TopicPartition, int], at_ms: int) -> None:
        """Add to the bytes that are measured; begin anew every `measure_ms`."""
        if self._begun_ms is None:
            self._begun_ms = at_ms
            # As much later as the clock is ahead of what was taken for the time.
            self._follow_up_ms += at_ms
        self._now_ms = at_ms
        added = {each: self._bytes.get(each, 0) + size for each, size in fetched.items()}
        self._bytes = {**self._bytes, **added}
        elapsed_ms = at_ms - self._begun_ms
        if elapsed_ms >= self._measure_ms:
            self._rates = {
                each: size_bytes * 1_000 // elapsed_ms for each, size_bytes in self._bytes.items()
            }
            self._bytes, self._begun_ms = {}, at_ms

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """Return the bytes per second of each partition that this member has measured, as JSON.

        As many as a heartbeat carries, those with the highest rates.
        """
        by_topic: dict[str, dict[str, int]] = {}
        left_bytes = MOST_USER_DATA_BYTES
        for (topic, number), rate in sorted(self._rates.items(), key=lambda each: (-each[1], each)):
            # With quotes and marks; a name of a topic has ASCII characters alone.
            left_bytes -= len(f'"{number}":{rate},') + (
                0 if topic in by_topic else len(topic) + len('"":{},')
            )
            if left_bytes < 0:
                break
            by_topic.setdefault(topic, {})[str(number)] = rate
        text = json.dumps(by_topic, separators=(",", ":"), sort_keys=True)
        return text.encode() if by_topic else None

    def on_assignment(self, given: Given, generation: int) -> FollowUp | None:
        """Ask for another assignment once new partitions are measured."""
        owned = (TopicPartition(*each) for each in partitions_of(given.partitions))
        now_ms, due_ms = self._now_ms, self._follow_up_ms
        # A follow-up that is still to come stays, also if what it is for is measured by then: it is
        # the way by which the others hear of that. What follows it is no reason to ask once more,
        # or there would be no end.
        is_settled = now_ms >= due_ms and (
            now_ms < due_ms + self._measure_ms or all(each in self._rates for each in owned)
        )
        if is_settled:
            return None
        if now_ms >= due_ms:
            # Twice: what was measured when partitions came is of other partitions in part.
            self._follow_up_ms = due_ms = now_ms + 2 * self._measure_ms
        return FollowUp(0, "partitions are measured", after_ms=due_ms - now_ms)

    def assign(
        self, cluster: ClusterTopics, members: Mapping[str, Subscription]
    ) -> dict[str, Given]:
        """Assign by what was measured; a partition that nobody has measured weighs the mean."""
        group = Numbering(cluster, members)
        partitions = _partitions(group)
        rates = _measured(members)
        known = [rates[each] for each in partitions if each in rates]
        mean = sum(known) // len(known) if known else 0
        weights = [rates.get(each, mean) for each in partitions]
        return _assigned(group, members, weights, self.least)


def _measured(members: Mapping[str, Subscription]) -> dict[TopicPartition, int]:
    """Return the bytes per second of each partition: its owner's word counts, or else the most."""
    rates: dict[TopicPartition, int] = {}
    own: dict[TopicPartition, int] = {}
    for member in members.values():
        owned = partitions_of(member.owned)
        for each, rate in _rates_of(member.user_data).items():
            rates[each] = max(rate, rates.get(each, 0))
            if each in owned:
                own[each] = rate
    return rates | own


def _rates_of(user_data: bytes | None) -> dict[TopicPartition, int]:
    """Return the rates in a member's user data, none if they cannot be read.

    Any client may send them.
    """
    try:
        by_topic = json.loads(user_data or b"{}")
        return {
            TopicPartition(str(topic), int(number)): min(max(0, int(rate)), MAX_INT64)
            for topic, rates in by_topic.items()
            for number, rate in rates.items()
        }
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        return {}


def _partitions(group: Numbering) -> tuple[TopicPartition, ...]:
    """Return all partitions in the order of their numbers in the group."""
    return tuple(
        TopicPartition(topic, number)
        for topic, size in zip(group.topics, group.sizes.tolist(), strict=True)
        for number in range(size)
    )


def _assigned(
    group: Numbering, members: Mapping[str, Subscription], weights: list[int], least: int
) -> dict[str, Given]:
    """Return the assignments by these weights, none of them below `least` or a part of the mean."""
    mean = sum(weights) // len(weights) if weights else 0
    floor = max(least, mean // LIGHTEST, 1)
    raised = [max(weight, floor) for weight in weights]
    owner = _owner(group, members)
    return group.to_given(weighted(owner, group.starts, group.subscriptions, raised))


def _owner(group: Numbering, members: Mapping[str, Subscription]) -> Vector:
    """Return the owners as the members claim; of two claims the one of the newer generation."""
    owner = np.full(int(group.starts[-1]), -1, np.int32)
    by_generation = sorted(
        enumerate(group.members), key=lambda each: (members[each[1]].generation, -each[0])
    )
    for index, member_id in by_generation:
        for topic, number in partitions_of(members[member_id].owned):
            if topic in group.number_of and 0 <= number < group.sizes[group.number_of[topic]]:
                owner[group.starts[group.number_of[topic]] + number] = index
    return owner
