"""The command `apportion`: its arguments and its help. The work is done elsewhere, and imported only then."""

from pathlib import Path
from typing import Annotated

import typer

from apportion import __version__

app = typer.Typer(
    name="apportion",
    help="Kafka's consumer-group system in Python. Start with: apportion serve --listen 127.0.0.1:9092 --data-dir ./data",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

LISTEN_HELP = (
    "HOST:PORT for clients; port 0 picks a free one. Bind 127.0.0.1 unless others must reach it: there is no authentication."
)
DATA_DIR_HELP = "Directory of topics and groups, made if there is none. One broker at a time may use it."
SET_HELP = "A broker setting by Kafka's own name, such as num.partitions=12. May be given more than once."


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"apportion {__version__}")
        raise typer.Exit


@app.callback()
def apportion(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version.")] = False,
) -> None:
    """Kafka's consumer-group system in Python."""


@app.command()
def serve(
    data_dir: Annotated[Path, typer.Option(help=DATA_DIR_HELP)],
    listen: Annotated[str, typer.Option(help=LISTEN_HELP)] = "127.0.0.1:9092",
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SET_HELP)] = None,
) -> None:
    """Run one broker until SIGTERM or Ctrl-C.

    It prints one line, `listening on HOST:PORT`, when any Kafka client can connect. What was acknowledged is on the disk.

    Example: apportion serve --listen 127.0.0.1:9092 --data-dir ./data --set num.partitions=12
    """
    from apportion.cli.serving import run

    raise typer.Exit(run(listen, data_dir, settings or []))


groups = typer.Typer(help="Look at the consumer groups of a cluster, ours or Apache Kafka's.", no_args_is_help=True)
app.add_typer(groups, name="groups")

BOOTSTRAP_HELP = "HOST:PORT of any broker of the cluster."
JSON_HELP = "Print JSON instead of tables."
TIMEOUT_HELP = "How long to wait for the cluster, in milliseconds."


@groups.command("list")
def groups_list(
    bootstrap: Annotated[str, typer.Option(help=BOOTSTRAP_HELP)] = "127.0.0.1:9092",
    timeout_ms: Annotated[int, typer.Option(min=1, help=TIMEOUT_HELP)] = 10_000,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Say which groups there are, and their states."""
    from apportion.cli.groups import show_list

    raise typer.Exit(show_list(bootstrap, timeout_ms, as_json))


@groups.command("describe")
def groups_describe(
    group: Annotated[str, typer.Argument(help="The group's id.")],
    bootstrap: Annotated[str, typer.Option(help=BOOTSTRAP_HELP)] = "127.0.0.1:9092",
    timeout_ms: Annotated[int, typer.Option(min=1, help=TIMEOUT_HELP)] = 10_000,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Say who the members of a group are, what they own, and how far behind the group is."""
    from apportion.cli.groups import show_group

    raise typer.Exit(show_group(bootstrap, group, timeout_ms, as_json))


if __name__ == "__main__":
    app()
