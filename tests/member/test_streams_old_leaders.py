"""Leaders of older releases: what they do not understand, and what they do not read."""

from typing import Any

from tests.member.simulated_streams_group import SimulatedStreamsGroup


def test_a_leader_of_before_probing_fails_where_a_member_speaks_a_newer_version() -> None:
    group = SimulatedStreamsGroup()
    group.check = lambda: None  # type: ignore[method-assign]  # which allows nobody to fail
    old = group.starts("old", release="1.1")
    group.settle()
    new: Any = group.starts("new", release="2.0")
    group.passes(60_000)
    assert old.failed == (
        f"INCONSISTENT_GROUP_PROTOCOL: member '{new.view.member_id}' speaks metadata "
        "version 3, this leader understands 2, which "
        "cannot probe: stop it, or set its upgrade.from"
    )
    assert (new.machine.used_version, len(new.machine.tasks().active)) == (3, 8)


def test_a_leader_of_2_0_fails_where_one_member_is_too_old_and_another_too_new() -> None:
    group = SimulatedStreamsGroup()
    group.check = lambda: None  # type: ignore[method-assign]
    leader = group.starts("leader", release="2.0")
    group.settle()
    group.starts("old", release="1.1")
    group.settle()
    group.starts("new", release="post-2.0")
    group.passes(5_000)
    assert leader.failed is not None
    assert "and another member speaks 2, which cannot probe" in leader.failed


def test_a_leader_of_2_4_lives_on_and_says_that_there_is_no_assignment() -> None:
    group = SimulatedStreamsGroup()
    group.check = lambda: None  # type: ignore[method-assign]
    leader = group.starts("leader", release="2.8")
    group.settle()
    group.starts("old", release="1.1")
    group.settle()
    group.starts("new", release="future")
    group.passes(5_000)
    assert any(note.startswith("nobody gets anything: member 'new-") for note in group.notes)
    assert leader.failed is None


def test_a_leader_that_only_rebalances_eagerly_does_not_read_what_members_own() -> None:
    """So members that keep what they have must not meet it: `upgrade.from` makes them eager."""
    group = SimulatedStreamsGroup()
    group.check = lambda: None  # type: ignore[method-assign]
    group.starts("old", release="2.3")
    group.settle()
    new = group.starts("new", release="3.9")
    group.settle()
    group.starts("third", release="2.3")
    group.passes(30_000, quick=[actor for actor in group.alive() if actor is not new])
    given = [task for actor in group.actors.values() for task in actor.machine.tasks().active]
    # nothing was withheld from the third for the one that is slow to let go
    assert len(given) == len({*given}) == 8
