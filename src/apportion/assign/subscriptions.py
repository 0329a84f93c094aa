"""Subscriptions as integer vectors, and the input checks of every assignor."""

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.int32]
"""One number for each partition, topic, member or pair (member, topic)."""


class Subscriptions(NamedTuple):
    """The topics to which each member subscribes.

    Member m: `topics[member_starts[m]:member_starts[m + 1]]`, each once, in any order.
    """

    member_starts: Vector
    topics: Vector

    @classmethod
    def of(cls, topics_by_member: Iterable[Iterable[int]]) -> "Subscriptions":
        """Return the subscriptions of members with these topics, member 0 first."""
        lists = [list(topics) for topics in topics_by_member]
        ends = np.cumsum([0, *map(len, lists)])
        return cls(
            ends.astype(np.int32), np.fromiter(chain.from_iterable(lists), np.int32, int(ends[-1]))
        )

    @property
    def members(self) -> int:
        """The number of members."""
        return len(self.member_starts) - 1

    @property
    def is_homogeneous(self) -> bool:
        """True if every member subscribes to the same topics."""
        lengths = np.diff(self.member_starts)
        if (lengths != lengths[:1]).any():
            return False
        if not len(self.topics):
            return True
        # Compared unsorted first: members of one application mostly name their topics in the same
        # order, and sorting is the expensive part.
        rows = self.topics.reshape(self.members, -1)
        return bool((rows == rows[0]).all() or (np.sort(rows, axis=1) == np.sort(rows[0])).all())

    def topics_of_each(self, topics: int) -> Vector:
        """Return the topics that each member of a homogeneous group subscribes to, ascending.

        topics: how many there are. Raises ValueError as `subscribers_of`.
        """
        check_starts(self.member_starts, len(self.topics), "member_starts", "subscriptions")
        first = self.topics[: self.member_starts[1]].copy() if self.members else self.topics
        first.sort()
        if len(first) and (first[0] < 0 or first[-1] >= topics or (first[1:] == first[:-1]).any()):
            subscribers_of(self, topics)  # says which, and of which member
        return first


class Subscribers(NamedTuple):
    """The members that subscribe to each topic.

    Topic t: `members[topic_starts[t]:topic_starts[t + 1]]`, ascending. A pair is one member with
    one topic it subscribes to; its number is its index in `members`.
    """

    topic_starts: Vector
    members: Vector

    @property
    def topics(self) -> Vector:
        """The topic of each pair."""
        topics = np.arange(len(self.topic_starts) - 1, dtype=np.int32)
        return np.repeat(topics, np.diff(self.topic_starts))


def subscribers_of(subscriptions: Subscriptions, topics: int) -> Subscribers:
    """Return the group's subscriptions by topic, for topics 0..topics-1 of an assignor.

    Raises ValueError for an unknown topic and for one that a member names twice.
    """
    member_starts, subscribed = subscriptions
    check_starts(member_starts, len(subscribed), "member_starts", "subscriptions")
    if len(subscribed) and not 0 <= subscribed.min() <= subscribed.max() < topics:
        unknown = int(subscribed[(subscribed < 0) | (subscribed >= topics)][0])
        raise ValueError(
            f"a member subscribes to topic {unknown}, but there are {topics} topics, counted from 0"
        )
    # Stable, so that the members of each topic stay in ascending order: every tie falls to the
    # lower number.
    order = np.argsort(subscribed, kind="stable")
    counts = np.bincount(subscribed, minlength=topics)
    members = np.repeat(np.arange(len(member_starts) - 1, dtype=np.int32), np.diff(member_starts))[
        order
    ]
    subscribers = Subscribers(starts_of(counts), members)
    twice = np.flatnonzero((np.diff(subscribed[order]) == 0) & (np.diff(members) == 0))
    if len(twice):
        raise ValueError(
            f"member {members[twice[0]]} subscribes to topic {subscribed[order][twice[0]]} twice"
        )
    return subscribers


def starts_of(lengths: NDArray[np.integer]) -> Vector:
    """Return the starts of consecutive slices of these lengths, and the end of the last one."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)


def check_starts(starts: Vector, end: int, name: str, things: str) -> None:
    """Raise ValueError unless `starts` cuts 0..end into slices."""
    if not len(starts) or starts[0] != 0 or starts[-1] != end or (np.diff(starts) < 0).any():
        raise ValueError(f"{name} must rise from 0 to {end}, the number of {things}")


def check_owner(owner: Vector, members: int) -> None:
    """Raise ValueError unless each partition that an assignor gets has an owner below `members`.

    An owner of -1 means none.
    """
    if len(owner) and not -1 <= owner.min() <= owner.max() < members:
        partition = int(np.flatnonzero((owner < -1) | (owner >= members))[0])
        raise ValueError(
            f"partition {partition} is owned by member {owner[partition]}, but there are "
            f"{members}, counted from 0"
        )
