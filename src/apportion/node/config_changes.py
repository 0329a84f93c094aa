"""Changes of the own settings of a resource, as IncrementalAlterConfigs asks for them.

It knows no resources: which settings there are, and which values they take, is for the caller.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.readable import MAX_QUOTED
from apportion.topics import grouped
from apportion.wire.messages.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT

OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


class ConfigChange(NamedTuple):
    """One setting, the operation on it, and the value that the operation needs."""

    name: str
    operation: int
    value: str | None


def check_changes(changes: Sequence[ConfigChange]) -> None:
    """Refuse changes of one resource that make no sense for any. Errors: INVALID_REQUEST."""
    for name, mentions in grouped((change.name, change) for change in changes).items():
        if len(mentions) > 1:
            raise Refused(
                Code.INVALID_REQUEST,
                f"{name[:MAX_QUOTED]} is there twice: say once what becomes of it",
            )
    for change in changes:
        if change.operation not in OPERATIONS:
            raise Refused(
                Code.INVALID_REQUEST,
                f"{change.name[:MAX_QUOTED]} has operation {change.operation}; there are "
                + ", ".join(f"{number} ({word})" for number, word in OPERATIONS.items()),
            )
        if change.value is None and change.operation != DELETE:
            raise Refused(
                Code.INVALID_REQUEST,
                f"{change.name[:MAX_QUOTED]} has no value: DELETE returns a setting to its default",
            )


def changed_settings(
    own: Mapping[str, str], changes: Iterable[ConfigChange], lists: Mapping[str, str]
) -> dict[str, str]:
    """Return the own settings of a resource after these changes, which `check_changes` has passed.

    lists: each setting that is a list, and what holds where the resource has none of its own. An
    element that is added is added once; one that is not there may be removed.
    Errors: INVALID_CONFIG for APPEND to, and SUBTRACT from, any other setting.
    """
    changed = dict(own)
    for name, operation, value in changes:
        if operation == DELETE:
            changed.pop(name, None)
            continue
        assert value is not None, name
        if operation == SET:
            changed[name] = value
            continue
        if name not in lists:
            raise Refused(
                Code.INVALID_CONFIG,
                f"{name[:MAX_QUOTED]} is no list: set it instead of {OPERATIONS[operation]}",
            )
        before, given = _elements(changed.get(name, lists[name])), _elements(value)
        after = (
            dict.fromkeys([*before, *given])
            if operation == APPEND
            else [element for element in before if element not in given]
        )
        changed[name] = ",".join(after)
    return changed


def _elements(text: str) -> list[str]:
    """Return the elements of a list of words with commas between them."""
    return [word.strip() for word in text.split(",") if word.strip()]
