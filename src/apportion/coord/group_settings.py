"""The settings that a group may have of its own: names, checks and effect (KIP-848).

Each is a setting of `GroupSettings` that is declared with `is_per_group`; its name is the broker's
without `group.` in front. It holds for its group where the broker's would hold, from each member's
next heartbeat on. A group may have settings before it has members, and keeps them without any.
"""

from collections.abc import Mapping
from dataclasses import replace
from re import fullmatch
from types import MappingProxyType
from typing import Any

from apportion.coord.config import BOUNDED, GroupSettings, dotted
from apportion.errors import Code, Refused
from apportion.readable import MAX_QUOTED
from apportion.settings import (
    MAX_INT32,
    Setting,
    bounds_fault_or_none,
    declared,
    nearest_or_none,
    whole_number,
)

BROKER_PREFIX = "group_"
FIELDS: Mapping[str, str] = MappingProxyType(
    {
        dotted(field.removeprefix(BROKER_PREFIX)): field
        for field, setting in declared(GroupSettings).items()
        if setting.is_per_group
    }
)
"""A setting of a group -> the field of `GroupSettings` in whose place it stands."""
OWN_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        name: replace(declared(GroupSettings)[field], at_most=MAX_INT32, is_dynamic=False)
        for name, field in FIELDS.items()
    }
)
"""A setting of a group -> its declaration."""
MISSING = {"share.": "share groups", "streams.": "streams groups"}
"""Settings of Kafka's that begin so are for groups of kinds that are not there yet."""
SESSION, INTERVAL = "group_consumer_session_timeout_ms", "group_consumer_heartbeat_interval_ms"


def check_group_settings(own: Mapping[str, str], broker: GroupSettings) -> dict[str, str]:
    """Return all settings that a group is to have of its own, as plain numbers; refuse wrong ones.

    The names are checked first, then each value, its bounds by the broker's settings, and values
    against each other; where the group has none of its own, the broker's counts.
    Errors: INVALID_CONFIG.
    """
    for name in own:
        _check_name(name)
    values = {FIELDS[name]: _number(name, text) for name, text in own.items()}
    for field, wrong_side, bound_name in BOUNDED:
        value, bound = values.get(field), getattr(broker, bound_name)
        if value is not None and (value < bound if wrong_side == "below" else value > bound):
            limit = "at least" if wrong_side == "below" else "at most"
            raise Refused(
                Code.INVALID_CONFIG,
                f"{_name(field)} of a group must be {limit} {bound}, the broker's "
                f"{dotted(bound_name)}, not {value}",
            )
    session_ms = values.get(SESSION, broker.group_consumer_session_timeout_ms)
    interval_ms = values.get(INTERVAL, broker.heartbeat_interval_for(session_ms))
    if interval_ms >= session_ms:
        raise Refused(
            Code.INVALID_CONFIG,
            f"{_name(INTERVAL)} ({interval_ms}) must be below {_name(SESSION)} ({session_ms}); "
            "where a group has only one of them, the other is the broker's",
        )
    return {name: str(values[FIELDS[name]]) for name in own}


def settings_of_group(own: Mapping[str, str], broker: GroupSettings) -> GroupSettings:
    """Return the settings that hold in a group: its own, and the broker's for all others.

    own: settings that were checked once. A broker that was started again with other bounds moves
    them to the nearest value within those; if the heartbeat interval is then not below the session
    timeout, the broker's own settings hold.
    """
    values: dict[str, Any] = {
        FIELDS[name]: int(text) for name, text in own.items() if name in FIELDS
    }
    for field, wrong_side, bound_name in BOUNDED:
        if field in values:
            nearer = max if wrong_side == "below" else min
            values[field] = nearer(values[field], getattr(broker, bound_name))
    session_ms = values.get(SESSION, broker.group_consumer_session_timeout_ms)
    interval_ms = values.get(INTERVAL, broker.heartbeat_interval_for(session_ms))
    return broker if interval_ms >= session_ms else replace(broker, **values)


def _name(field: str) -> str:
    """Return the name of a group's setting by the field of `GroupSettings`."""
    return dotted(field.removeprefix(BROKER_PREFIX))


def _check_name(name: str) -> None:
    """Refuse a name that is no setting of a group. Errors: INVALID_CONFIG."""
    if name in OWN_SETTINGS:
        return
    for prefix, feature in MISSING.items():
        if name.startswith(prefix):
            raise Refused(
                Code.INVALID_CONFIG,
                f"{name[:MAX_QUOTED]} has no effect: {feature} are not there yet",
            )
    near = nearest_or_none(name[:MAX_QUOTED], OWN_SETTINGS)
    hint = f"; did you mean {near}?" if near else f"; there are {', '.join(OWN_SETTINGS)}"
    raise Refused(Code.INVALID_CONFIG, f"a group has no setting {name[:MAX_QUOTED]}{hint}")


def _number(name: str, text: str) -> int:
    """Return the value of a group's setting. Errors: INVALID_CONFIG."""
    setting = OWN_SETTINGS[name]
    is_number = fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", text) is not None
    if not is_number or bounds_fault_or_none(setting, int(text)) is not None:
        raise Refused(
            Code.INVALID_CONFIG, f"{name} is {whole_number(setting)}, not {text[:MAX_QUOTED]!r}"
        )
    return int(text)
