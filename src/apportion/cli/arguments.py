"""Arguments that several commands share, and what Tab completes."""

from collections.abc import Callable
from typing import Annotated

import typer


def _take_for_bootstrap(context: typer.Context, bootstrap: str | None) -> None:
    if bootstrap is not None:
        context.default_map = {**(context.default_map or {}), "bootstrap": bootstrap}


def _refuse_group_option(context: typer.Context, group: str | None) -> None:
    if group is not None:
        raise typer.BadParameter(
            f"the group is no option here, write: {context.command_path} {group}"
        )


DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_HELP = "HOST:PORT of any broker of the cluster."
# Names that people know from Kafka's own commands are understood, or answered with ours.
Bootstrap = Annotated[str, typer.Option(help=BOOTSTRAP_HELP)]
BootstrapServer = Annotated[
    str | None, typer.Option(hidden=True, is_eager=True, callback=_take_for_bootstrap)
]
NoGroupOption = Annotated[
    str | None, typer.Option("--group", hidden=True, is_eager=True, callback=_refuse_group_option)
]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return what completes one of these words."""

    def completions(begun: str) -> list[str]:
        return [word for word in words if word.startswith(begun)]

    return completions


def setting_names(begun: str) -> list[str]:
    """What `--set` can be completed to."""
    from apportion.node.settings import BrokerSettings

    return [f"{name}=" for name in BrokerSettings().named() if name.startswith(begun)]


def group_names(context: typer.Context, begun: str) -> list[str]:
    """What `describe` can be completed to: groups of any kind."""
    from apportion.cli.groups import group_names as names

    return names(context.params.get("bootstrap") or DEFAULT_BOOTSTRAP, begun)
