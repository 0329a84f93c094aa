"""Arguments that several commands share, and the completions of Tab."""

from collections.abc import Callable
from typing import Annotated

import typer

from apportion.node.settings import BrokerSettings
from apportion.settings import Setting, bounds_fault_or_none, declared, whole_number


def _take_for_bootstrap(context: typer.Context, bootstrap: str | None) -> None:
    if bootstrap is not None:
        # Kafka's own tools call it --bootstrap-server; it becomes the default of --bootstrap, so
        # that one given explicitly still counts.
        context.default_map = {**(context.default_map or {}), "bootstrap": bootstrap}


def _refuse_group_option(context: typer.Context, group: str | None) -> None:
    """Refuse `--group`, with the command line that gives the group as an argument."""
    if group is not None:
        # kafka-consumer-groups.sh has --group, so people type it here, too.
        raise typer.BadParameter(
            f"the group is no option here, write: {context.command_path} {group}"
        )


def number_or_text(text: str) -> int | str:
    """Return the whole number that was typed; the text if it is none, for the command to refuse."""
    try:
        return int(text)
    except ValueError:
        return text


def _parse_timeout(text: str) -> int:
    """Return the timeout that was typed. Raises BadParameter for anything else."""
    timeout_ms = number_or_text(text)
    if isinstance(timeout_ms, str) or bounds_fault_or_none(TIMEOUT_MS, timeout_ms) is not None:
        raise typer.BadParameter(f"it must be {whole_number(TIMEOUT_MS)}, not {text!r}.")
    return timeout_ms


# where a broker listens by default, without the only protocol
DEFAULT_BOOTSTRAP = str(declared(BrokerSettings)["listeners"].default).removeprefix("PLAINTEXT://")
TIMEOUT_MS = Setting("How long to wait for the cluster, in milliseconds.", 10_000, at_least=1)
DEFAULT_TIMEOUT_MS: int = TIMEOUT_MS.default
BOOTSTRAP_HELP = "HOST:PORT of any broker of the cluster."
PRINTED = "What is printed"
# Options of Kafka's own commands: understood, or answered with ours. Their callbacks do the work,
# so the commands take them under names with an underscore and use them no further.
Bootstrap = Annotated[str, typer.Option(help=BOOTSTRAP_HELP)]
BootstrapServer = Annotated[
    str | None,
    typer.Option("--bootstrap-server", hidden=True, is_eager=True, callback=_take_for_bootstrap),
]
Timeout = Annotated[
    int, typer.Option(parser=_parse_timeout, metavar="INTEGER", help=TIMEOUT_MS.sentence)
]
NoGroupOption = Annotated[
    str | None, typer.Option("--group", hidden=True, is_eager=True, callback=_refuse_group_option)
]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return a completion that offers these words."""

    def completions(prefix: str) -> list[str]:
        return [word for word in words if word.startswith(prefix)]

    return completions


def setting_names(prefix: str) -> list[str]:
    """Return the completions of `--set`: the names of broker settings."""
    return [f"{name}=" for name in BrokerSettings().named() if name.startswith(prefix)]


def group_names(context: typer.Context, prefix: str) -> list[str]:
    """Return the completions of `groups describe`: groups of every type."""
    from apportion.cli.groups import group_names as names

    return names(context.params.get("bootstrap") or DEFAULT_BOOTSTRAP, prefix)
