"""Command lines that Typer refuses, as one sentence like every other failure of a command.

Typer would draw a box for them, beside the sentences of the commands, and no JSON. Its errors are
known by their fields: the classes are Click's or Typer's own, by the release of Typer.
"""

from collections.abc import Iterator
from typing import Any

from apportion.cli.failures import WrongArguments, print_failure

RENAMED = {"--force": ("--execute", "--own-login")}
"""Options that had another name in an earlier version, or have one in Kafka's tools."""


def print_usage_error(error: Any, *, as_json: bool) -> None:
    """Print why Typer refuses a command line, and which help says more."""
    context, sentence = getattr(error, "ctx", None), _sentence(error)
    names = [] if context is None else [*_names(context)]
    if context is not None and not sentence.endswith("?"):
        help_line = " ".join(["apportion", *names, "--help"])
        sentence = f"{sentence}; `{help_line}` shows what there is"
    print_failure("".join(names[:1]), WrongArguments(sentence), as_json)


def _sentence(error: Any) -> str:
    """Return the error in our words, or in Typer's without capital and full stop."""
    option = getattr(error, "option_name", None)
    if not hasattr(error, "possibilities") or option is None:
        said = str(error.format_message()).rstrip(".")
        return said[:1].lower() + said[1:]
    known = [
        name for parameter in error.ctx.command.get_params(error.ctx) for name in parameter.opts
    ]
    renamed = [each for each in RENAMED.get(option, ()) if each in known]
    near = renamed or sorted(error.possibilities or ())
    question = f": did you mean {' or '.join(near)}?" if near else ""
    return f"there is no option {option}{question}"


def _names(context: Any) -> Iterator[str]:
    """Yield the names of the commands down to that of the context, without `apportion`."""
    if context.parent is not None:
        yield from _names(context.parent)
        yield context.info_name
