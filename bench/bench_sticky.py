"""How long the sticky assignors of classic members take.

`sticky_equal_ms` and the like: NumPy arrays alone, from the claims of all members to the owner of
each partition. One member in a hundred has just joined, and one in a hundred was cut off and claims
by an older generation what others have now. `..._whole_ms`: what the leader of such a group does,
from the bytes of all subscriptions to the bytes of all assignments.
"""

from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from apportion.assign.assignors import uniform
from apportion.assign.claims import OwnershipClaims
from apportion.assign.sticky import cooperative_sticky, sticky
from apportion.assign.subscriptions import Subscriptions, Vector
from apportion.member.assignors.builtin import (
    Assignor,
    CooperativeSticky,
    Given,
    Sticky,
    Subscription,
    TopicShape,
)
from apportion.member.assignors.serde import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

MEMBERS, TOPICS, PARTITIONS = 1_000, 100, 100_000
EACH = PARTITIONS // TOPICS
NEWCOMERS, CUT_OFF = MEMBERS // 100, MEMBERS // 100


def milliseconds(call: Any, times: int) -> float:
    """The median time of a call, after one that does not count."""
    call()
    spent = []
    for _ in range(times):
        start = perf_counter()
        call()
        spent.append((perf_counter() - start) * 1e3)
    return median(spent)


class Group:
    """Members that claim what an assignment to all but the last few gave; the first few still have
    what one before that gave.
    """

    def __init__(self, wants: list[list[int]]) -> None:
        self.wants = wants
        self.starts = np.arange(0, PARTITIONS + 1, EACH, dtype=np.int32)
        self.subscriptions = Subscriptions.of(wants)
        old = MEMBERS - NEWCOMERS
        nobody = np.full(PARTITIONS, -1, np.int32)
        before = uniform(nobody, self.starts, Subscriptions.of(wants[:old]))
        without = Subscriptions.of([*([[]] * CUT_OFF), *wants[CUT_OFF:old]])
        now = uniform(np.where(before < CUT_OFF, np.int32(-1), before), self.starts, without)
        owned = [
            np.flatnonzero((before if member < CUT_OFF else now) == member)
            for member in range(MEMBERS)
        ]
        self.generations = [
            1 if member < CUT_OFF else 2 if member < old else -1 for member in range(MEMBERS)
        ]
        ends = np.cumsum([0, *map(len, owned)]).astype(np.int32)
        self.claims = OwnershipClaims(
            ends, np.concatenate(owned).astype(np.int32), np.array(self.generations, np.int32)
        )
        self.owned = owned

    def blobs(self, kind: type[Assignor]) -> dict[str, bytes]:
        """What each member says."""
        said = {}
        for member, (topics, owned) in enumerate(zip(self.wants, self.owned, strict=True)):
            given = given_to(owned)
            assignor = kind()
            if self.generations[member] >= 0:
                assignor.on_assignment(given, self.generations[member])
            names = tuple(f"topic-{topic:03}" for topic in topics)
            kept = given.partitions if kind is CooperativeSticky else ()
            said[f"member-{member:04}"] = encode_subscription(
                Subscription(names, assignor.user_data(names), kept, self.generations[member])
            )
        return said


def given_to(partitions: Vector) -> Given:
    """Numbered partitions by name."""
    topics = dict.fromkeys((partitions // EACH).tolist())
    return Given(
        tuple(
            (f"topic-{topic:03}", tuple((partitions[partitions // EACH == topic] % EACH).tolist()))
            for topic in topics
        )  # type: ignore[misc]
    )


def led(assignor: Assignor, blobs: dict[str, bytes]) -> dict[str, bytes]:
    """What a leader answers to these subscriptions."""
    cluster = {f"topic-{topic:03}": TopicShape(EACH) for topic in range(TOPICS)}
    given = assignor.assign(
        cluster, {member: decode_subscription(blob) for member, blob in blobs.items()}
    )
    return {member: encode_assignment(each) for member, each in given.items()}


def run() -> list[dict[str, Any]]:
    """The rows of `make bench`."""
    random = np.random.default_rng(1)
    equal = Group([list(range(TOPICS))] * MEMBERS)
    general = Group(
        [sorted(random.choice(TOPICS, 10, replace=False).tolist()) for _ in range(MEMBERS)]
    )
    arrays = [
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
    told, owned, mixed = equal.blobs(Sticky), equal.blobs(CooperativeSticky), general.blobs(Sticky)
    whole = [
        ("sticky_equal_whole_ms", lambda: led(Sticky(), told)),
        ("cooperative_equal_whole_ms", lambda: led(CooperativeSticky(), owned)),
        ("sticky_general_whole_ms", lambda: led(Sticky(), mixed)),
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
            for name, call, target in arrays
        ),
        *(
            {
                "name": name,
                "value": milliseconds(call, 5),
                "unit": "ms",
                "target": None,
                "better": "lower",
            }
            for name, call in whole
        ),
    ]
