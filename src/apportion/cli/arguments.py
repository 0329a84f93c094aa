"""Arguments that several commands share, and the completions of Tab."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from apportion.cli.failures import WrongArguments
from apportion.cli.typed_cluster import TypedCluster
from apportion.node.settings import BrokerSettings
from apportion.settings import Setting, bounds_fault_or_none, declared, whole_number


def number_or_text(text: str) -> int | str:
    """Return the whole number that was typed; the text if it is none, for the command to refuse."""
    try:
        return int(text)
    except ValueError:
        return text


def whole_number_or_none(option: str, typed: int | str | None) -> int | None:
    """Return the number that was typed for `option`; None for none. Raises WrongArguments."""
    if isinstance(typed, str):
        raise WrongArguments(f"{option} must be a whole number, not {typed!r}")
    return typed


def one_named(kind: str, argument: str | None, option: str | None) -> str:
    """Return the group or topic that was named, as an argument or as an option.

    kind: "group" or "topic", which is the option's name, too. Raises WrongArguments.
    """
    named = [each for each in (argument, option) if each is not None]
    if len(named) != 1:
        raise WrongArguments(f"name one {kind}, as an argument or as --{kind}")
    return named[0]


def names_to_delete(
    kind: str, arguments: list[str] | None, options: list[str] | None
) -> tuple[str, ...]:
    """Return the groups or topics that were named to be deleted, in either way.

    kind: "group" or "topic". Raises WrongArguments if there are none.
    """
    named = (*(arguments or ()), *(options or ()))
    if not named:
        raise WrongArguments(f"name the {kind}s to delete")
    return named


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
BOOTSTRAP_VARIABLE = "APPORTION_BOOTSTRAP"
COMMAND_CONFIG_VARIABLE = "APPORTION_COMMAND_CONFIG"
BOOTSTRAP_HELP = "HOST:PORT of any broker of the cluster."
JSON_HELP = "Print JSON instead of tables."
PRINTED = "What is printed"
# Kafka's own tools have the first name, which is long to type.
Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "--bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT",
        help=BOOTSTRAP_HELP,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar=COMMAND_CONFIG_VARIABLE,
        metavar="FILE",
        help="A file of NAME=VALUE with the TLS and SASL of the cluster, as Kafka's tools take it.",
    ),
]
Timeout = Annotated[
    int, typer.Option(parser=_parse_timeout, metavar="INTEGER", help=TIMEOUT_MS.sentence)
]
# The command refuses wrong numbers itself, to do it as JSON, too; typer's own form is text.
NUMBER: dict[str, Any] = {"parser": number_or_text, "metavar": "INTEGER"}
DELETE_CONFIG_HELP = "A setting to return to its default; may be given more than once."
OnlyCheck = Annotated[
    bool, typer.Option("--dry-run", help="Only see whether the broker would accept it.")
]
# Commands that remove something show it first: --execute is Kafka's word, of reset-offsets.
Execute = Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show it; this is the default.")]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


def is_executed(dry_run: bool, execute: bool) -> bool:
    """Return whether a command does what it shows. Raises WrongArguments for both options."""
    if dry_run and execute:
        raise WrongArguments("say --dry-run or --execute, not both")
    return execute


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return a completion that offers these words."""

    def completions(prefix: str) -> list[str]:
        return [word for word in words if word.startswith(prefix)]

    return completions


def one_of_any_case(*words: str) -> Callable[[str], list[str]]:
    """Return a completion that offers these words, in capitals or small letters if so typed."""

    def completions(prefix: str) -> list[str]:
        # Typer drops what does not begin as it was typed.
        spellings = ((word, word.lower(), word.upper()) for word in words)
        fitting = ([each for each in own if each.startswith(prefix)] for own in spellings)
        return [own[0] for own in fitting if own]

    return completions


def setting_names(prefix: str) -> list[str]:
    """Return the completions of `--set`: the names of broker settings."""
    return [f"{name}=" for name in BrokerSettings().named() if name.startswith(prefix)]


def typed_cluster(context: typer.Context) -> TypedCluster:
    """Return the cluster that a command line names."""
    bootstrap = context.params.get("bootstrap") or DEFAULT_BOOTSTRAP
    return TypedCluster(bootstrap, context.params.get("command_config"))


def group_names(context: typer.Context, prefix: str) -> list[str]:
    """Return the completions of a group: groups of every type."""
    from apportion.cli.groups.names import group_names as names

    return names(typed_cluster(context), prefix)


def topic_names(context: typer.Context, prefix: str) -> list[str]:
    """Return the completions of a topic."""
    from apportion.cli.topics.names import topic_names as names

    return names(typed_cluster(context), prefix)


def principal_names(context: typer.Context, prefix: str) -> list[str]:
    """Return the completions of a principal: those of ACLs, and the users of SCRAM."""
    from apportion.cli.acls.names import principal_names as names

    return names(typed_cluster(context), prefix)


def user_names(context: typer.Context, prefix: str) -> list[str]:
    """Return the completions of a user of SCRAM."""
    from apportion.cli.acls.names import user_names as names

    return names(typed_cluster(context), prefix)


def topic_setting_names(prefix: str) -> list[str]:
    """Return the completions of `--delete-config`: the names of topic settings."""
    from apportion.node.topic_settings import SUPPORTED

    return [name for name in sorted(SUPPORTED) if name.startswith(prefix)]


def topic_assignments(prefix: str) -> list[str]:
    """Return the completions of a topic's `--config`, which go on with a value."""
    return [f"{name}=" for name in topic_setting_names(prefix)]


def group_setting_names(context: typer.Context, prefix: str) -> list[str]:
    """Return the completions of a group's `--delete-config`: names that the cluster knows."""
    from apportion.cli.groups.names import group_setting_names as names

    return names(typed_cluster(context), prefix)


def group_assignments(context: typer.Context, prefix: str) -> list[str]:
    """Return the completions of a group's `--config`, which go on with a value."""
    return [f"{name}=" for name in group_setting_names(context, prefix)]
