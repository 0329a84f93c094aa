"""Where foreign code raises, as messages about it say."""

import inspect
from collections.abc import Callable
from pathlib import PurePath
from typing import Any


def line_of_raise(function: Callable[..., Any]) -> str:
    """The file and line of a function's only `raise`."""
    lines, first = inspect.getsourcelines(function)
    (offset,) = (at for at, line in enumerate(lines) if line.strip().startswith("raise "))
    return f"{PurePath(function.__code__.co_filename).name}:{first + offset}"
