"""What a process keeps open from task to task, and what is closed when."""

import os
from contextlib import suppress

import pytest

from apportion.spark.connections.kept_open import KeptOpen


class Door:
    """Something that is open until it is closed, once."""

    def __init__(self, name: str) -> None:
        self.name, self.times_closed = name, 0

    def close(self) -> None:
        self.times_closed += 1


def used(doors: KeptOpen[str, Door], name: str) -> Door:
    """The door of a task that has ended."""
    with doors.using(name) as door:
        assert not door.times_closed
    return door


def test_one_task_after_another_uses_what_is_open() -> None:
    doors = KeptOpen(2, Door)
    first = used(doors, "a")
    assert (used(doors, "a"), first.name, first.times_closed) == (first, "a", 0)


def test_the_value_that_was_used_least_recently_is_closed() -> None:
    doors = KeptOpen(2, Door)
    first, second = used(doors, "a"), used(doors, "b")
    used(doors, "a")
    third = used(doors, "c")
    assert [each.times_closed for each in (first, second, third)] == [0, 1, 0]
    assert used(doors, "b") is not second


def test_a_value_in_use_stays_open_beyond_the_bound() -> None:
    doors = KeptOpen(1, Door)
    with doors.using("a") as first, doors.using("a") as again:
        second = used(doors, "b")
        assert (first is again, first.times_closed, second.times_closed) == (True, 0, 1)
        with doors.using("c") as third:
            assert (first.times_closed, third.times_closed) == (0, 0)
        assert third.times_closed == 1
    assert first.times_closed == 0
    used(doors, "d")
    assert first.times_closed == 1


def test_a_discarded_value_is_closed_once_nobody_uses_it() -> None:
    doors = KeptOpen(2, Door)
    with doors.using("a") as broken:
        doors.discard("a")
        doors.discard("a")
        assert broken.times_closed == 0
        repaired = used(doors, "a")
        assert (repaired is not broken, repaired.times_closed) == (True, 0)
    assert (broken.times_closed, repaired.times_closed) == (1, 0)
    doors.discard("a")
    assert repaired.times_closed == 1
    doors.discard("a")


def test_a_failure_ends_a_use_and_one_to_open_leaves_nothing() -> None:
    def opened(name: str) -> Door:
        if name == "":
            raise ValueError("no name")
        return Door(name)

    doors = KeptOpen(1, opened)
    with suppress(KeyError), doors.using("a") as first:
        raise KeyError
    with suppress(ValueError):
        used(doors, "")
    assert first.times_closed == 0
    used(doors, "b")
    assert first.times_closed == 1


def test_a_forked_process_opens_its_own_and_closes_none_of_its_parent() -> None:
    doors = KeptOpen(1, Door)
    of_parent = used(doors, "a")
    child = os.fork()
    if child == 0:
        own = used(doors, "a")
        doors.discard("b")
        other = used(doors, "b")
        seen = (own is of_parent, own.times_closed, other.times_closed, of_parent.times_closed)
        os._exit(0 if seen == (False, 1, 0, 0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert used(doors, "a") is of_parent


def test_a_use_that_begins_with_a_failed_close_of_another_value_has_ended() -> None:
    class Jammed(Door):
        def close(self) -> None:
            super().close()
            if self.name == "jammed":
                raise OSError("jammed")

    doors = KeptOpen[str, Door](1, Jammed)
    used(doors, "jammed")
    with pytest.raises(OSError, match="jammed"):
        used(doors, "a")
    kept = used(doors, "a")
    used(doors, "b")
    assert kept.times_closed == 1
