"""The client-side `roundrobin` assignor: one circle of members through all partitions of all
topics.
"""

import numpy as np

from apportion.assign.subscriptions import Subscriptions, Vector, check_starts, subscribers_of


def roundrobin_assignment(starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return owners partition by partition: the next member in the circle that subscribes to the
    topic.

    A topic continues where the one before it ended. A topic without subscribers stays at -1. Raises
    ValueError for an unknown topic.
    """
    check_starts(starts, int(starts[-1]) if len(starts) else 0, "starts", "partitions")
    topic_starts, members = subscribers_of(subscriptions, len(starts) - 1)
    owner = np.full(starts[-1], -1, np.int32)
    turn = 0  # the member at which the circle stands
    for topic in range(len(starts) - 1):
        circle = members[topic_starts[topic] : topic_starts[topic + 1]]
        if not len(circle) or starts[topic] == starts[topic + 1]:
            continue
        first = int(np.searchsorted(circle, turn))
        indexes = (first + np.arange(starts[topic + 1] - starts[topic])) % len(circle)
        owner[starts[topic] : starts[topic + 1]] = circle[indexes]
        turn = int(circle[indexes[-1]]) + 1
    return owner
