"""What others wrote is shown as it is, but for what a terminal or a log would obey."""

import pytest

from apportion.readable import readable


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
