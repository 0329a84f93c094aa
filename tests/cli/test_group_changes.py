"""The changes of a group between two reports, as `apportion watch` tells them."""

from apportion.cli.cluster_reports import Report
from apportion.cli.watch.changes import GroupChanges


def report(state: str, *owners: str | None, members: tuple[str, ...] = ("a", "b")) -> Report:
    """A classic group in that state; the owners are those of the partitions of `t`, in order."""
    return {
        "group": "g",
        "type": "classic",
        "state": state,
        "members": [{"member": name, "client": name} for name in members],
        "offsets": [
            {"topic": "t", "partition": number, "owner": owner}
            for number, owner in enumerate(owners)
        ],
    }


def test_partitions_that_move_together_are_one_sentence() -> None:
    changes = GroupChanges(report("Stable", "a", "a", "a", "b"))
    assert changes.since_last(report("Stable", "a", "b", "b", None), str) == [
        "t 1-2: from a to b",
        "t 3: from b to nobody",
    ]
    assert changes.since_last(report("Stable", "a", "b", "b", None), str) == []


def test_owners_are_not_compared_while_a_classic_group_rebalances() -> None:
    changes = GroupChanges(report("Stable", "a", "a", members=("a",)))
    assert changes.since_last(report("PreparingRebalance", None, None), str) == [
        "Stable, now PreparingRebalance",
        "b joined",
    ]
    assert changes.since_last(report("Stable", "a", "b"), str) == [
        "PreparingRebalance, now Stable",
        "t 1: from a to b",
    ]


def test_members_are_called_as_they_are_shown() -> None:
    changes = GroupChanges(report("Stable", "a", members=("a",)))
    assert changes.since_last(report("Stable", "b", members=("b",)), str.upper) == [
        "A left",
        "B joined",
        "t 0: from A to B",
    ]
