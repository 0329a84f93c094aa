"""The commands `apportion streams describe` and `apportion streams rehearse`: options and help."""

from pathlib import Path
from typing import Annotated, Any

import typer

from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_MS,
    PRINTED,
    Bootstrap,
    CommandConfig,
    Timeout,
    one_named,
    typed_cluster,
)
from apportion.cli.asked import Asked, checked
from apportion.cli.command_group import Commands
from apportion.cli.rehearsal_settings import MatrixSettings
from apportion.cli.setting_options import takes
from apportion.settings import declared
from apportion.sim.streams.settings import BounceSettings, UpgradeSettings

streams = typer.Typer(
    cls=Commands,
    help="Look at Kafka Streams applications, on any Kafka-compatible broker.",
    no_args_is_help=True,
)


def _group_names(context: typer.Context, prefix: str) -> list[str]:
    """Return the completions of `describe`: groups that may be of Kafka Streams."""
    from apportion.cli.streams import group_names

    return group_names(typed_cluster(context), prefix)


GROUP_HELP = "The group's id, which is the application.id."


@streams.command("describe")
def describe(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="GROUP", help=GROUP_HELP, show_default=False, autocompletion=_group_names
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", help="The same, as Kafka's tools take it.", autocompletion=_group_names
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON instead; its keys are in docs/streams.md, and stay."
        ),
    ] = False,
) -> None:
    """Show what each process of a Kafka Streams application runs, and what blocks its upgrade.

    It decodes the subscriptions and assignments that the members of a classic
    group exchange, and changes nothing. Of each process it shows the metadata
    version that it uses and the newest that it supports, its consumers, its tasks
    and their lag, its endpoint and its client tags; of the group, the processes
    that keep all others at an old version (KIP-268), the next scheduled
    rebalance, and errors in the assignments.

    \b
    apportion streams describe word-count --bootstrap broker:9092
    apportion streams describe word-count --json | jq .metadata.held_back_by

    The limits of what a broker shows:

    A broker shows subscriptions and assignments only of a stable group. While it
    rebalances there are names and hosts alone: try again in a moment.

    The lag of a task is end less committed offset over all that it reads; it is
    not known where nothing is committed. The position of a standby task is what
    its process reported when it last joined: the sum of its offsets in the task's
    changelogs.

    Warm-up tasks are encoded as standby tasks. All are standby tasks where no
    rebalance is scheduled. All are warm-ups where a probing rebalance is, and
    some task of a subtopology has a copy and some other of it has none (the task
    assignors of Kafka Streams see to that; a custom one need not). Else they are
    shown as `standby or warm-up`.

    Versions 1 and 2 do not carry the newest supported version: an old release
    looks like a new one with upgrade.from. Of versions newer than 11 only the two
    version numbers can be decoded.
    """
    from apportion.cli.streams import describe as describe_streams

    asked = Asked("streams", bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(
        checked(asked, lambda: describe_streams(asked, one_named("group", name, group)))
    )


BOUNCES = "The rolling bounces"
MATRIX = "All upgrades of KIP-268"


def _releases(prefix: str) -> list[str]:
    from apportion.streams.metadata.releases import RELEASES

    return [name for name in RELEASES if name.startswith(prefix)]


RELEASE_OPTION = {"metavar": "RELEASE", "autocompletion": _releases}


@streams.command("rehearse", no_args_is_help=True)
@takes(UpgradeSettings, first=True, extras={"from_": RELEASE_OPTION, "to": RELEASE_OPTION})
@takes(
    BounceSettings,
    panel=BOUNCES,
    first=True,
    extras={
        "leader": {"metavar": "WHEN"},
        "crash_at": {"metavar": "STEP"},
        "victim": {"metavar": "WHO"},
        "bounces": {"metavar": "1|2"},
    },
)
@takes(
    MatrixSettings,
    panel=MATRIX,
    first=True,
    extras={"spark": {"metavar": "MASTER"}},
)
def rehearse(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel=PRINTED)
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw each instance's release and tasks over time, and the metadata version.",
            rich_help_panel=PRINTED,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Everything that happened, line by line.", rich_help_panel=PRINTED
        ),
    ] = None,
    **settings: Any,
) -> None:
    """Rehearse the rolling upgrade of a Kafka Streams application in a simulation.

    It shows whether one rolling bounce suffices or two are needed, with which
    upgrade.from, and what each step does to the group: the metadata version
    in use, rebalances, tasks that move, and how long a task had no owner.
    Members, coordinator and log are real; clocks, network and disks are
    simulated. The exit code is 1 if the upgrade fails.

    \b
    apportion streams rehearse --from 1.1 --to 4.0
    apportion streams rehearse --from 2.3 --to 3.9 --bounces 1
    apportion streams rehearse --from 2.0 --to post-2.0 --leader first
    apportion streams rehearse --from 2.0 --to 3.0 --crash-at 3 --victim leader
    apportion streams rehearse --from 4.0 --to 2.8 --picture downgrade.svg
    apportion streams rehearse --matrix --spark 'local[2]'
    """
    from apportion.cli.streams_rehearse import RehearseOptions, run

    matrix = {name: settings.pop(name) for name in declared(MatrixSettings)}
    raise typer.Exit(run(RehearseOptions(settings, as_json, picture, trace, **matrix)))
