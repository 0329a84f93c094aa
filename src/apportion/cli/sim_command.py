"""The command `apportion sim`: its options and its help."""

from pathlib import Path
from typing import Annotated, Any

import typer

from apportion.cli.arguments import PRINTED
from apportion.cli.setting_options import takes
from apportion.cli.sim_settings import PlaySettings
from apportion.settings import declared
from apportion.sim.kernel.settings import WorldSettings

WORLD = "The simulated world; a size that is not given is drawn from the seed"


def _fault_names(prefix: str) -> list[tuple[str, str]]:
    """Return the completions of `--fault`, each with what the fault does."""
    from apportion.sim.kernel.scenario import FAULTS

    every = {**FAULTS, "none": "no faults at all"}
    return [(name, what) for name, what in every.items() if name.startswith(prefix)]


@takes(
    PlaySettings,
    first=True,
    extras={
        "only_faults": {"metavar": "NUMBERS"},
        "first": {"metavar": "SEED"},
        "spark": {"metavar": "MASTER"},
        "out": {"metavar": "DIR"},
        "shrink": {"metavar": "SEED"},
    },
)
@takes(
    WorldSettings,
    panel=WORLD,
    extras={"fault": {"metavar": "KIND", "autocompletion": _fault_names}},
)
def sim(
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
    **settings: Any,
) -> None:
    """Play the whole system in a simulated world with faults, and check its laws after every step.

    Coordinator, log and members are the real ones; clocks, network and disks
    are simulated. One seed is one history, on every machine with the same
    Python and C library. The exit code is 1 if a law is broken.

    \b
    apportion sim --seed 7                    all owners, and the verdict
    apportion sim --seed 7 --fault pause --partitions 12
    apportion sim --runs 10000 --jobs 2       ten thousand histories
    apportion sim --shrink 7                  the fewest faults that break it
    apportion sim --spark 'local[2]' --runs 100000 --out ./seeds
    """
    from apportion.cli.sim import run
    from apportion.cli.sim_options import SimOptions

    faults = settings.pop("fault") or []
    # In the order of the declaration: the command that replays a seed is printed from it.
    sizes = {
        name: settings[name] for name in declared(WorldSettings) if settings.get(name) is not None
    }
    options = SimOptions(
        **{name: settings[name] for name in declared(PlaySettings)},
        quiet=quiet,
        trace=trace,
        whole=whole,
        as_json=as_json,
        sizes=sizes,
        faults=faults,
    )
    raise typer.Exit(run(options))
