"""A broker's full garbage collections look at what is new; once an hour at everything."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from apportion.cli.short_collections import WHOLE_EVERY_S, short_collections


class Node:
    """An object that can be a part of a cycle."""

    def __init__(self) -> None:
        self.other: Node | None = None


@pytest.fixture(autouse=True)
def nothing_set_aside() -> Iterator[None]:
    """Leave the other tests of this process all their objects."""
    yield
    gc.unfreeze()


def cycle() -> tuple[Node, "weakref.ref[Node]"]:
    """One of two objects that refer to each other, and whether it is there."""
    one, two = Node(), Node()
    one.other, two.other = two, one
    return one, weakref.ref(one)


def test_an_object_that_survives_a_full_collection_is_set_aside() -> None:
    with short_collections(now=lambda: 0.0):
        kept, _ = cycle()
        gc.collect()
        assert not any(each is kept for each in gc.get_objects())
        new, _ = cycle()
        assert any(each is new for each in gc.get_objects())


def test_garbage_of_new_objects_is_collected() -> None:
    with short_collections(now=lambda: 0.0):
        gc.collect()
        one, is_there = cycle()
        del one
        gc.collect()
        assert is_there() is None


def test_an_object_that_is_set_aside_goes_with_its_last_reference() -> None:
    with short_collections(now=lambda: 0.0):
        one = Node()
        is_there = weakref.ref(one)
        gc.collect()
        del one
        assert is_there() is None


def test_a_cycle_that_becomes_garbage_after_it_was_set_aside_stays_an_hour_at_most() -> None:
    seconds = 0.0
    with short_collections(now=lambda: seconds):
        one, is_there = cycle()
        gc.collect()
        del one
        seconds = WHOLE_EVERY_S - 1
        gc.collect()
        assert is_there() is not None
        seconds = WHOLE_EVERY_S
        gc.collect()
        assert is_there() is None


def test_younger_generations_set_nothing_aside() -> None:
    with short_collections(now=lambda: 0.0):
        kept, _ = cycle()
        gc.collect(0)
        gc.collect(1)
        assert any(each is kept for each in gc.get_objects())


def test_full_collections_come_more_often() -> None:
    with short_collections(now=lambda: 0.0):
        # Python's next one waits for new objects by the number of those that the last one left.
        gc.collect()
        gc.collect()
        young, middle, _ = gc.get_threshold()
        began = gc.get_stats()[2]["collections"]
        kept: list[list[object]] = [[] for _ in range(4 * young * middle)]
        came = gc.get_stats()[2]["collections"] - began
    assert kept
    assert came >= 1


def test_collections_behind_the_block_are_as_before() -> None:
    thresholds = gc.get_threshold()
    with short_collections():
        pass
    assert gc.get_threshold() == thresholds
    kept, _ = cycle()
    gc.collect()
    assert any(each is kept for each in gc.get_objects())
