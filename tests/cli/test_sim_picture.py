"""The picture of `apportion sim`: who owned each partition, and when what went wrong."""

from collections.abc import Callable

import pytest

from apportion.cli.sim_picture import picture
from apportion.sim.kernel.outcome import Outcome
from apportion.sim.kernel.scenario import Fault, Scenario
from apportion.sim.kernel.trace import Trace
from tests.sim import stand_in


def drawn_picture(play: Callable[..., Outcome], scenario: Scenario, width: int) -> list[str]:
    """The lines of the picture of a history."""
    trace = Trace()
    outcome = play(scenario, trace)
    return [line.plain.rstrip() for line in picture(scenario, outcome, trace.ownership, width)]


def test_the_picture_has_a_row_for_each_partition_and_marks_for_faults() -> None:
    faults = (
        Fault(5_000, "cut"),
        Fault(5_100, "pause"),
        Fault(5_200, "cut"),
        Fault(18_000, "pause"),
    )
    scenario = Scenario(seed=1, duration_ms=25_000, faults=faults)
    assert drawn_picture(stand_in.tells, scenario, width=40) == [
        "               1",
        "               2",
        "               1            2",
        "          '0 s           '15 s     |",
        "etl t1-2  ..........AAAAAAAAAABBBBBBBBBB",
        "etl t1-10 AAAAAAAAAAAAAAA.....!BBBBBBBBB",
        "etl t2-0                          ......",
        "",
        "A worker-0   B worker-1",
        "1 cut x2   2 pause x2",
        ". none   ! two, one of which has been removed from the group and cannot know it   "
        "' time   | no new faults from here on   X a law was broken",
    ]


def test_two_owners_are_seen_however_short_they_were() -> None:
    rows = drawn_picture(stand_in.tells, Scenario(seed=1, duration_ms=25_000), width=22)
    assert [row for row in rows if row.startswith("etl t1-10")] == ["etl t1-10 AAAAAA..!BBB"]


def test_a_picture_of_nothing_is_an_axis() -> None:
    assert drawn_picture(stand_in.holds, Scenario(seed=1, duration_ms=60_000), width=30) == [
        " '0 s          '30 s",
        "",
        ". none   ! two, one of which has been removed from the group and cannot know it   "
        "' time   | no new faults from here on   X a law was broken",
    ]


def test_a_broken_law_is_marked_on_the_axis() -> None:
    lines = drawn_picture(stand_in.breaks_at_seven, Scenario(seed=7, duration_ms=60_000), width=41)
    assert lines[0] == " 'X 0 s              '30 s"


@pytest.mark.parametrize(
    ("faults_end_ms", "axis"),
    [
        (29_999, " '0 s               |'30 s"),
        (30_000, " '0 s                | 30 s"),
        (31_500, " '0 s                '| 30 s"),
        (33_000, " '0 s                ' | 30 s"),
        (36_000, " '0 s                '   | 30 s"),
        (37_500, " '0 s                '30 s|"),
    ],
)
def test_the_end_of_the_faults_hides_no_digit_of_the_axis(faults_end_ms: int, axis: str) -> None:
    scenario = Scenario(seed=1, duration_ms=faults_end_ms)
    assert drawn_picture(stand_in.holds, scenario, width=41)[0] == axis
