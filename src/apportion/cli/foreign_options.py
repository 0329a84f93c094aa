"""Options of Kafka's own tools that mean something which is not there: each has a sentence."""

from collections.abc import Sequence
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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was typed; end with a sentence if it has such an option."""
        sentence = _sentence_or_none(args)
        # A line that is only completed is not answered.
        if sentence is not None and not ctx.resilient_parsing:
            print_failure(args[0], WrongArguments(sentence), "--json" in args)
            raise typer.Exit(UNUSABLE)
        return super().resolve_command(ctx, args)


def _sentence_or_none(words: Sequence[str]) -> str | None:
    """Return the sentence on the first such option of a command about a cluster."""
    if not words or words[0] not in CLUSTER_COMMANDS:
        return None
    options = (word.partition("=")[0] for word in words)
    return next((SENTENCES[option] for option in options if option in SENTENCES), None)
