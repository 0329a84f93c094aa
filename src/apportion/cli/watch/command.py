"""The command `apportion watch`: its options and its help."""

from typing import Annotated

import typer

from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_MS,
    NUMBER,
    AsJson,
    Bootstrap,
    CommandConfig,
    Timeout,
    one_named,
    whole_number_or_none,
)
from apportion.cli.asked import Asked, checked
from apportion.cli.groups.commands import GroupArgument, GroupOption


def watch(
    name: GroupArgument = None,
    group: GroupOption = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="SECONDS", help="The time between refreshes.")
    ] = "1",
    refreshes: Annotated[
        int | None,
        typer.Option(
            "--refreshes", help="End after so many; without it Ctrl-C ends the watch.", **NUMBER
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Watch a group: who owns what, the lag, and every rebalance.

    On a terminal it is a live screen. Elsewhere it prints a line for each
    change; with --json a line of JSON for each refresh.

    \b
    apportion watch flights-etl
    apportion watch flights-etl --interval 5 | tee rebalances.log
    """
    from apportion.cli.watch.watching import parse_rhythm
    from apportion.cli.watch.watching import watch as watch_group

    asked = Asked("watch", bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        count = whole_number_or_none("--refreshes", refreshes)
        return watch_group(asked, one_named("group", name, group), parse_rhythm(interval, count))

    raise typer.Exit(checked(asked, run))
