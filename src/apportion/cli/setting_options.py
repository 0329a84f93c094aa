"""Command-line options made from declared settings, so that `--help` prints the declaration.

A command takes `**settings` and is decorated with `takes(SettingsClass)`. Typer reads options from
a function's signature; the decorator puts one parameter for each setting there.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

from apportion.settings import Setting, declared

C = TypeVar("C", bound=Callable[..., Any])


def help_text(setting: Setting) -> str:
    """Return the setting's sentence with its bounds, for `--help`."""
    sentence = setting.sentence.removesuffix(".")
    if setting.at_least is not None and setting.at_most is not None:
        return f"{sentence} ({setting.at_least:,} to {setting.at_most:,})."
    if setting.at_least is not None:
        return f"{sentence} (at least {setting.at_least:,})."
    return f"{sentence}."


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
    option = typer.Option(*names, help=help_text(setting), rich_help_panel=panel, **extras)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=setting.default,
        annotation=Annotated[setting.type, option],
    )
