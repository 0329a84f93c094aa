"""The server-side assignors by name (`group.consumer.assignors`)."""

from collections.abc import Callable

import numpy as np

from apportion.assign.heterogeneous import uniform_heterogeneous
from apportion.assign.range import range_assignment
from apportion.assign.subscriptions import (
    Subscriptions,
    Vector,
    check_owner,
    check_starts,
    subscribers_of,
)
from apportion.assign.uniform import uniform_homogeneous

ServerAssignor = Callable[[Vector, Vector, Subscriptions], Vector]
"""(owners now, starts of the topics, subscriptions) -> new owners; -1 only for topics without
subscribers.
"""


def uniform(owner: Vector, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return min-max fair owners with the fewest moves: the server-side assignor `uniform`.

    Where all subscriptions are equal, the faster method of `uniform.py` gives the same shares.
    """
    subscriptions = Subscriptions(*subscriptions)
    if not subscriptions.is_homogeneous:
        return uniform_heterogeneous(owner, starts, subscriptions)
    check_starts(starts, len(owner), "starts", "partitions")
    # Numbers from outside are checked once here, since NumPy would take -2 for an index from the
    # end.
    check_owner(owner, subscriptions.members)
    has_subscribers = np.diff(subscribers_of(subscriptions, len(starts) - 1).topic_starts) > 0
    # The common case, without the copies below.
    if has_subscribers.all():
        return uniform_homogeneous(owner, subscriptions.members)
    is_subscribed = np.repeat(has_subscribers, np.diff(starts))
    result = np.full(len(owner), -1, np.int32)
    result[is_subscribed] = uniform_homogeneous(owner[is_subscribed], subscriptions.members)
    return result


def range_assignor(owner: Vector, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return Kafka's ranges, the server-side assignor `range`; current owners do not matter."""
    check_starts(starts, len(owner), "starts", "partitions")
    return range_assignment(starts, subscriptions)


ASSIGNORS: dict[str, ServerAssignor] = {"uniform": uniform, "range": range_assignor}
"""In the order of Kafka's default: the first is used if no member names one."""
