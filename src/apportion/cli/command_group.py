"""The commands as a whole: foreign options that they refuse, and how their help shows flags."""

from collections.abc import Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from apportion.cli.failures import UNUSABLE, WrongArguments, print_failure

CLUSTER_COMMANDS = ("groups", "topics", "streams", "watch")
SENTENCES = {
    "--command-config": (
        "--command-config is not there: TLS and SASL are not there yet, and clients connect "
        "without either; leave it out, and name a listener of the cluster that is PLAINTEXT"
    ),
}
"""By option."""


class Commands(TyperGroup):
    """The commands, which refuse the options of Kafka's tools that they cannot obey."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options of `apportion` itself, or of a group of commands."""
        return _with_plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _with_plain_flags(command.get_params(ctx))
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was typed; end with a sentence if it has such an option."""
        sentence = _sentence_or_none(args)
        # A line that is only completed is not answered.
        if sentence is not None and not ctx.resilient_parsing:
            print_failure(args[0], WrongArguments(sentence), "--json" in args)
            raise typer.Exit(UNUSABLE)
        return super().resolve_command(ctx, args)


def _with_plain_flags(params: Iterable[Any]) -> list[Any]:
    """Return the options, of which flags have no type in the help: they take no value."""
    options = [*params]
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def _sentence_or_none(words: Sequence[str]) -> str | None:
    """Return the sentence on the first such option of a command about a cluster."""
    if not words or words[0] not in CLUSTER_COMMANDS:
        return None
    options = (word.partition("=")[0] for word in words)
    return next((SENTENCES[option] for option in options if option in SENTENCES), None)
