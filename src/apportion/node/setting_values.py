"""Values of broker settings: read from texts as by Kafka, written as by Kafka, and their types."""

from typing import Any

from apportion.settings import MAX_INT32, MAX_INT64, Setting

BOOLEAN, WORD, INT, LONG, LIST, PASSWORD = 1, 2, 3, 5, 7, 9
"""Kafka's numbers for types of settings; LONG has 64 bits."""
LONGS = (
    "connections_max_idle_ms",
    "connections_max_reauth_ms",
    "log_message_timestamp_after_max_ms",
    "log_message_timestamp_before_max_ms",
    "log_retention_bytes",
    "log_retention_check_interval_ms",
    "log_retention_ms",
    "log_roll_ms",
    "offsets_retention_check_interval_ms",
    "sasl_oauthbearer_jwks_endpoint_refresh_ms",
)
LISTS = ("advertised_listeners", "listeners")
HIDDEN = "[hidden]"
"""Stands for a secret that is set, as in Kafka."""


def broker_config_type(setting: Setting) -> int:
    """Return the type of a broker's setting in Kafka's numbers, for DescribeConfigs."""
    if setting.is_secret:
        return PASSWORD
    if setting.name in LONGS:
        return LONG
    if setting.name in LISTS or isinstance(setting.default, tuple):
        return LIST
    if isinstance(setting.default, bool):
        return BOOLEAN
    return WORD if isinstance(setting.default, str) else INT


def largest(setting: Setting) -> int:
    """Return the largest number that fits the type of a setting."""
    return MAX_INT64 if setting.name in LONGS else MAX_INT32


def parsed(name: str, value: Any, setting: Setting) -> Any:
    """Return a broker setting's value in the type of its default; texts are read as by Kafka.

    name: with dots. Errors: ValueError for a value of the wrong kind; it has no secret.
    """
    default = setting.default
    # Before the numbers, because in Python a bool is an int.
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise ValueError(f"{name} must be true or false, not {value!r}.")
    if default is None and value in (None, ""):
        return None
    if default is None or isinstance(default, int):
        try:
            # int() would cut off a fraction, and make 1 of True.
            return value if type(value) is int else int(str(value))
        except ValueError:
            raise ValueError(f"{name} must be a whole number, not {value!r}.") from None
    if isinstance(default, str) and not isinstance(value, str):
        shown = f"a {type(value).__name__}" if setting.is_secret else repr(value)
        raise ValueError(f"{name} must be a text, not {shown}.")
    if isinstance(default, tuple):
        if not isinstance(value, str | tuple | list):
            raise ValueError(f"{name} must be a list, not {value!r}.")
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part.strip() if isinstance(part, str) else part for part in parts if part)
    return value


def written(value: Any) -> str:
    """Return a broker setting's value as text, as Kafka writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
