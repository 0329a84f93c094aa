"""The commands as a whole: how their help shows flags."""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperGroup


class Commands(TyperGroup):
    """The commands, whose help shows a flag without a type."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options of `apportion` itself, or of a group of commands."""
        return _with_plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _with_plain_flags(command.get_params(ctx))
        return command


def _with_plain_flags(params: Iterable[Any]) -> list[Any]:
    """Return the options, of which flags have no type in the help: they take no value."""
    options = [*params]
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options
