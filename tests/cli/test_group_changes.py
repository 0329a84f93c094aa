"""The changes of a group between two reports, as `apportion watch` tells them."""

from apportion.cli.asked import Report
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
        "A is gone: it left, was removed, or its session ended",
        "B joined",
        "t 0: from A to B",
    ]


def member(name: str, instance: str | None = "worker-7", epoch: int = 3) -> Report:
    return {"member": name, "client": "c", "instance": instance, "epoch": epoch}


def test_a_static_member_that_left_for_now_is_told_apart_from_one_that_is_gone() -> None:
    here = report("Stable", "a") | {"members": [member("a")]}
    away = here | {"members": [member("a", epoch=-2)]}
    changes = GroupChanges(here)
    assert changes.since_last(away, str) == [
        "a (c) left for now: its partitions wait for it until its session ends"
    ]
    assert changes.since_last(away, str) == []
    assert changes.since_last(here, str) == ["a (c) is back"]
    assert changes.since_last(here | {"members": []}, str) == [
        "a (c) is gone: it left, was removed, or its session ended"
    ]


def test_the_successor_of_a_static_member_joins_in_its_place() -> None:
    changes = GroupChanges(report("Stable", "a") | {"members": [member("a"), member("b", None)]})
    after = report("Stable", "n") | {"members": [member("m", None), member("n")]}
    assert changes.since_last(after, str) == [
        "b (c) is gone: it left, was removed, or its session ended",
        "m (c) joined",
        "n (c) joined in the place of a",
        "t 0: from a to n",
    ]
