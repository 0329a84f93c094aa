"""Scripts of refusals: a line of options that cannot be meant, and behind `>` the whole sentence
that says so; see `tests/scripted.py`.
"""

import shlex
import textwrap
from collections.abc import Callable
from string import Template
from typing import Any

import pytest


def texts(step: str, **names: Any) -> dict[str, str]:
    """The options of a line `name=value other='a value'`. A word without "=" names some of them;
    `$NAME` in a value stands for a text.
    """
    options: dict[str, str] = {}
    for word in shlex.split(step):
        name, equals, value = word.partition("=")
        options |= {name: Template(value).safe_substitute(names)} if equals else names[name]
    return options


def arguments(step: str, **names: object) -> dict[str, Any]:
    """The options of a line `name="text", other=3`, as arguments of a call."""
    options: dict[str, Any] = eval(f"dict({step})", dict(names))
    return options


def sentence(refused: Callable[[], object], error: type[Exception] = ValueError) -> list[str]:
    """The sentence with which a call is refused, in lines."""
    with pytest.raises(error) as refusal:
        refused()
    return in_lines(str(refusal.value))


def in_lines(text: str) -> list[str]:
    """A sentence in lines of a script, broken between words."""
    return textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False)
