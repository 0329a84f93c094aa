"""What is meant to differ in scripts of classic and mixed groups; docs/differences.md tells users."""

from tests.kafka.differential.classic_steps import DescribeClassic, Leave
from tests.kafka.differential.compare import Difference, Intended
from tests.kafka.differential.mixed_scripts import SUCCEEDED, UNTARGETED, UPGRADED
from tests.kafka.differential.steps import Commit, DeleteGroups, Forget


def is_election(seen: Difference) -> bool:
    """Another leader, where the one before it is gone."""
    return seen.path == ("election",)


def is_forgotten_sync(seen: Difference) -> bool:
    """A sync that only we answer when its member leaves."""
    if seen.path != ("late",) or not isinstance(seen.step, Leave):
        return False
    more = {letter: said for letter, said in seen.ours.items() if letter not in seen.theirs}
    return all(said["code"] == 25 and "assignment" in said for said in more.values()) and seen.ours == seen.theirs | more


def is_upgrade_by_successor(seen: Difference) -> bool:
    """One epoch more here, where a static member of a classic group comes back with the consumer protocol."""
    return seen.path == ("answer", UPGRADED, "epoch") and seen.ours == seen.theirs + 1


def is_downgrade_by_successor(seen: Difference) -> bool:
    """One generation more here, where a classic client has taken the place of the last member of the consumer protocol."""
    return seen.path[:3] == ("answer", SUCCEEDED, "generations") and len(seen.path) == 4 and seen.ours == seen.theirs + 1


def is_early_news(seen: Difference) -> bool:
    """A classic member is told to join again before somebody has made the target of the new epoch."""
    return seen.path == ("answer", UNTARGETED) and (seen.ours, seen.theirs) == (27, 0)


def is_a_group_of_nothing(seen: Difference) -> bool:
    """A group that is only on Kafka, because something was refused to it or deleted from it."""
    if isinstance(seen.step, Forget) and seen.path[-1] == "partitions":
        return seen.ours == {}
    if isinstance(seen.step, DescribeClassic):
        return (seen.path[-1], seen.ours, seen.theirs) in MISSING_HERE
    return isinstance(seen.step, Forget | DeleteGroups | Commit) and seen.ours in (69, 22) and seen.theirs in (0, 25)


MISSING_HERE = (("state", "Dead", "Empty"), ("code", 69, 0), ("has message", True, False), ("operations", -(2**31), 3400))
CLASSIC = [
    Intended(
        "who leads when the leader is gone",
        "Kafka takes anybody, in the order of a hash table; here it is the member that joined first.",
        is_election,
        ends_script=True,
    ),
    Intended(
        "a sync that waits when its member leaves",
        "Kafka never answers it; here the member is unknown.",
        is_forgotten_sync,
        ends_script=True,
    ),
]
MIXED = [
    Intended(
        "the epoch when a static classic member comes back with the consumer protocol",
        "Kafka trusts that the last leader gave everything away; here a target is computed if not, or if members wait.",
        is_upgrade_by_successor,
        ends_script=True,
    ),
]
SELDOM = [
    Intended(
        "groups of nothing",
        "A group that a refused commit named, or whose last offset was deleted, stays in Kafka's memory; here it is not there.",
        is_a_group_of_nothing,
        ends_script=True,
    ),
    Intended(
        "when a classic member of a consumer group is told to join again",
        "Kafka waits until some heartbeat of the consumer protocol has made the target; here the epoch is enough.",
        is_early_news,
    ),
    Intended(
        "the generation when a classic client takes the last place of the consumer protocol amid a rebalance",
        "Kafka answers that join at once with generation 0, which no sync can name; here it waits for the next generation.",
        is_downgrade_by_successor,
        ends_script=True,
    ),
]
"""Rows that a lane may not meet: they want a moment, or an order of answers, that few scripts have."""
INTENDED = CLASSIC + MIXED + SELDOM
"""Where scripts of classic and mixed groups may differ, and why."""
