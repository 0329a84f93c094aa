"""The command `apportion`: `serve`, `groups` and `--version`; the other commands are joined in.

A command's work is done in a module of its own, which is imported when the command runs, so that
the command line starts fast.
"""

from pathlib import Path
from typing import Annotated

import typer

from apportion import __version__
from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_MS,
    Bootstrap,
    BootstrapServer,
    NoGroupOption,
    Timeout,
    group_names,
    setting_names,
)
from apportion.cli.setting_options import help_text
from apportion.cli.sim_command import sim
from apportion.cli.streams_commands import streams
from apportion.node.settings import BrokerSettings
from apportion.settings import declared

app = typer.Typer(
    name="apportion",
    help=(
        "Kafka's consumer-group system in Python. Start with: apportion serve --listen "
        "127.0.0.1:9092 --data-dir ./data"
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

# `--listen` is the setting `listeners` without its only protocol, PLAINTEXT.
LISTENERS = declared(BrokerSettings)["listeners"]
LISTEN_HELP = (
    f"{help_text(LISTENERS)} Bind 127.0.0.1 unless other hosts must reach it: there is no "
    "authentication."
)
DATA_DIR_HELP = (
    "The directory of topics and groups, created if there is none. One broker at a time may use it."
)
SET_HELP = (
    "A broker setting by Kafka's own name, such as num.partitions=12; docs/settings.md lists all. "
    "May be given more than once."
)


def _show_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"apportion {__version__}")
        raise typer.Exit


@app.callback()
def apportion(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Kafka's consumer-group system in Python."""


@app.command()
def serve(
    data_dir: Annotated[Path, typer.Option(help=DATA_DIR_HELP)],
    listen: Annotated[str, typer.Option(help=LISTEN_HELP)] = DEFAULT_BOOTSTRAP,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=SET_HELP, autocompletion=setting_names),
    ] = None,
) -> None:
    """Run one broker until SIGTERM or Ctrl-C.

    It prints one line, `listening on HOST:PORT`, when Kafka clients can connect.
    What it has acknowledged is on the disk.

    Example: apportion serve --listen 127.0.0.1:9092 --data-dir ./data --set num.partitions=12
    """
    from apportion.cli.serving import run

    raise typer.Exit(run(listen, data_dir, settings or []))


groups = typer.Typer(
    help="Look at the consumer groups of a cluster, ours or Apache Kafka's.", no_args_is_help=True
)
app.add_typer(groups, name="groups")

JSON_HELP = "Print JSON instead of tables."


@groups.command("list")
def groups_list(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    _bootstrap_server: BootstrapServer = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """List the groups of the cluster, with their types and states."""
    from apportion.cli.groups import show_list

    raise typer.Exit(show_list(bootstrap, timeout_ms, as_json))


@groups.command("describe")
def groups_describe(
    group: Annotated[str, typer.Argument(help="The group's id.", autocompletion=group_names)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    _bootstrap_server: BootstrapServer = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    _group_option: NoGroupOption = None,
) -> None:
    """Show the members of a group, the partitions that they own, and the group's lag.

    \b
    apportion groups describe flights-etl --bootstrap broker:9092
    apportion groups describe flights-etl --json | jq .state
    """
    from apportion.cli.groups import show_group

    raise typer.Exit(show_group(bootstrap, group, timeout_ms, as_json))


app.add_typer(streams, name="streams")
app.command(no_args_is_help=True)(sim)


if __name__ == "__main__":
    app()
