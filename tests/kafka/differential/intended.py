"""What is meant to differ between the brokers in scripts of consumer groups: rows that differences
match, and short scripts that show what scripts by chance seldom meet.
"""

from collections.abc import Callable
from typing import Any

from tests.kafka.differential.compare import Difference, Intended
from tests.kafka.differential.plain_values import Plain
from tests.kafka.differential.steps import (
    EMPTY,
    Beat,
    Commit,
    DeleteGroups,
    Describe,
    Fetch,
    Forget,
    Offset,
    Settle,
    Step,
)


def is_shorter_interval(seen: Difference) -> bool:
    return (
        isinstance(seen.step, Beat)
        and seen.path == ("interval",)
        and seen.theirs == 1_000
        and isinstance(seen.ours, int)
        and 100 <= seen.ours < seen.theirs
    )


def is_a_group_of_nothing(seen: Difference) -> bool:
    is_missing_here = seen.ours in (69, 22) and seen.theirs in (0, 25)
    if isinstance(seen.step, Forget | DeleteGroups | Commit):
        return is_missing_here or (
            isinstance(seen.step, Forget) and seen.path == ("partitions",) and seen.ours == {}
        )
    return False


def is_a_fetch_by_nobody(seen: Difference) -> bool:
    return (
        isinstance(seen.step, Fetch)
        and seen.step.member is None
        and seen.step.epoch >= 0
        and (seen.ours, seen.theirs) == (25, -1)
    )


def is_a_move_among_different_wants(seen: Difference) -> bool:
    return isinstance(seen.step, Settle) and seen.step.wants_differ and seen.path == ("moved",)


def is_one_epoch_more(seen: Difference) -> bool:
    """Here the group has one epoch more, which its members may have to reach."""
    if not seen.path or isinstance(seen.ours, dict):
        return False
    is_an_epoch = seen.path[-1] in ("epoch", "assignment epoch") or seen.path[0] == "epochs"
    return seen.path[-1] == "state" or (is_an_epoch and bool(seen.ours == seen.theirs + 1))


def is_a_tie(seen: Difference) -> bool:
    return isinstance(seen.step, Settle) and seen.step.votes == "tied" and seen.path[0] != "sizes"


def is_another_rack(seen: Difference) -> bool:
    """A member, or the successor of a static one, says another rack."""
    step = seen.after
    is_a_rack = (
        isinstance(step, Beat)
        and step.rack is not None
        and (step.member_id is None or step.instance is not None)
    ) or (isinstance(step, Settle) and step.racks_changed)
    return is_a_rack and is_one_epoch_more(seen)


MOVES = Intended(
    "how many partitions move if members subscribe to different topics",
    is_a_move_among_different_wants,
)
TIES = Intended("equal votes for assignors", is_a_tie, ends_script=True)
INTENDED = [
    MOVES,
    TIES,
    Intended("heartbeat intervals that follow from need and load", is_shorter_interval),
    Intended("a rack that changes", is_another_rack, ends_script=True),
    Intended("empty simple groups", is_a_group_of_nothing, ends_script=True),
    Intended("OffsetFetch with an epoch but no member id", is_a_fetch_by_nobody),
]


JOIN: dict[str, Any] = {"epoch": 0, "owned": EMPTY, "rebalance_ms": 60_000, "assignor": "range"}
Oddity = tuple[
    str,
    Callable[[str], list[Step]],
    Callable[[str], list[tuple[tuple[str, ...], Plain, Plain]]],
]
ODDITIES: list[Oddity] = [  # name, script, where the answers to its last step differ
    (
        "the target when a member without topics joins",
        lambda group: [
            Beat(group, "b", topics=("six",), **JOIN),
            Beat(group, "a", topics=("nowhere",), **JOIN),
            Beat(group, "a", -1),
            Beat(group, "a", topics=(), **JOIN),
            Describe((group,)),
        ],
        lambda group: [((group, "members", "b", "target"), {"six": (0, 1, 2, 3, 4, 5)}, {})],
    ),
    (
        "a member that joins as another instance and already owned partitions",
        lambda group: [
            Beat(group, "b", topics=("one",), instance="b", **JOIN),
            Beat(group, "b", -2, instance="b"),
            Beat(group, "d", topics=("four",), instance="d", **JOIN),
            Beat(group, "d", topics=("four",), instance="b", **JOIN),
        ],
        lambda group: [(("assignment",), {"four": (0, 1, 2, 3)}, {})],
    ),
    (
        "a rack that changes",
        lambda group: [
            Beat(group, "a", topics=("six",), rack="r1", **JOIN),
            Beat(group, "a", 2, rack="r2"),
        ],
        lambda group: [(("epoch",), 3, 2)],
    ),
    (
        "empty simple groups",
        lambda group: [
            Commit(group, None, -1, (Offset("one", 0, 1, note=4097),)),
            DeleteGroups((group,)),
        ],
        lambda group: [((group,), 69, 0)],
    ),
    (
        "OffsetFetch with an epoch but no member id",
        lambda group: [Beat(group, "a", topics=("six",), **JOIN), Fetch(group, None, 2)],
        lambda group: [(("code",), 25, -1)],
    ),
]
"""What a real Kafka does and we do not, and scripts by chance seldom meet. When it does so no
longer, the row can go.
"""
