"""The shortest list of faults that still breaks the law."""

from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from apportion.sim.kernel.outcome import Outcome, Violation
from apportion.sim.kernel.scenario import Fault, Scenario
from apportion.sim.shrink import Shrunk, minimal_subset, shrink_faults
from tests.sim.stand_in import outcome


def scenario_of(*kinds: str) -> Scenario:
    """A world with one fault of each kind, one each second."""
    return Scenario(
        seed=1, faults=tuple(Fault(1_000 * (number + 1), kind) for number, kind in enumerate(kinds))
    )


def breaking(law: str, *needed: str, at_ms: int = 60_000) -> Callable[..., Outcome]:
    """A `play` in which the law breaks where all the needed kinds of faults are there."""

    def play(scenario: Scenario) -> Outcome:
        kinds = [fault.kind for fault in scenario.faults]
        return outcome(
            1, Violation(law, at_ms, "why") if all(kind in kinds for kind in needed) else None
        )

    return play


def test_only_the_faults_that_matter_stay() -> None:
    shrunk = shrink_faults(
        scenario_of("cut", "pause", "slow", "crash", "roll", "restart"),
        breaking("one-hand", "pause", "roll"),
    )
    assert isinstance(shrunk, Shrunk)
    assert shrunk == Shrunk((1, 4), outcome(1, Violation("one-hand", 60_000, "why")), shrunk.plays)
    assert shrunk.plays < 15


def test_a_scenario_that_holds_has_no_shortest_list() -> None:
    assert shrink_faults(scenario_of("cut"), breaking("one-hand", "pause")) is None


def test_a_law_that_breaks_without_faults_needs_none() -> None:
    shrunk = shrink_faults(scenario_of("cut", "pause"), breaking("one-hand"))
    assert isinstance(shrunk, Shrunk)
    assert (shrunk.kept, shrunk.plays) == ((), 2)


def test_faults_after_the_law_broke_are_not_tried() -> None:
    shrunk = shrink_faults(
        scenario_of("cut", "pause", *["slow"] * 50), breaking("one-hand", "cut", at_ms=1_500)
    )
    assert isinstance(shrunk, Shrunk)
    assert (shrunk.kept, shrunk.plays) == ((0,), 3)  # all; those before; none


def test_another_law_that_breaks_is_not_the_same_failure() -> None:
    def play(scenario: Scenario, trace: Any = None) -> Outcome:
        kinds = {fault.kind for fault in scenario.faults}
        return outcome(
            1, Violation("one-hand" if kinds == {"cut", "pause"} else "no-defect", 60_000, "why")
        )

    shrunk = shrink_faults(scenario_of("cut", "pause"), play)
    assert shrunk is not None
    assert shrunk.kept == (0, 1)


@given(
    st.integers(0, 40).flatmap(
        lambda size: st.tuples(st.just(size), st.lists(st.sets(st.integers(0, size)), min_size=1))
    )
)
@example((3, [{0, 3}, {1}]))
def test_the_shrunk_faults_break_the_law_and_none_can_be_left_out(
    given_: tuple[int, list[set[int]]],
) -> None:
    size, needed = given_
    tried = []

    def breaks(kept: tuple[int, ...]) -> bool:
        tried.append(kept)
        return any(each <= {*kept} for each in needed) or len(kept) == size

    kept = minimal_subset(tuple(range(size)), breaks)
    assert breaks(kept)
    assert not any(breaks(kept[:index] + kept[index + 1 :]) for index in range(len(kept)))
