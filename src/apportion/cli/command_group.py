"""The commands as a whole: their help and their options, and when they are imported."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup

from apportion.cli.failures import UNUSABLE
from apportion.cli.plain_values import take_plain_values


class Commands(TyperGroup):
    """The commands, whose help shows a flag without a type, and whose text is taken as typed."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options of `apportion` itself, or of a group of commands."""
        return _as_ours(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _as_ours(command.get_params(ctx))
        return command


class LaterCommand(NamedTuple):
    """The module of a command, and the name there of its function or its group of commands.

    no_args_is_help: without arguments the function shows its help; a group says so itself.
    """

    module: str
    name: str
    no_args_is_help: bool = False

    def imported(self) -> Any:
        """Import the command."""
        found = getattr(import_module(self.module), self.name)
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        alone = typer.Typer(add_completion=False)
        alone.command(no_args_is_help=self.no_args_is_help)(found)
        return typer.main.get_command(alone)


class LaterCommands(Commands):
    """Commands of which most are imported when they are asked for: all of them take a while."""

    later: ClassVar[Mapping[str, LaterCommand]] = {}

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; what is wrong with it is a sentence, as all other failures are."""
        run = partial(
            super().main,
            args,
            prog_name,
            complete_var,
            standalone_mode=False,
            windows_expand_args=windows_expand_args,
            **extra,
        )
        if not standalone_mode:
            return run()
        try:
            sys.exit(run())
        except typer.Abort:
            sys.exit("Aborted.")
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            refused: Any = error
        # No arguments, where the help is the answer.
        if type(refused).__name__ == "NoArgsIsHelpError":
            typer.echo(refused.ctx.get_help())
        else:
            from apportion.cli.usage_errors import print_usage_error

            print_usage_error(refused, as_json="--json" in (args or sys.argv[1:]))
        sys.exit(UNUSABLE)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those that come later last."""
        present = super().list_commands(ctx)
        return [*(name for name in present if name not in self.later), *self.later]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments begin with; a name like a wrong one is suggested."""
        if args and self.get_command(ctx, args[0]) is None:
            for name in self.later:  # the suggestion is one of those that are imported
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        if cmd_name in self.later and cmd_name not in self.commands:
            command = self.later[cmd_name].imported()
            command.name = cmd_name
            self.add_command(command)
        return super().get_command(ctx, cmd_name)


def _as_ours(params: Iterable[Any]) -> list[Any]:
    """Return the options, of which flags have no type in the help, and text is taken as typed."""
    options = [*params]
    for option in options:
        take_plain_values(option)
        if getattr(option, "is_flag", False):
            option.metavar = ""  # they take no value
    return options
