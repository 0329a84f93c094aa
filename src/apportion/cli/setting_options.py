"""Command-line options made from declared settings, so that `--help` prints the declaration.

A command takes `**settings` and is decorated with `takes(SettingsClass)`. Typer reads options from
a function's signature; the decorator puts one parameter for each setting there. The command itself
refuses wrong numbers (`number_fault_or_none`), so that it can do it in its own form, as JSON too.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

from apportion.cli.arguments import number_or_text, one_of
from apportion.settings import Setting, declared, fault_or_none, takes_number

C = TypeVar("C", bound=Callable[..., Any])


def help_text(setting: Setting) -> str:
    """Return the setting's sentence with its bounds, for `--help`."""
    sentence = setting.sentence.removesuffix(".")
    if setting.at_least is not None and setting.at_most is not None:
        return f"{sentence} ({setting.at_least:,} to {setting.at_most:,})."
    if setting.at_least is not None:
        return f"{sentence} (at least {setting.at_least:,})."
    return f"{sentence}."


def number_fault_or_none(owner: type, values: Mapping[str, Any]) -> str | None:
    """Return a sentence about the first wrong number, without a full stop; None if all are right.

    owner: the class that declares the settings. values: what was typed, by setting.
    """
    for name, setting in declared(owner).items():
        if takes_number(setting) and name in values:
            fault = fault_or_none(setting, values[name])
            if fault is not None:
                return f"--{name.replace('_', '-')} must {fault}, not {values[name]!r}"
    return None


def takes(
    owner: type,
    *,
    panel: str | None = None,
    extras: Mapping[str, Mapping[str, Any]] | None = None,
    first: bool = False,
) -> Callable[[C], C]:
    """Return a decorator that gives a command an option for each setting that `owner` declares.

    panel: the heading of the options in `--help`. extras: setting -> further arguments of
    `typer.Option`, such as `metavar`. first: list the options before the command's own.
    """

    def decorate(command: C) -> C:
        """Give the command a keyword parameter for each setting, with a Typer option.

        Typer reads the signature; the command takes the values as **keywords.
        """
        signature = inspect.signature(command)
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        added = [
            _parameter(name, setting, panel, (extras or {}).get(name, {}))
            for name, setting in declared(owner).items()
        ]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*added, *own] if first else [*own, *added]
        )
        return command

    return decorate


def _parameter(
    name: str, setting: Setting, panel: str | None, extras: Mapping[str, Any]
) -> inspect.Parameter:
    """Return a keyword parameter for one declared setting, with its Typer option."""
    # `from` is a keyword of Python; without this Typer would call the option of `from_` "--from-".
    names = [f"--{name.removesuffix('_')}"] if name.endswith("_") else []
    if setting.default is False:  # else Typer would offer --no-... beside it
        names = [f"--{name}"]
    further: dict[str, Any] = {}
    if takes_number(setting):
        further |= {"parser": number_or_text, "metavar": "INTEGER"}
    if setting.choices:
        further["autocompletion"] = one_of(*setting.choices)
    further |= extras
    option = typer.Option(*names, help=help_text(setting), rich_help_panel=panel, **further)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=setting.default,
        annotation=Annotated[setting.type, option],
    )
