"""Custom assignors of a broker: found by `module:Class` or entry point, and checked at the start.

A fault of one is an error of one sentence, and the broker does not start: a group whose assignor is
missing would silently be assigned by another.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.assign.custom import CustomAssignor
from apportion.coord.config import ASSIGNORS
from apportion.exports import attribute_of
from apportion.node.settings import BrokerSettings, SettingRefused

SETTING = "group.consumer.assignors"
ENTRY_POINTS = "apportion.assignors"
"""The group of entry points by which packages offer assignors."""


def broker_settings(values: Mapping[str, Any]) -> BrokerSettings:
    """Return the broker's settings with the custom assignors that they name.

    values: as `BrokerSettings.of` takes them; the assignors may also be classes and objects.
    Errors: SettingRefused.
    """
    custom: dict[str, CustomAssignor] = {}
    loaded = dict(values)
    for key, value in values.items():
        if key.replace("_", ".") == SETTING:
            loaded[key] = _names(value, custom)
    return BrokerSettings.of(loaded, custom)


def _names(configured: Any, custom: dict[str, CustomAssignor]) -> Any:
    """Return the names of the configured assignors; add to `custom` those that are not built in."""
    if isinstance(configured, str):
        configured = tuple(part.strip() for part in configured.split(",") if part.strip())
    if not isinstance(configured, tuple | list):
        return configured  # which the settings refuse, like every other value of a wrong kind
    names = []
    for each in configured:
        if isinstance(each, str) and each in ASSIGNORS:
            names.append(each)
            continue
        assignor = _loaded(each)
        names.append(assignor.name)
        custom[assignor.name] = assignor
    return tuple(names)


def _loaded(configured: Any) -> CustomAssignor:
    """Return the assignor that a module, an entry point, a class or an object gives.

    Errors: SettingRefused.
    """
    if not isinstance(configured, str):
        return _checked(configured, repr(configured))
    if ":" in configured:
        module, _, path = configured.partition(":")
        return _checked(_called(configured, lambda: attribute_of(module, path)), configured)
    return _checked(_called(configured, _entry_point(configured)), configured)


def _entry_point(name: str) -> Callable[[], Any]:
    """Return the function that loads the assignor of that entry point.

    Errors: SettingRefused.
    """
    # Only here: it takes longer to import than all else that a start of the broker needs.
    from importlib.metadata import entry_points

    offered = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in offered:
        there_are = ", ".join([*dict.fromkeys(ASSIGNORS.values()), *sorted(offered)])
        raise SettingRefused(
            f"{SETTING}: there is no assignor {name!r}; there are {there_are}, and your own as "
            "module:Class."
        )
    return offered[name].load


def _checked(found: Any, configured: str) -> CustomAssignor:
    """Return an object with the interface of assignors; a class is called without arguments.

    Errors: SettingRefused.
    """
    assignor = _called(configured, found) if isinstance(found, type) else found
    name = getattr(assignor, "name", None)
    if not callable(getattr(assignor, "assign", None)):
        raise SettingRefused(f"{SETTING}: {configured} is no assignor: it has no method assign.")
    if not isinstance(name, str) or not name.strip() or "," in name:
        raise SettingRefused(
            f"{SETTING}: {configured} needs a name without commas, for which members vote, not "
            f"{name!r}."
        )
    if name in ASSIGNORS:
        raise SettingRefused(
            f"{SETTING}: {configured} has the name of a built-in assignor, {name!r}."
        )
    checked: CustomAssignor = assignor
    return checked


def _called(configured: str, call: Callable[[], Any]) -> Any:
    """Return what foreign code returns; whatever it raises becomes one sentence."""
    try:
        return call()
    # A module may also end the process.
    except (Exception, SystemExit) as error:
        raise SettingRefused(
            f"{SETTING}: {configured} cannot be loaded: {type(error).__name__}: {error}."
        ) from error
