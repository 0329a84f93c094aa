"""Tables without frames: whole in a pipe, and readable on a narrow terminal."""

import pytest

from apportion.cli.short_names import least_width, shortened_or_none
from apportion.cli.tables import Column, Kind, Layout, lay_out, print_table

COLUMNS = (
    Column("TOPIC", Kind.NAME),
    Column("LAG", Kind.NUMBER),
    Column("MEMBER", Kind.NAME),
    Column("HOST", is_optional=True),
)
WORKERS = [f"analytics-nightly-worker-eu-west-1-pod-{number}-0f61d9a2" for number in range(10)]


def test_a_table_in_a_pipe_is_as_wide_as_its_cells() -> None:
    rows = [("orders", 7, WORKERS[0], "10.0.0.1"), ("t", None, None, "")]
    assert lay_out(COLUMNS, rows, None) == Layout(
        [
            "TOPIC   LAG  MEMBER                                             HOST",
            "orders    7  analytics-nightly-worker-eu-west-1-pod-0-0f61d9a2  10.0.0.1",
            "t         -  -                                                  -",
        ],
        is_whole=True,
    )


def test_names_are_shortened_to_what_tells_them_apart() -> None:
    rows = [("orders", number, name, "10.0.0.1") for number, name in enumerate(WORKERS)]
    assert lay_out(COLUMNS, rows[:2], 40) == Layout(
        [
            "TOPIC   LAG  MEMBER       HOST",
            "orders    0  …0-0f61d9a2  10.0.0.1",
            "orders    1  …1-0f61d9a2  10.0.0.1",
        ],
        is_whole=False,
    )
    lines = lay_out(COLUMNS, rows, 40).lines
    assert len({*lines}) == 11
    assert max(map(len, lines)) <= 40


def test_the_last_optional_column_goes_where_short_names_do_not_suffice() -> None:
    rows = [("orders", number, name, "10.0.0.1") for number, name in enumerate(WORKERS[:2])]
    assert lay_out(COLUMNS, rows, 24) == Layout(
        ["TOPIC   LAG  MEMBER", "orders    0  …0-0f61d9a2", "orders    1  …1-0f61d9a2"],
        is_whole=False,
    )


def test_a_list_is_folded_between_its_words() -> None:
    columns = (Column("MEMBER", Kind.NAME), Column("OWNS", Kind.LIST))
    assert lay_out(columns, [("m", "orders 0-19,23,25-30  payments 7")], 27) == Layout(
        ["MEMBER  OWNS", "m       orders 0-19,23,", "        25-30  payments 7"],
        is_whole=True,
    )


def test_control_characters_of_a_name_do_not_reach_the_terminal() -> None:
    assert lay_out((Column("GROUP", Kind.NAME),), [("a\x1b[2J\nb",)], None).lines == [
        "GROUP",
        r"a\x1b[2J\nb",
    ]


@pytest.mark.parametrize(
    ("names", "width", "short"),
    [
        (["a", "b"], 8, ["a", "b"]),
        (["worker-10", "worker-11"], 8, ["…10", "…11"]),
        (["alone-for-a-long-time"], 10, ["alo…g-time"]),
        (["pre-a-and-a-long-end", "pre-b-and-a-long-end"], 8, ["…a…", "…b…"]),
        (["x-1aaaaaaaaaaaaaaab", "x-2ccccccccccccccdd"], 8, ["…1aaaaa…", "…2ccccc…"]),
        (["aaaaaaaaaaaa1", "aaaaaaaaaaaa2x"], 8, ["aa…aaaa1", "aa…aaa2x"]),
        (
            ["p-aaaaaaaaaaaa", "p-aaaaaaaaaaab", "p-baaaaaaaaaaa"],
            8,
            ["…a…aaaaa", "…a…aaaab", "…b…aaaaa"],
        ),
        (["aaaaa1aaaaaaaa", "aaaaa2aaaaaaaa", "aaaaa1aaaaaaab"], 8, None),
    ],
)
def test_shortened_names_differ(names: list[str], width: int, short: list[str] | None) -> None:
    result = shortened_or_none(names, width)
    assert (None if result is None else [result[name] for name in names]) == short


def test_names_are_never_narrower_than_what_tells_them_apart() -> None:
    assert least_width(WORKERS) == 8
    assert least_width(["aaaaa1aaaaaaaa", "aaaaa2aaaaaaaa", "aaaaa1aaaaaaab"]) == 10
    assert least_width([]) == 0


def test_cells_are_found_by_key_and_a_rare_column_is_shown_where_a_row_has_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = {"lag": Column("LAG", Kind.NUMBER), "note": Column("NOTE", is_rare=True)}
    rows: list[dict[str, object]] = [{"note": "", "other": 1, "lag": 5}, {"lag": None}]
    assert print_table(columns, rows)
    assert print_table(columns, [*rows, {"note": "gone", "lag": 7}])
    assert capsys.readouterr().out.splitlines() == [
        "LAG",
        "  5",
        "  -",
        "LAG  NOTE",
        "  5  -",
        "  -  -",
        "  7  gone",
    ]
