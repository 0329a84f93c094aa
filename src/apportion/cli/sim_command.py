"""The command `apportion sim`: its options and its help."""

from pathlib import Path
from typing import Annotated, Any

import typer

from apportion.cli.arguments import PRINTED, one_of
from apportion.cli.setting_options import takes
from apportion.cli.sim_settings import WorldSettings
from apportion.settings import declared

SEED_HELP = (
    "Play this one history; print the owner of each partition over time, and the end of its trace "
    "if a law is broken."
)
ONLY_HELP = "With --seed: only these of the drawn faults, by number, such as 3,7,9."
RUNS_HELP = "Play this number of seeds, each a history of its own; print those that fail."
FIRST_HELP = "With --runs: the first seed; 0 by default."
JOBS_HELP = "With --runs: processes to play in; by default as many as there are cores."
SHRINK_HELP = "Find the fewest faults of this seed that still break the same law."
SPARK_HELP = "With --runs: play on this Spark master, such as local[2] or spark://host:7077."
OUT_HELP = "With --spark: also write a row for each seed as Parquet into this new directory."
WORLD = "The simulated world; a size that is not given is drawn from the seed"


def _fault_names(prefix: str) -> list[tuple[str, str]]:
    """Return the completions of `--fault`, each with what the fault does."""
    from apportion.sim.kernel.scenario import FAULTS

    every = {**FAULTS, "none": "no faults at all"}
    return [(name, what) for name, what in every.items() if name.startswith(prefix)]


@takes(
    WorldSettings,
    panel=WORLD,
    extras={
        "assignor": {"autocompletion": one_of("uniform", "range")},
        "protocol": {"autocompletion": one_of("consumer", "classic", "mixed")},
        "fault": {"metavar": "KIND", "autocompletion": _fault_names},
    },
)
def sim(
    seed: Annotated[int | None, typer.Option(help=SEED_HELP)] = None,
    only_faults: Annotated[str | None, typer.Option(metavar="NUMBERS", help=ONLY_HELP)] = None,
    runs: Annotated[int | None, typer.Option(help=RUNS_HELP)] = None,
    first: Annotated[int | None, typer.Option(metavar="SEED", help=FIRST_HELP)] = None,
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
            help="With --seed: print every line of the trace.",
            rich_help_panel=PRINTED,
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object instead of all that.", rich_help_panel=PRINTED
        ),
    ] = False,
    **world: Any,
) -> None:
    """Play the whole system in a simulated world with faults, and check its laws after every step.

    Coordinator, log and members are the real ones; clocks, network and disks
    are simulated. One seed is one history, on any machine. The exit code is 1
    if a law is broken.

    \b
    apportion sim --seed 7                    all owners, and the verdict
    apportion sim --seed 7 --fault pause --partitions 12
    apportion sim --runs 10000 --jobs 2       ten thousand histories
    apportion sim --shrink 7                  the fewest faults that break it
    apportion sim --spark 'local[2]' --runs 100000 --out ./seeds
    """
    from apportion.cli.sim import run
    from apportion.cli.sim_options import SimOptions

    faults = world.pop("fault") or []
    # In the order of the declaration: the command that replays a seed is printed from it.
    sizes = {name: world[name] for name in declared(WorldSettings) if world.get(name) is not None}
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
        faults,
    )
    raise typer.Exit(run(options))
