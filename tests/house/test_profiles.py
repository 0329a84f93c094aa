"""tests/profiles.py: a profile says how many examples each property tries, and whether they are
others in the next run.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests import profiles


@pytest.fixture(
    params=[("quick", 4, 10), ("test", 12, 30), ("all", 40, 100), ("long", 800, 2_000)],
    ids=lambda row: row[0],
)
def profile(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """A loaded profile, and what is left in it of forty and of a hundred examples."""
    before = settings.get_current_profile_name()
    settings.load_profile(request.param[0])
    yield request.param[1:]
    settings.load_profile(before)


def test_a_profile_scales_the_examples_of_a_property(profile: tuple[int, int]) -> None:
    tried = []

    @settings(max_examples=100, deadline=None, database=None)
    @given(st.integers())
    def is_tried(number: int) -> None:
        tried.append(number)

    # a test with parameters is collected once for each of them
    again: Any = SimpleNamespace(obj=is_tried, cls=None, nodeid="tests/coord/test_a.py")
    profiles.scale([again, again])
    is_tried()
    assert len(tried) == profile[1]


@pytest.mark.parametrize(("name", "runs"), [("quick", 1), ("test", 1), ("all", 1), ("long", 2)])
def test_only_the_long_profile_tries_other_examples_in_the_next_run(name: str, runs: int) -> None:
    before, tried = settings.get_current_profile_name(), []
    settings.load_profile(name)

    @settings(max_examples=20, database=None)
    @given(st.integers())
    def is_tried(number: int) -> None:
        tried.append(number)

    is_tried()
    first = [*tried]
    tried.clear()
    is_tried()
    settings.load_profile(before)
    assert len({tuple(first), tuple(tried)}) == runs


def test_a_profile_scales_a_codecs_property_that_a_test_makes_while_it_runs(
    profile: tuple[int, int],
) -> None:
    is_test = settings.get_current_profile_name() == "test"
    expected = 100 if is_test else profile[1]
    assert profiles.scaled_now(settings(max_examples=100)).max_examples == expected


def test_a_profile_scales_the_runs_of_a_state_machine(profile: tuple[int, int]) -> None:
    class Machine(RuleBasedStateMachine):
        @rule()
        def turn(self) -> None:
            pass

    Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=7)
    item: Any = SimpleNamespace(
        obj=Machine.TestCase.runTest, cls=Machine.TestCase, nodeid="tests/coord/test_a.py"
    )
    profiles.scale([item])
    scaled_settings = Machine.TestCase.settings
    assert (scaled_settings.max_examples, scaled_settings.stateful_step_count) == (
        max(5, profile[0]),
        7,
    )


def test_a_property_that_asks_for_few_examples_keeps_them() -> None:
    asked = [settings(max_examples=count) for count in (3, 8, 40, 500)]
    assert [profiles.scaled(each, profiles.SHARES["quick"]).max_examples for each in asked] == [
        3,
        5,
        5,
        50,
    ]


@pytest.mark.parametrize(("home", "examples"), [("coord", 30), ("wire", 100), ("store", 100)])
def test_codecs_and_the_store_keep_all_examples_in_make_test(home: str, examples: int) -> None:
    @settings(max_examples=100)
    @given(st.integers())
    def law(number: int) -> None: ...

    item: Any = SimpleNamespace(obj=law, cls=None, nodeid=f"tests/{home}/test_a.py::law")
    before = settings.get_current_profile_name()
    settings.load_profile("test")
    profiles.scale([item])
    settings.load_profile(before)
    scaled: Any = getattr(law, profiles.INNER)
    assert scaled.max_examples == examples
