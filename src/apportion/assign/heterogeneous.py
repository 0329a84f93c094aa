"""`uniform` where members want different topics: min-max fair shares, from `fair_counts`, made into an owner of each partition."""

import numpy as np

from apportion.assign.fair import fair_counts
from apportion.assign.sticky_quota import free_above_quota, partition_counts
from apportion.assign.subscriptions import Subscribers, Subscriptions, Vector, check_owner, check_starts, subscribers_of


def uniform_heterogeneous(owner: Vector, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Every partition that somebody wants has an owner who wants it, loads are min-max fair, and no fair answer moves fewer.

    A move takes a partition from a member that still wants its topic. A member keeps the first partitions it has of a topic.
    Raises ValueError for an owner that is not a member, and for an unknown topic.
    """
    check_starts(starts, len(owner), "starts", "partitions")
    check_owner(owner, len(subscriptions[0]) - 1)
    subscribers = subscribers_of(subscriptions, len(starts) - 1)
    place = owner_pairs(owner, starts, subscribers)
    held = partition_counts(place, len(subscribers.members))
    granted = fair_counts(np.diff(starts).astype(np.int64), subscribers, held)
    free = free_above_quota(granted, place, held)
    wanted = np.diff(subscribers.topic_starts) > 0
    result = np.where(free, np.int32(-1), owner)
    result[free & np.repeat(wanted, np.diff(starts))] = np.repeat(subscribers.members, np.maximum(granted - held, 0))
    return result


def owner_pairs(owner: Vector, starts: Vector, subscribers: Subscribers) -> Vector:
    """Of each partition, the claim by which its owner holds it; -1 where nobody does, or one who does not want its topic."""
    claims = np.full(len(owner), -1, np.int32)
    topic_starts, members = subscribers
    claim_of = np.full(int(owner.max(initial=-1)) + 2, -1, np.int32)  # the last row answers for owner -1
    size = len(claim_of) - 1
    for topic in range(len(starts) - 1):
        wanting = members[topic_starts[topic] : topic_starts[topic + 1]]
        wanting = wanting[: np.searchsorted(wanting, size)]
        claim_of[wanting] = np.arange(topic_starts[topic], topic_starts[topic] + len(wanting))
        part = slice(starts[topic], starts[topic + 1])
        claims[part] = claim_of.take(owner[part], mode="wrap")
        claim_of[wanting] = -1
    return claims
