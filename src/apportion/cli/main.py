"""The command `apportion`: its arguments and its help. The work is done elsewhere, and imported
only then.
"""

from pathlib import Path
from typing import Annotated

import typer

from apportion import __version__
from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    BootstrapServer,
    NoGroupOption,
    group_names,
    one_of,
    setting_names,
)

app = typer.Typer(
    name="apportion",
    help=(
        "Kafka's consumer-group system in Python. Start with: apportion serve --listen "
        "127.0.0.1:9092 --data-dir ./data"
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

LISTEN_HELP = (
    "HOST:PORT for clients; port 0 picks a free one. Bind 127.0.0.1 unless others must reach "
    "it: there is no authentication."
)
DATA_DIR_HELP = (
    "Directory of topics and groups, made if there is none. One broker at a time may use it."
)
SET_HELP = (
    "A broker setting by Kafka's own name, such as num.partitions=12. May be given more than once."
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"apportion {__version__}")
        raise typer.Exit


@app.callback()
def apportion(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """Kafka's consumer-group system in Python."""


@app.command()
def serve(
    data_dir: Annotated[Path, typer.Option(help=DATA_DIR_HELP)],
    listen: Annotated[str, typer.Option(help=LISTEN_HELP)] = "127.0.0.1:9092",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=SET_HELP, autocompletion=setting_names),
    ] = None,
) -> None:
    """Run one broker until SIGTERM or Ctrl-C.

    It prints one line, `listening on HOST:PORT`, when any Kafka client can connect. What was
    acknowledged is on the disk.

    Example: apportion serve --listen 127.0.0.1:9092 --data-dir ./data --set num.partitions=12
    """
    from apportion.cli.serving import run

    raise typer.Exit(run(listen, data_dir, settings or []))


groups = typer.Typer(
    help="Look at the consumer groups of a cluster, ours or Apache Kafka's.", no_args_is_help=True
)
app.add_typer(groups, name="groups")

JSON_HELP = "Print JSON instead of tables."
TIMEOUT_HELP = "How long to wait for the cluster, in milliseconds."


@groups.command("list")
def groups_list(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    bootstrap_server: BootstrapServer = None,
    timeout_ms: Annotated[int, typer.Option(min=1, help=TIMEOUT_HELP)] = 10_000,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Say which groups there are, and their states."""
    from apportion.cli.groups import show_list

    raise typer.Exit(show_list(bootstrap, timeout_ms, as_json))


@groups.command("describe")
def groups_describe(
    group: Annotated[str, typer.Argument(help="The group's id.", autocompletion=group_names)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    bootstrap_server: BootstrapServer = None,
    timeout_ms: Annotated[int, typer.Option(min=1, help=TIMEOUT_HELP)] = 10_000,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    group_option: NoGroupOption = None,
) -> None:
    """Say who the members of a group are, what they own, and how far behind the group is.

    \b
    apportion groups describe flights-etl --bootstrap broker:9092
    apportion groups describe flights-etl --json | jq .state
    """
    from apportion.cli.groups import show_group

    raise typer.Exit(show_group(bootstrap, group, timeout_ms, as_json))


streams = typer.Typer(
    help="Look at Kafka Streams applications, on any Kafka-compatible broker.", no_args_is_help=True
)
app.add_typer(streams, name="streams")


def _streams_group_names(context: typer.Context, begun: str) -> list[str]:
    """Return the names that complete `describe`: groups that may be of Kafka Streams."""
    from apportion.cli.streams import group_names

    return group_names(context.params.get("bootstrap") or DEFAULT_BOOTSTRAP, begun)


GROUP_HELP = "The group's id, which is the application.id."


@streams.command("describe")
def streams_describe(
    group: Annotated[str, typer.Argument(help=GROUP_HELP, autocompletion=_streams_group_names)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    bootstrap_server: BootstrapServer = None,
    timeout_ms: Annotated[int, typer.Option(min=1, help=TIMEOUT_HELP)] = 10_000,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON instead; its keys are in docs/streams.md, and stay."
        ),
    ] = False,
    group_option: NoGroupOption = None,
) -> None:
    """Say what each process of a Kafka Streams application does, and who holds back its upgrade.

    It decodes what the members of a classic group tell each other, and changes
    nothing. Of each process it shows the metadata version that it speaks and the
    newest that it supports, its consumers, its tasks and their lag, its endpoint
    and its client tags; of the group, who keeps all others at an old version
    (KIP-268), the next rebalance that is scheduled, and errors that were told.

    \b
    apportion streams describe word-count --bootstrap broker:9092
    apportion streams describe word-count --json | jq .metadata.held_back_by

    What cannot be known is said, not guessed:

    A broker shows what members say only of a stable group. While it rebalances
    there are names and hosts alone: ask again in a moment.

    The lag of a task is end less committed offset over all that it reads; it is
    not known where nothing is committed. How far a copy is, is what its process
    said when it last joined: the sum of its offsets in the task's changelogs.

    Warm-ups are written down as standby tasks. All are standby tasks where no
    rebalance is scheduled. All are warm-ups where a probing rebalance is, and
    some task of a subtopology has a copy and some other of it has none (the task
    assignors of Kafka Streams see to that; a custom one need not). Else they are
    shown as `standby or warm-up`.

    In versions 1 and 2 nobody can say what he supports: an old release looks
    like a new one with upgrade.from. Of members from the future their two
    version numbers can be read, and no more.
    """
    from apportion.cli.streams import describe

    raise typer.Exit(describe(bootstrap, group, timeout_ms, as_json))


def _fault_names(begun: str) -> list[tuple[str, str]]:
    """Return the names that complete `--fault`."""
    from apportion.sim.kernel.scenario import FAULTS

    every = {**FAULTS, "none": "no faults at all"}
    return [(name, what) for name, what in every.items() if name.startswith(begun)]


SEED_HELP = "Play this one history; print its trace and who owned which partition."
ONLY_HELP = "With --seed: only these of the drawn faults, by number, such as 3,7,9."
RUNS_HELP = "Play so many seeds, each a history of its own; print those that fail."
JOBS_HELP = "With --runs: processes to play in; as many as there are cores if not said."
SHRINK_HELP = "Find the fewest faults of this seed that still break the same law."
SPARK_HELP = "With --runs: play on this Spark master, such as local[2] or spark://host:7077."
OUT_HELP = "With --spark: also write a row for each seed as Parquet into this new directory."
PROTOCOL_HELP = "What the members speak: consumer (if not said), classic or mixed."
FAULT_HELP = "Only faults of this kind; may be given more than once. `none` for no faults."
WORLD = "The world; what is not said is drawn from the seed"
PRINTED = "What is printed"


# Longer than a screen because Typer reads an option from each parameter: it is a declaration.
@app.command(no_args_is_help=True)
def sim(
    seed: Annotated[int | None, typer.Option(help=SEED_HELP)] = None,
    only_faults: Annotated[str | None, typer.Option(metavar="NUMBERS", help=ONLY_HELP)] = None,
    runs: Annotated[int | None, typer.Option(help=RUNS_HELP)] = None,
    first: Annotated[
        int | None, typer.Option(metavar="SEED", help="With --runs: the first seed; 0 if not said.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help=JOBS_HELP)] = None,
    spark: Annotated[str | None, typer.Option(metavar="MASTER", help=SPARK_HELP)] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help=OUT_HELP)] = None,
    shrink: Annotated[int | None, typer.Option(metavar="SEED", help=SHRINK_HELP)] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="With --seed: no trace.", rich_help_panel=PRINTED)
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --seed: the trace into a file.", rich_help_panel=PRINTED
        ),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--all",
            help="With --seed: every line of the trace, not the last 200.",
            rich_help_panel=PRINTED,
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="One JSON object instead of all that.", rich_help_panel=PRINTED
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Applications that read in batches, as Spark does.", rich_help_panel=WORLD
        ),
    ] = None,
    readers: Annotated[
        int | None,
        typer.Option(help="Plain consumers, in a group of their own.", rich_help_panel=WORLD),
    ] = None,
    statics: Annotated[
        int | None, typer.Option(help="How many of them are static members.", rich_help_panel=WORLD)
    ] = None,
    topics: Annotated[int | None, typer.Option(help="Topics.", rich_help_panel=WORLD)] = None,
    partitions: Annotated[
        int | None, typer.Option(help="Partitions of each topic.", rich_help_panel=WORLD)
    ] = None,
    seconds: Annotated[
        int | None,
        typer.Option(
            help="Simulated time with faults, before all must settle.", rich_help_panel=WORLD
        ),
    ] = None,
    heartbeat_ms: Annotated[
        int | None, typer.Option(help="The heartbeat interval.", rich_help_panel=WORLD)
    ] = None,
    session_ms: Annotated[
        int | None, typer.Option(help="The session timeout.", rich_help_panel=WORLD)
    ] = None,
    delay_us: Annotated[
        int | None,
        typer.Option(
            help="A message's mean time on its way, in microseconds.", rich_help_panel=WORLD
        ),
    ] = None,
    unsettled_heartbeat_ms: Annotated[
        int | None,
        typer.Option(
            help="The heartbeat interval while a group is not settled.", rich_help_panel=WORLD
        ),
    ] = None,
    rebalance_ms: Annotated[
        int | None,
        typer.Option(
            help="How long a member may take to give partitions up.", rich_help_panel=WORLD
        ),
    ] = None,
    batch_ms: Annotated[
        int | None, typer.Option(help="A batch's mean time of work.", rich_help_panel=WORLD)
    ] = None,
    produce_every_ms: Annotated[
        int | None, typer.Option(help="The time between two new records.", rich_help_panel=WORLD)
    ] = None,
    flush_us: Annotated[
        int | None,
        typer.Option(help="A flush's mean time, in microseconds.", rich_help_panel=WORLD),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(help="Partitions of __consumer_offsets.", rich_help_panel=WORLD)
    ] = None,
    assignor: Annotated[
        str | None,
        typer.Option(
            help="uniform or range.",
            autocompletion=one_of("uniform", "range"),
            rich_help_panel=WORLD,
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help=PROTOCOL_HELP,
            autocompletion=one_of("consumer", "classic", "mixed"),
            rich_help_panel=WORLD,
        ),
    ] = None,
    encodes: Annotated[
        bool | None,
        typer.Option(
            "--encodes/--no-encodes",
            help="Whether messages go through their bytes.",
            rich_help_panel=WORLD,
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help=FAULT_HELP, autocompletion=_fault_names, rich_help_panel=WORLD
        ),
    ] = None,
) -> None:
    """Play the whole system in a simulated world with faults, and check its laws after every step.

    Coordinator, log and members are the real ones; clocks, network and disks
    are simulated. One seed is one history, on any machine. The exit code is 1
    where a law broke.

    \b
    apportion sim --seed 7                    its trace, and who owned what
    apportion sim --seed 7 --quiet --fault pause --partitions 12
    apportion sim --runs 10000 --jobs 2       ten thousand histories
    apportion sim --shrink 7                  the fewest faults that break it
    apportion sim --spark 'local[2]' --runs 100000 --out ./seeds
    """
    from apportion.cli.sim import run
    from apportion.cli.sim_options import SimOptions

    given = {
        "workers": workers,
        "readers": readers,
        "statics": statics,
        "topics": topics,
        "partitions": partitions,
        "seconds": seconds,
        "heartbeat_ms": heartbeat_ms,
        "session_ms": session_ms,
        "delay_us": delay_us,
        "unsettled_heartbeat_ms": unsettled_heartbeat_ms,
        "rebalance_ms": rebalance_ms,
        "batch_ms": batch_ms,
        "produce_every_ms": produce_every_ms,
        "flush_us": flush_us,
        "shards": shards,
        "assignor": assignor,
        "protocol": protocol,
        "encodes": encodes,
    }
    sizes = {name: size for name, size in given.items() if size is not None}
    options = SimOptions(
        seed,
        only_faults,
        runs,
        first,
        jobs,
        spark,
        out,
        shrink,
        quiet,
        trace,
        whole,
        as_json,
        sizes,
        fault or [],
    )
    raise typer.Exit(run(options))


STEPS = "How it is done"
ALL = "All upgrades of KIP-268"
MATRIX_HELP = (
    "Play the test matrix of KIP-268: every upgrade in it, with and without a crash, in "
    "twelve ways each."
)
MATRIX_SPARK_HELP = (
    "With --matrix: play on this Spark master, such as local[2] or spark://host:7077."
)
FROM_HELP = "The release that runs now, such as 1.1 or 2.3."
TO_HELP = (
    "The release that shall run, such as 4.0. `future` and `post-2.0` speak a metadata "
    "version that no release speaks yet."
)
LEADER_HELP = (
    "When the group's leader is bounced: first, middle, last, or as the N-th. Asked anew when "
    "a bounce begins."
)
CRASH_HELP = (
    "At this step, counted through all bounces, somebody dies without a word while the step's "
    "instance is away."
)
VICTIM_HELP = (
    "With --crash-at: who dies: instance (one that is not being bounced), leader, or broker."
)
BOUNCES_HELP = (
    "Make so many bounces, right or wrong: 1 shows what happens if upgrade.from is forgotten."
)
SESSION_HELP = (
    "session.timeout.ms, from 2,000; 10,000, or 45,000 where both releases are 3.0 or later, "
    "as their consumers have it."
)


def _releases(begun: str) -> list[str]:
    from apportion.streams.metadata.releases import RELEASES

    return [name for name in RELEASES if name.startswith(begun)]


# Longer than a screen because Typer reads an option from each parameter: it is a declaration.
@streams.command("rehearse", no_args_is_help=True)
def streams_rehearse(
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="RELEASE", help=FROM_HELP, autocompletion=_releases),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="RELEASE", help=TO_HELP, autocompletion=_releases)
    ] = None,
    instances: Annotated[int, typer.Option(help="Instances, 1 to 100.")] = 6,
    threads: Annotated[
        int, typer.Option(help="num.stream.threads, 1 to 10: so many members has each instance.")
    ] = 1,
    partitions: Annotated[
        int,
        typer.Option(help="Partitions of what is read, 1 to 1,000; there are two tasks for each."),
    ] = 6,
    standbys: Annotated[int, typer.Option(help="num.standby.replicas.")] = 0,
    leader: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help=LEADER_HELP,
            autocompletion=one_of("first", "middle", "last"),
            rich_help_panel=STEPS,
        ),
    ] = "last",
    crash_at: Annotated[
        int | None, typer.Option(metavar="STEP", help=CRASH_HELP, rich_help_panel=STEPS)
    ] = None,
    victim: Annotated[
        str,
        typer.Option(
            metavar="WHO",
            help=VICTIM_HELP,
            autocompletion=one_of("instance", "leader", "broker"),
            rich_help_panel=STEPS,
        ),
    ] = "instance",
    bounces: Annotated[
        int | None, typer.Option(metavar="1|2", help=BOUNCES_HELP, rich_help_panel=STEPS)
    ] = None,
    away_ms: Annotated[
        int, typer.Option(help="How long an instance needs to come back.", rich_help_panel=STEPS)
    ] = 3_000,
    session_ms: Annotated[
        int | None, typer.Option(help=SESSION_HELP, rich_help_panel=STEPS)
    ] = None,
    seed: Annotated[
        int, typer.Option(help="One seed is one history, on any machine.", rich_help_panel=STEPS)
    ] = 0,
    matrix: Annotated[
        bool, typer.Option("--matrix", help=MATRIX_HELP, rich_help_panel=ALL)
    ] = False,
    spark: Annotated[
        str | None, typer.Option(metavar="MASTER", help=MATRIX_SPARK_HELP, rich_help_panel=ALL)
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="With --matrix: processes to play in.", rich_help_panel=ALL),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON instead of tables.", rich_help_panel=PRINTED)
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw it: who ran as what, and the version.",
            rich_help_panel=PRINTED,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Everything that happened, line by line.", rich_help_panel=PRINTED
        ),
    ] = None,
) -> None:
    """Play the rolling upgrade of a Kafka Streams application before it is made.

    It says whether one bounce suffices or two are needed, with which
    upgrade.from, and what each step does to the group: the metadata version
    that all speak then, rebalances, tasks that move, and how long nobody ran
    a task. Members, coordinator and log are real; clocks, network and disks
    are simulated. The exit code is 1 where the upgrade does not go well.

    \b
    apportion streams rehearse --from 1.1 --to 4.0
    apportion streams rehearse --from 2.3 --to 3.9 --bounces 1
    apportion streams rehearse --from 2.0 --to post-2.0 --leader first
    apportion streams rehearse --from 2.0 --to 3.0 --crash-at 3 --victim leader
    apportion streams rehearse --from 4.0 --to 2.8 --picture downgrade.svg
    apportion streams rehearse --matrix --spark 'local[2]'
    """
    from apportion.cli.streams_rehearse import RehearseOptions, run

    sizes = {
        "from_": from_,
        "to": to,
        "instances": instances,
        "partitions": partitions,
        "standbys": standbys,
        "threads": threads,
        "leader": leader,
        "crash_at": crash_at,
        "victim": victim,
        "bounces": bounces,
        "away_ms": away_ms,
        "session_ms": session_ms,
        "seed": seed,
    }
    raise typer.Exit(run(RehearseOptions(sizes, as_json, picture, trace, matrix, spark, jobs)))


if __name__ == "__main__":
    app()
