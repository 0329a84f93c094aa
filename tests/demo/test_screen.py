import io

from rich.console import Console

from demo.screen import LiveView, PlainLines, Scene, clock, screen
from demo.timeline import Sample


def scene(at_ms, lost_at_ms=()):
    samples = [
        Sample(0, {}, frozenset(), True, {}, {}),
        Sample(
            1_000,
            {0: "v1-a", 1: "v1-b"},
            frozenset({"v1-a", "v1-b"}),
            True,
            {0: 1_000, 1: 500},
            {0: 1_200, 1: 500},
        ),
    ]
    return Scene(
        at_ms,
        "group g",
        "two share",
        4_000,
        2_000,
        ("v1-a", "v1-b"),
        samples,
        dict(lost_at_ms),
        2,
        1_234,
    )


def drawn(shown, height=30):
    """The live view as text."""
    console = Console(
        file=io.StringIO(), width=80, height=height, force_terminal=True, color_system=None
    )
    picture = LiveView(console)
    for number in range(8):
        picture.report(1_000 * number, f"news {number}")
    with console.capture() as captured:
        console.print(picture._render(shown))
    return captured.get()


def test_the_live_view_shows_owner_lag_and_past_of_each_partition():
    lines = drawn(scene(4_000)).splitlines()
    assert lines[0].split() == ["0:04", "group", "g"]
    assert [line.split() for line in lines[4:6]] == [
        ["0", "v1-a", "200", "·███████"],
        ["1", "v1-b", "0", "·███████"],
    ]
    assert "produced 2,000 of 4,000 | written 1,500 | lag 200 | memory 1,234 MB" in lines[8]


def test_a_lost_host_owns_nothing_although_the_coordinator_does_not_know_yet():
    assert [
        line.split()[1] for line in drawn(scene(4_000, {"v1-a": 900}.items())).splitlines()[4:6]
    ] == ["nobody", "v1-b"]


def test_a_small_terminal_shows_the_latest_news():
    assert [line.split()[-1] for line in drawn(scene(4_000), height=24).splitlines()[-3:]] == [
        "5",
        "6",
        "7",
    ]


def test_without_a_terminal_there_are_plain_lines():
    stream = io.StringIO()
    shown = screen(stream)
    assert isinstance(shown, PlainLines)
    with shown:
        shown.report(61_000, "it happened")
        for at_ms in (62_000, 63_000, 67_000):
            shown.show(scene(at_ms))
    figures = (
        "produced 2,000 of 4,000 | written 1,500 | lag 200 | memory 1,234 MB | v1-a owns 1, "
        "v1-b owns 1"
    )
    assert stream.getvalue().splitlines() == [
        "1:01  it happened",
        f"1:02    {figures}",
        f"1:07    {figures}",
    ]


def test_time_is_told_in_minutes_and_seconds():
    assert [clock(at_ms) for at_ms in (0, 59_999, 60_000, 754_321)] == [
        "0:00",
        "0:59",
        "1:00",
        "12:34",
    ]
