"""Values of options that are text or paths, taken as they were typed.

Typer converts every value through Pydantic, whose import takes as long as all other imports of a
command. Text and paths need no conversion, nor does an option that is not given.
"""

import os
from pathlib import Path
from typing import Any


class PlainValues:
    """A conversion of an option's values: text and paths are taken here, the rest by Typer.

    It stands where Typer keeps its own conversion, and has its methods.
    """

    def __init__(self, option: Any) -> None:
        self._option = option

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the command gets it; a list, where the option may be repeated."""
        option = self._option
        is_list = option.nargs == -1 or getattr(option, "multiple", False)
        if value is None:
            return () if is_list else None
        kind, info = option.type_descriptor.annotation, option.type_descriptor.parameter_info
        if info.parser is None:
            if is_list and kind == list[str] and all(isinstance(each, str) for each in value):
                return list(value)
            if kind is str and isinstance(value, str):
                return value
            if kind is Path and isinstance(value, str) and _is_plain_path(value, info):
                return Path(value)
        # None makes Typer build its own conversion, which stays from here on.
        option._runtime_param = None
        return option.get_runtime_param().coerce(value, param=param, ctx=ctx)


def take_plain_values(option: Any) -> None:
    """Let an option, or an argument, take text and paths as they were typed."""
    # A private name of Typer: in a version that lacks it, the own conversion of Typer stays.
    if getattr(option, "_runtime_param", 0) is None and hasattr(option, "type_descriptor"):
        option._runtime_param = PlainValues(option)


def _is_plain_path(value: str, info: Any) -> bool:
    """Return whether Typer would take the path as it is, and refuse nothing about it."""
    if info.exists or info.resolve_path or info.allow_dash or info.path_type is not None:
        return False
    if not info.file_okay or not info.dir_okay or info.writable:
        return False
    return not info.readable or os.access(value, os.R_OK) or not os.path.exists(value)
