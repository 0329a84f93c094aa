"""How long the sticky assignors of classic members take.

`sticky_equal_ms` and the like: NumPy arrays alone, from the claims of all members to the owner of
each partition. One member in a hundred has just joined, and one in a hundred was cut off and
claims, with an older generation, what others own now. `..._whole_ms`: what the leader of such a
group does, from the bytes of all subscriptions to the bytes of all assignments.
"""

from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.assign.assignors import uniform
from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape
from apportion.assign.claims import OwnershipClaims
from apportion.assign.sticky import cooperative_sticky, sticky
from apportion.assign.subscriptions import Subscriptions
from apportion.member.assignors.builtin import CooperativeSticky, Sticky
from apportion.member.assignors.serde import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

MEMBERS, TOPICS, PARTITIONS = 1_000, 100, 100_000
PARTITIONS_PER_TOPIC = PARTITIONS // TOPICS
NEWCOMERS, CUT_OFF = MEMBERS // 100, MEMBERS // 100


def milliseconds(call: Any, times: int) -> float:
    """Return the median time of a call, after one that does not count."""
    call()
    times_ms = []
    for _ in range(times):
        start = perf_counter()
        call()
        times_ms.append((perf_counter() - start) * 1e3)
    return median(times_ms)


class Group:
    """A group whose members claim partitions of two generations.

    Most claim what they were assigned before the last few joined; the first few were cut off, and
    claim what they were assigned in the generation before that.
    """

    def __init__(self, subscribed_topics: list[list[int]]) -> None:
        self.subscribed_topics = subscribed_topics
        self.starts = np.arange(0, PARTITIONS + 1, PARTITIONS_PER_TOPIC, dtype=np.int32)
        self.subscriptions = Subscriptions.of(subscribed_topics)
        old_members = MEMBERS - NEWCOMERS
        no_owner = np.full(PARTITIONS, -1, np.int32)
        previous = uniform(no_owner, self.starts, Subscriptions.of(subscribed_topics[:old_members]))
        without = Subscriptions.of([*([[]] * CUT_OFF), *subscribed_topics[CUT_OFF:old_members]])
        current = uniform(
            np.where(previous < CUT_OFF, np.int32(-1), previous), self.starts, without
        )
        owned = [
            np.flatnonzero((previous if member < CUT_OFF else current) == member)
            for member in range(MEMBERS)
        ]
        self.generations = [
            1 if member < CUT_OFF else 2 if member < old_members else -1
            for member in range(MEMBERS)
        ]
        ends = np.cumsum([0, *map(len, owned)]).astype(np.int32)
        self.claims = OwnershipClaims(
            ends, np.concatenate(owned).astype(np.int32), np.array(self.generations, np.int32)
        )
        self.owned = owned

    def subscriptions_by_member(self, kind: type[Sticky | CooperativeSticky]) -> dict[str, bytes]:
        """Return the encoded subscription of each member."""
        subscriptions_by_member = {}
        for member, (topics, owned) in enumerate(
            zip(self.subscribed_topics, self.owned, strict=True)
        ):
            assignment = as_assignment(owned)
            assignor = kind()
            if self.generations[member] >= 0:
                assignor.on_assignment(assignment, self.generations[member])
            names = tuple(f"topic-{topic:03}" for topic in topics)
            owned_partitions = assignment.partitions if kind is CooperativeSticky else ()
            subscriptions_by_member[f"member-{member:04}"] = encode_subscription(
                Subscription(
                    names, assignor.user_data(names), owned_partitions, self.generations[member]
                )
            )
        return subscriptions_by_member


def as_assignment(partitions: NDArray[np.integer]) -> Given:
    """Return numbered partitions as an assignment by name."""
    topic_of = partitions // PARTITIONS_PER_TOPIC
    return Given(
        tuple(
            TopicParts(
                f"topic-{topic:03}",
                tuple((partitions[topic_of == topic] % PARTITIONS_PER_TOPIC).tolist()),
            )
            for topic in dict.fromkeys(topic_of.tolist())
        )
    )


def lead(
    assignor: Sticky | CooperativeSticky, subscriptions_by_member: dict[str, bytes]
) -> dict[str, bytes]:
    """Return the assignments that a leader sends for these subscriptions."""
    cluster = {f"topic-{topic:03}": TopicShape(PARTITIONS_PER_TOPIC) for topic in range(TOPICS)}
    assignment = assignor.assign(
        cluster,
        {member: decode_subscription(blob) for member, blob in subscriptions_by_member.items()},
    )
    return {member: encode_assignment(share) for member, share in assignment.items()}


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    random = np.random.default_rng(1)
    equal = Group([list(range(TOPICS))] * MEMBERS)
    general = Group(
        [sorted(random.choice(TOPICS, 10, replace=False).tolist()) for _ in range(MEMBERS)]
    )
    array_calls = [
        ("sticky_equal_ms", lambda: sticky(equal.claims, equal.starts, equal.subscriptions), 20),
        (
            "cooperative_equal_ms",
            lambda: cooperative_sticky(equal.claims, equal.starts, equal.subscriptions),
            20,
        ),
        (
            "sticky_general_ms",
            lambda: sticky(general.claims, general.starts, general.subscriptions),
            100,
        ),
    ]
    eager, owned, general_eager = (
        equal.subscriptions_by_member(Sticky),
        equal.subscriptions_by_member(CooperativeSticky),
        general.subscriptions_by_member(Sticky),
    )
    whole_calls = [
        ("sticky_equal_whole_ms", lambda: lead(Sticky(), eager)),
        ("cooperative_equal_whole_ms", lambda: lead(CooperativeSticky(), owned)),
        ("sticky_general_whole_ms", lambda: lead(Sticky(), general_eager)),
    ]
    return [
        *(
            {
                "name": name,
                "value": milliseconds(call, 15),
                "unit": "ms",
                "target": target,
                "better": "lower",
            }
            for name, call, target in array_calls
        ),
        *(
            {
                "name": name,
                "value": milliseconds(call, 5),
                "unit": "ms",
                "target": None,
                "better": "lower",
            }
            for name, call in whole_calls
        ),
    ]
