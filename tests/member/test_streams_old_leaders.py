"""Leaders of older releases: what they do not understand, and what they do not read."""

from typing import Any

import pytest

from tests.member.simulated_streams_group import SimulatedStreamsGroup


@pytest.fixture
def group() -> SimulatedStreamsGroup:
    """A group in which a leader may fail."""
    made = SimulatedStreamsGroup()
    made.check = lambda: None  # type: ignore[method-assign]
    return made


def test_a_leader_of_before_probing_fails_where_a_member_speaks_a_newer_version(
    group: SimulatedStreamsGroup,
) -> None:
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


@pytest.mark.parametrize(
    ("release", "newer", "failed", "noted"),
    [
        ("2.0", "post-2.0", "and another member speaks 2, which cannot probe", ""),
        # It lives on, and says that there is no assignment.
        ("2.8", "future", None, "nobody gets anything: member 'new-"),
    ],
)
def test_a_leader_between_one_that_is_too_old_and_one_that_is_too_new(
    group: SimulatedStreamsGroup, release: str, newer: str, failed: str | None, noted: str
) -> None:
    leader = group.starts("leader", release=release)
    group.settle()
    group.starts("old", release="1.1")
    group.settle()
    group.starts("new", release=newer)
    group.passes(5_000)
    assert (failed or "") in (leader.failed or "")
    assert (leader.failed is None) == (failed is None)
    assert not noted or any(note.startswith(noted) for note in group.notes)


def test_a_leader_that_only_rebalances_eagerly_does_not_read_what_members_own(
    group: SimulatedStreamsGroup,
) -> None:
    """So members that keep what they have must not meet it: `upgrade.from` makes them eager."""
    group.starts("old", release="2.3")
    group.settle()
    new = group.starts("new", release="3.9")
    group.settle()
    group.starts("third", release="2.3")
    group.passes(30_000, quick=[actor for actor in group.alive() if actor is not new])
    given = [task for actor in group.actors.values() for task in actor.machine.tasks().active]
    # nothing was withheld from the third for the one that is slow to let go
    assert len(given) == len({*given}) == 8
