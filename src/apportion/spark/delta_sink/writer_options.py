"""The checks of `delta.Writer`'s arguments, at its construction.

Else the first batch would fail with them, inside Spark.
"""

import os
from collections.abc import Mapping


def refuse_wrong_arguments(
    table: object, storage_options: object, flags: Mapping[str, object], attempts: object
) -> None:
    """Raise ValueError, with one sentence, for an argument of another kind than the writer takes.

    flags: by name, the arguments that are True or False.
    """
    if not isinstance(table, str | os.PathLike) or not str(table).strip():
        raise _wrong("table", "a path or a URI", table)
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise _wrong("storage_options", "a mapping", storage_options)
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise _wrong(name, "True or False", value)
    # A bool is an int in Python, and never meant as a number here.
    if type(attempts) is not int or attempts < 1:
        raise _wrong("attempts", "a whole number of at least 1", attempts)


def _wrong(name: str, kind: str, value: object) -> ValueError:
    """Return the error for an argument of the writer."""
    return ValueError(f"delta.Writer: {name} must be {kind}, not {value!r}")
