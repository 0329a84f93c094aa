"""What others wrote is shown as it is, but for what a terminal or a log would obey."""

import pytest

from apportion.readable import foreign_text, listed, readable, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("grüp [bold] :fire:", "grüp [bold] :fire:"),
        ("a\nb\x1b[2J\x00", r"a\nb\x1b[2J\x00"),
        ("\u202egpj", r"\u202egpj"),
        ("", ""),
    ],
)
def test_only_what_cannot_be_printed_is_escaped(text: str, shown: str) -> None:
    assert readable(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("/lake/one", "/lake/one"), ("/lake/other", "/la...her"), ("\n" * 9, r"\n\...n\n")],
)
def test_a_long_text_is_shown_without_its_middle(text: str, shown: str) -> None:
    assert shortened(text, 9) == shown


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "t0"),
        (10, "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9"),
        (12, "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more"),
    ],
)
def test_of_many_names_the_first_are_listed_and_the_others_counted(count: int, text: str) -> None:
    assert listed([f"t{number}" for number in range(count)]) == text


class Unprintable:
    """Fails when its text is asked for."""

    def __repr__(self) -> str:
        raise SystemExit("no text")


@pytest.mark.parametrize(
    ("value", "shown"), [("a", "'a'"), (7, "7"), (Unprintable(), "Unprintable")]
)
def test_an_object_without_a_text_is_shown_by_its_type(value: object, shown: str) -> None:
    assert foreign_text(value) == shown
    assert foreign_text(value, str) == shown.strip("'")
