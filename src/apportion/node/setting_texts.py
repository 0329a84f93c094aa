"""Broker settings as texts of a command line, checked before `BrokerSettings.of` has them."""

from collections.abc import Iterable

from apportion.coord.config import dotted
from apportion.node.listeners import host_and_port, parse_listeners
from apportion.node.settings import SettingRefused


def values_of_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Return the values that `name=value` texts of `apportion serve` give, for `BrokerSettings.of`.

    Errors: SettingRefused.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingRefused(f"{pair!r} is not a setting: write name=value.")
        # Both spellings are one setting.
        key = name.strip()
        if dotted(key) in map(dotted, values):
            raise SettingRefused(f"{dotted(key)} is given twice.")
        values[key] = value.strip()
    return values


def check_address(text: str, name: str) -> None:
    """Refuse a text that is not one HOST:PORT. Errors: SettingRefused."""
    try:
        host_and_port(text, name)
    except ValueError as error:
        raise SettingRefused(str(error)) from None


def check_listeners(text: str, name: str) -> None:
    """Refuse a text that is no list of listeners. Errors: SettingRefused."""
    try:
        parse_listeners(text, name)
    except ValueError as error:
        raise SettingRefused(str(error)) from None
