"""The command `apportion`: `serve` and `--version`, and where the other commands are.

What another command declares, and a command's work, is imported when the command is asked for, so
that the command line starts fast.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from apportion import __version__
from apportion.cli.arguments import DEFAULT_BOOTSTRAP, setting_names
from apportion.cli.command_group import LaterCommand, LaterCommands
from apportion.cli.lasting_imports import lasting_imports
from apportion.cli.setting_options import help_text
from apportion.node.settings import BrokerSettings
from apportion.settings import declared


class AllCommands(LaterCommands):
    """All commands of `apportion`."""

    later: ClassVar[Mapping[str, LaterCommand]] = {
        "watch": LaterCommand("apportion.cli.watch.command", "watch", no_args_is_help=True),
        "doctor": LaterCommand("apportion.cli.doctor.command", "doctor"),
        "sim": LaterCommand("apportion.cli.sim_command", "sim", no_args_is_help=True),
        "groups": LaterCommand("apportion.cli.groups.change_commands", "groups"),
        "topics": LaterCommand("apportion.cli.topics.commands", "topics"),
        "acls": LaterCommand("apportion.cli.acls.commands", "acls"),
        "users": LaterCommand("apportion.cli.users.commands", "users"),
        "streams": LaterCommand("apportion.cli.streams_commands", "streams"),
    }


app = typer.Typer(
    name="apportion",
    cls=AllCommands,
    help=(
        "Kafka's consumer-group system in Python. Start with: apportion serve --listen "
        "127.0.0.1:9092 --data-dir ./data"
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

# `--listen` is the setting `listeners`; HOST:PORT alone is the listener PLAINTEXT.
LISTENERS = declared(BrokerSettings)["listeners"]
LISTEN_HELP = (
    f"{help_text(LISTENERS)} Bind 127.0.0.1 unless other hosts must reach it, and secure it then "
    "(docs/security.md): any client that reaches a plain listener may read and write everything."
)
DATA_DIR_HELP = (
    "The directory of topics and groups, created if there is none. One broker at a time may use it."
)
SET_HELP = (
    "A broker setting by Kafka's own name, such as num.partitions=12; docs/settings.md lists all. "
    "May be given more than once."
)

CONFIG_HELP = (
    "A file of settings, NAME=VALUE in a line, as Kafka's server.properties. Passwords belong "
    "there: everybody on this machine may read command lines. --set stands over it."
)
SCRAM_HELP = (
    "A SCRAM user, as kafka-storage.sh takes it: 'SCRAM-SHA-256=\\[name=alice,password=...]', or "
    "password-file=PATH, or password-env=NAME. A user who is there already stays as he is. May be "
    "given more than once."
)
METRICS_HELP = (
    "The address of metrics over HTTP: /metrics for Prometheus and /metrics.json. Without it there "
    "is none."
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
    listen: Annotated[
        str | None, typer.Option(help=LISTEN_HELP, show_default=DEFAULT_BOOTSTRAP)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=SET_HELP, autocompletion=setting_names),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help=CONFIG_HELP, show_default=False)
    ] = None,
    add_scram: Annotated[
        list[str] | None, typer.Option(metavar="USER", help=SCRAM_HELP, show_default=False)
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help=METRICS_HELP, show_default=False)
    ] = None,
) -> None:
    """Run one broker until SIGTERM or Ctrl-C.

    It prints one line, `listening on HOST:PORT`, when Kafka clients can connect; with listeners
    that have names, NAME://HOST:PORT for each.
    What it has acknowledged is on the disk.

    Example: apportion serve --listen 127.0.0.1:9092 --data-dir ./data --set num.partitions=12

    TLS, SASL and ACLs: docs/security.md has the commands.
    """
    with lasting_imports():
        from apportion.cli.serving import ServeOptions, run
    options = ServeOptions(listen, data_dir, settings or [], add_scram or [], metrics, config)
    raise typer.Exit(run(options))


if __name__ == "__main__":
    app()
