"""The server-side assignors by name (`group.consumer.assignors`)."""

from typing import Protocol

import numpy as np

from apportion.assign.heterogeneous import uniform_heterogeneous
from apportion.assign.racks import Racks, range_by_rack
from apportion.assign.range import range_assignment
from apportion.assign.subscriptions import (
    Subscriptions,
    Vector,
    check_owner,
    check_starts,
)
from apportion.assign.uniform import uniform_homogeneous
from apportion.assign.uniform_by_rack import moved_near


class ServerAssignor(Protocol):
    """A server-side assignor of the package."""

    def __call__(
        self,
        owner: Vector,
        starts: Vector,
        subscriptions: Subscriptions,
        racks: Racks | None = None,
        /,
    ) -> Vector:
        """Return the new owner of each partition; -1 only for topics without subscribers.

        owner: who has it now. starts: of the topics. racks: None where no racks are known.
        """
        ...


def uniform(
    owner: Vector, starts: Vector, subscriptions: Subscriptions, racks: Racks | None = None
) -> Vector:
    """Return min-max fair owners: the server-side assignor `uniform`.

    With the fewest moves, or with the same shares and as many partitions as possible in the racks
    of their members.
    """
    fair = _fair_owners(owner, starts, subscriptions)
    return fair if racks is None else moved_near(owner, fair, starts, subscriptions, racks)


def _fair_owners(owner: Vector, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return min-max fair owners with the fewest moves.

    Where all subscriptions are equal, the faster method of `uniform.py` gives the same shares.
    """
    subscriptions = Subscriptions(*subscriptions)
    if not subscriptions.is_homogeneous:
        return uniform_heterogeneous(owner, starts, subscriptions)
    check_starts(starts, len(owner), "starts", "partitions")
    topics = subscriptions.topics_of_each(len(starts) - 1)
    # The common case, without the copies below.
    if len(topics) == len(starts) - 1:
        return uniform_homogeneous(owner, subscriptions.members)
    # Before some owners are left out, or one that is no member would be kept.
    check_owner(owner, subscriptions.members)
    has_subscribers = np.zeros(len(starts) - 1, np.bool_)
    has_subscribers[topics] = True
    is_subscribed = np.repeat(has_subscribers, np.diff(starts))
    result = np.full(len(owner), -1, np.int32)
    result[is_subscribed] = uniform_homogeneous(owner[is_subscribed], subscriptions.members)
    return result


def range_assignor(
    owner: Vector, starts: Vector, subscriptions: Subscriptions, racks: Racks | None = None
) -> Vector:
    """Return Kafka's ranges, the server-side assignor `range`; current owners do not matter.

    With racks the ranges of KIP-881: as large, and near to members where that allows it.
    """
    check_starts(starts, len(owner), "starts", "partitions")
    if racks is None:
        return range_assignment(starts, subscriptions)
    return range_by_rack(starts, subscriptions, racks)


ASSIGNORS: dict[str, ServerAssignor] = {"uniform": uniform, "range": range_assignor}
"""In the order of Kafka's default: the first is used if no member names one."""
