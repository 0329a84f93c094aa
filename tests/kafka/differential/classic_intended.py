"""What is meant to differ in scripts of classic and mixed groups; docs/differences.md tells
users.
"""

from typing import Any

from tests.kafka.differential.classic_author import UNWRITTEN
from tests.kafka.differential.classic_steps import DescribeClassic, Leave
from tests.kafka.differential.compare import Difference, Intended
from tests.kafka.differential.mixed_author import (
    DOWNGRADED,
    FULL,
    RIVALS,
    SUCCEEDED,
    TURNED_AWAY,
    UNTARGETED,
    UNTOLD,
    UPGRADED,
)
from tests.kafka.differential.steps import Beat, Commit, DeleteGroups, Forget


def is_election(seen: Difference) -> bool:
    """Another leader, where the one before it is gone."""
    return seen.path == ("election",)


def is_forgotten_sync(seen: Difference) -> bool:
    """A sync that only we answer when its member leaves."""
    if seen.path != ("late",) or not isinstance(seen.step, Leave):
        return False
    more = {letter: response for letter, response in seen.ours.items() if letter not in seen.theirs}
    return (
        all(response["code"] == 25 and "assignment" in response for response in more.values())
        and seen.ours == seen.theirs | more
    )


def is_upgrade_by_successor(seen: Difference) -> bool:
    """One epoch more here, where a static member of a classic group comes back with the consumer
    protocol.
    """
    return seen.path == ("answer", UPGRADED, "epoch") and seen.ours == seen.theirs + 1


def is_downgrade_by_successor(seen: Difference) -> bool:
    """One generation more here, where a classic client has taken the place of the last member of
    the consumer protocol.
    """
    return (
        seen.path[:3] == ("answer", SUCCEEDED, "generations")
        and len(seen.path) == 4
        and seen.ours == seen.theirs + 1
    )


def is_early_news(seen: Difference) -> bool:
    """A classic member is told to join again before somebody has made the target of the new
    epoch.
    """
    return seen.path == ("answer", UNTARGETED) and (seen.ours, seen.theirs) == (27, 0)


def is_no_news(seen: Difference) -> bool:
    """Classic members that are alone in a consumer group have what a leaver had; on Kafka it is
    nobody's.
    """
    if seen.path[:2] not in (("answer", UNTOLD), ("answer", RIVALS)):
        return False
    if seen.path[2] in ("generations", "owned"):
        return isinstance(seen.ours, int) and seen.ours > seen.theirs
    return seen.path[2] == "sizes" and sum(seen.ours) > sum(seen.theirs)


def is_saved_by_a_downgrade(seen: Difference) -> bool:
    """Members of a group that has just become classic are described with even shares, of which
    they were given nothing yet.
    """
    if seen.path != ("answer", DOWNGRADED, "sizes", "assignment"):
        return False
    shares = [size for size in seen.theirs if size]
    return len(seen.ours) == len(seen.theirs) and 0 < max(shares, default=0) <= min(shares) + 1


def is_wait_for_nobody(seen: Difference) -> bool:
    """Members whose group turned one away go on; on Kafka they wait until the deadline."""
    if seen.path[:2] not in (("answer", TURNED_AWAY), ("answer", FULL)):
        return False
    if seen.path[2] == "is quiet":
        return (seen.ours, seen.theirs) == (True, False)
    if seen.path[2] == "sizes":
        return sum(seen.ours) >= sum(seen.theirs)
    return (
        seen.path[2] in ("generations", "owned")
        and isinstance(seen.ours, int)
        and seen.ours > seen.theirs
    )


def is_who_came_first(seen: Difference) -> bool:
    """As many are turned away, but others, and the generation is one more: here the group is still
    gathering its members.
    """
    if seen.path == ("answer", FULL, "gone"):
        return sorted(seen.ours.values()) == sorted(seen.theirs.values())
    if seen.path == ("answer", FULL, "generations"):
        return sorted(seen.ours.values()) == sorted(each + 1 for each in seen.theirs.values())
    return seen.path[:3] == ("answer", FULL, "generations") and seen.ours == seen.theirs + 1


def is_another_rival(seen: Difference) -> bool:
    """Of two clients of one instance, each of which fences the other when it joins, another one
    comes last.
    """
    if seen.path not in (("answer", RIVALS, "gone"), ("answer", RIVALS, "generations")):
        return False
    return (
        sorted(seen.ours.values()) == sorted(seen.theirs.values())
        and len(set(seen.ours) - set(seen.theirs)) == 1
    )


def is_beginning_anew(seen: Difference) -> bool:
    """The epochs of a consumer group without members begin again on Kafka, as in a new group."""
    is_join = isinstance(seen.step, Beat) and seen.step.epoch == 0
    return is_join and seen.path[-1] == "epoch" and seen.ours > seen.theirs == FIRST_EPOCH


def is_a_group_of_nothing(seen: Difference) -> Any:
    """A group that is only on Kafka, because something was refused to it or deleted from it."""
    if isinstance(seen.step, Forget) and seen.path[-1] == "partitions":
        return seen.ours == {}
    if isinstance(seen.step, DescribeClassic):
        return (seen.path[-1], seen.ours, seen.theirs) in MISSING_HERE
    return (
        isinstance(seen.step, Forget | DeleteGroups | Commit)
        and seen.ours in (69, 22)
        and seen.theirs in (0, 25)
    )


def is_unwritten(seen: Difference) -> bool:
    """A group with members that Kafka does not describe: a refused commit has made it in memory, so
    that no join writes its first record.
    """
    return seen.path[:2] == ("answer", UNWRITTEN) and (seen.path[-1], seen.theirs) in UNSEEN_THERE


FIRST_EPOCH = 2
"""That of a new group's first member."""
MISSING_HERE = (
    ("state", "Dead", "Empty"),
    ("code", 69, 0),
    ("has message", True, False),
    ("operations", -(2**31), 3400),
)
UNSEEN_THERE: tuple[tuple[str, Any], ...] = (
    ("state", "Dead"),
    ("code", 69),
    ("has message", True),
    ("type", ""),
    ("protocol", ""),
    ("members", {}),
)
GENERATION_OF_A_SUCCESSOR = (
    "the generation when a classic client replaces the last consumer-protocol member during a "
    "rebalance"
)
CLASSIC = [
    Intended("the leader after the old one has left", is_election, ends_script=True),
    Intended("a SyncGroup that waits when its member leaves", is_forgotten_sync, ends_script=True),
]
MIXED = [
    Intended(
        "the epoch when a static classic member comes back with the consumer protocol",
        is_upgrade_by_successor,
        ends_script=True,
    ),
]
SELDOM = [
    Intended("empty simple groups", is_a_group_of_nothing, ends_script=True),
    Intended("empty simple groups", is_unwritten, ends_script=True),
    Intended("when a classic member of a consumer group is told to join again", is_early_news),
    Intended(
        "when a classic member of a consumer group is told to join again",
        is_no_news,
        ends_script=True,
    ),
    Intended(
        "a classic client that is refused by a consumer group without members",
        is_beginning_anew,
        ends_script=True,
    ),
    Intended(
        "the assignments that DescribeGroups shows after a downgrade, until the next generation",
        is_saved_by_a_downgrade,
        ends_script=True,
    ),
    Intended(
        "the waiting members of a group that refuses a member because it is full",
        is_wait_for_nobody,
        ends_script=True,
    ),
    Intended(GENERATION_OF_A_SUCCESSOR, is_downgrade_by_successor, ends_script=True),
    Intended(GENERATION_OF_A_SUCCESSOR, is_another_rival, ends_script=True),
    Intended(GENERATION_OF_A_SUCCESSOR, is_who_came_first, ends_script=True),
]
"""Rows that a lane may not meet: they want a moment, or an order of answers, that few scripts
have.
"""
INTENDED = CLASSIC + MIXED + SELDOM
"""Where scripts of classic and mixed groups may differ, and why."""
