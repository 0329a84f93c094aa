"""The values of a query's options, parsed and checked: for streams and for batch reads.

Every error is one sentence that names the option and the remedy.
"""

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from apportion.client.bootstrap import addresses, scheme_remedy_or_none
from apportion.client.kafka_security import PREFIXES
from apportion.settings import Setting, fault_or_none, nearest_or_none, whole_number
from apportion.spark.errors import PlainError

PREFIX = "kafka."
"""The beginning of the names that options have in Kafka's clients without it."""
SECURITY_PREFIXES = tuple(PREFIX + prefix for prefix in PREFIXES)
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
BOOLEANS = {"true": True, "false": False}
Settings = Mapping[str, Setting]


class OptionError(PlainError, ValueError):
    """An option is missing, unknown, wrong, or contradicts another one."""


def option_error(fault: str) -> OptionError:
    """Return the fault of an option as one sentence.

    fault: begins with the option's name; a question, such as "did you mean ...?", stays one.
    """
    return OptionError(f"option {fault}{'' if fault.endswith('?') else '.'}")


def by_lower_name(
    options: Mapping[str, str], known: Settings, refused: Mapping[str, str]
) -> dict[str, str]:
    """Return the options by their names in lower case, as Spark hands them over.

    refused: by name, why an option cannot be used. Raises OptionError for the first option that is
    refused or not known.
    """
    values = {name.lower(): value for name, value in options.items()}
    refused_spelling = {name.lower(): name for name in refused}
    known_spelling = {name.lower(): name for name in known}
    for name in values:
        if name in refused_spelling:
            spelling = refused_spelling[name]
            raise OptionError(f"option {spelling} cannot be used: {refused[spelling]}.")
        if name not in known_spelling and not name.startswith(SECURITY_PREFIXES):
            # As the user has written it, if Spark has kept that.
            _refuse_unknown(next(each for each in options if each.lower() == name), known_spelling)
    return values


def _refuse_unknown(name: str, known_spelling: Mapping[str, str]) -> NoReturn:
    """Raise OptionError for an unknown option, with the nearest name that is known."""
    nearest = nearest_or_none(name.lower(), known_spelling)
    hint = (
        f"did you mean {known_spelling[nearest]}?"
        if nearest
        else f"known are {', '.join(sorted(known_spelling.values()))}."
    )
    # The message shows the name as Spark gives it: a person who wrote startingOffset should not
    # take the missing capital letter for the mistake.
    case_hint = (
        " (Spark hands names over in lower case)"
        if nearest and name != known_spelling[nearest] and name.islower()
        else ""
    )
    raise OptionError(f"option {name} is unknown{case_hint}: {hint}")


def required_text(options: Mapping[str, str], name: str, meaning: str) -> str:
    """Return an option that the source needs; raise OptionError if it is missing or empty."""
    value = (options.get(name) or "").strip()
    if not value:
        raise OptionError(
            f'option {name} is missing: give {meaning}, as in .option("{name}", "...").'
        )
    return value


def bootstrap_servers(options: Mapping[str, str]) -> str:
    """Return `kafka.bootstrap.servers` if each address is host:port, else raise OptionError."""
    value = required_text(
        options, "kafka.bootstrap.servers", "the brokers as host:port with commas between"
    )
    for address in value.split(","):
        if (remedy := scheme_remedy_or_none(address.strip())) is not None:
            raise OptionError(
                f"option kafka.bootstrap.servers holds {address.strip()!r}, which has a scheme: "
                f"{remedy}."
            )
    try:
        addresses(value)
    except ValueError as error:
        raise OptionError(
            f"option kafka.bootstrap.servers: {error}; write each broker as host:port."
        ) from None
    return value


ISOLATION_LEVEL = Setting(
    "Which records of transactions are read: committed ones, up to the last stable offset.",
    "read_committed",
    choices=("read_committed",),
)


def refuse_uncommitted_reads(options: Mapping[str, str]) -> None:
    """Raise OptionError for another `kafka.isolation.level` than the one that there is."""
    value = options.get("kafka.isolation.level", "read_committed").strip().lower()
    if value not in ISOLATION_LEVEL.choices:
        raise OptionError(
            f"option kafka.isolation.level is {value!r}: only read_committed is here, because a "
            "record that is aborted later could not be taken back from where it was written; drop "
            "the option."
        )


def duration_ms(settings: Settings, options: Mapping[str, str], name: str) -> int:
    """Return a duration in ms, written as Spark has it: a number with a unit, or of ms."""
    text = options.get(name.lower(), settings[name].default).strip().lower()
    match = re.fullmatch(r"([0-9]+)\s*(ms|s|min|m|h|d)?", text)
    if match is None:
        raise OptionError(f"option {name} is {text!r}: give a time such as 90s, 15m or 1h.")
    return int(match[1]) * UNITS_MS[match[2] or "ms"]


def parsed(settings: Settings, options: Mapping[str, str], name: str) -> Any:
    """Return the value of an option that is a number or a boolean, or its default."""
    setting, text = settings[name], options.get(name.lower())
    if text is None:
        return setting.default
    word = text.strip()
    if setting.type is bool:
        if word.lower() not in BOOLEANS:
            raise OptionError(f"option {name} is {text!r}: give true or false.")
        return BOOLEANS[word.lower()]
    if not word.isdecimal() or fault_or_none(setting, int(word)) is not None:
        raise OptionError(f"option {name} is {text!r}: give {whole_number(setting)}.")
    return int(word)
