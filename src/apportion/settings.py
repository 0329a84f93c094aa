"""Declared settings: name, type, default, bounds and a sentence for users, each written once.

A set of settings is a class whose fields are annotated `Annotated[type, Setting(...)]`: a TypedDict
for the options of a client (so that a checker knows them as keyword arguments), a dataclass for
what a broker obeys. `declared` reads them at run time: for the checks, for the suggestion after a
misspelt name, for the tables of docs/settings.md and for `--help`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
"""The greatest numbers that fields of Kafka's requests and records can carry."""


class ValueCheck(NamedTuple):
    """A check of one setting beyond its type, bounds and choices.

    must: what the value must be, in words that follow "must".
    """

    is_right: Callable[[Any], bool]
    must: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: what it does, in a sentence, and which values it takes.

    default: the value where none is given; the field's own default where the class is a dataclass.
    default_words: how a page says a default that is no value, such as "the broker's".
    at_least, at_most: bounds of a number, inclusive. choices: the only values, where there are few.
    check: of every value but a None that may be.
    is_dynamic: whether it may be altered while the broker runs. is_per_group: whether a group may
    have a value of its own. is_secret: whether nobody may be shown its value. name, type: filled in
    by `declared`.
    """

    sentence: str
    default: Any = None
    default_words: str = ""
    at_least: int | None = None
    at_most: int | None = None
    choices: tuple[str, ...] = ()
    check: ValueCheck | None = None
    is_dynamic: bool = False
    is_per_group: bool = False
    is_secret: bool = False
    name: str = ""
    type: Any = None

    def only_with(self, other: str) -> "Setting":
        """Return the setting with a note in its sentence that it has no effect without `other`."""
        return replace(self, sentence=f"{self.sentence.removesuffix('.')}; only with {other}.")


@cache
def declared(owner: type) -> Mapping[str, Setting]:
    """Return the settings that a class declares by name, inherited ones first, in field order."""
    settings: dict[str, Setting] = {}
    for name, hint in get_type_hints(owner, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, *notes = get_args(hint)
            own = [note for note in notes if isinstance(note, Setting)]
            if own:
                default = getattr(owner, "__dataclass_fields__", {}).get(name)
                value = own[0].default if default is None else default.default
                settings[name] = replace(own[0], name=name, type=kind, default=value)
    return settings


def bounds_fault_or_none(setting: Setting, value: Any) -> str | None:
    """Return what a number out of bounds must be, in words that follow "must"; else None."""
    if setting.at_least is not None and value < setting.at_least:
        return f"be at least {setting.at_least}"
    if setting.at_most is not None and value > setting.at_most:
        return f"be at most {setting.at_most}"
    return None


def takes_number(setting: Setting) -> bool:
    """Return whether the setting is a whole number, or may be one."""
    return int in _kinds(setting)


def whole_number(setting: Setting) -> str:
    """Return which whole numbers a setting takes, such as "a whole number from 1 to 9"."""
    least, most = setting.at_least, setting.at_most
    if least is not None and most is not None:
        return f"a whole number from {least} to {most}"
    if least is not None:
        return f"a whole number of at least {least}"
    return "a whole number" if most is None else f"a whole number of at most {most}"


def fault_or_none(setting: Setting, value: Any) -> str | None:
    """Return what a wrong value must be, in words that follow "must"; None for a value that fits.

    Looks at the type where that is int or bool, at bounds, at choices, and at the check.
    """
    kinds = _kinds(setting)
    if value is None and NoneType in kinds:
        return None
    if int in kinds:
        # A bool is an int in Python, and never meant as a number here.
        fits = type(value) is int and bounds_fault_or_none(setting, value) is None
        return None if fits else f"be {whole_number(setting)}"
    if bool in kinds:
        return None if isinstance(value, bool) else "be True or False"
    if setting.choices and value not in setting.choices:
        return f"be one of {', '.join(setting.choices)}"
    check = setting.check
    return None if check is None or check.is_right(value) else check.must


def _kinds(setting: Setting) -> tuple[Any, ...]:
    """Return the types that the setting may have: those of a union, or the one."""
    is_union = get_origin(setting.type) in (Union, UnionType)
    return get_args(setting.type) if is_union else (setting.type,)


def nearest_or_none(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a misspelt one; None if none is like it."""
    near = get_close_matches(name, list(known), n=1)
    return near[0] if near else None
