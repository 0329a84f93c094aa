"""`apportion sim`: one history to be read, its fewest faults, or thousands of histories to be counted."""

import json
import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict
from shutil import get_terminal_size
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from apportion.cli.failures import print_failure
from apportion.cli.lines import print_sentence
from apportion.cli.sim_fleet import BROKEN, play_here, play_on_spark
from apportion.cli.sim_options import Wish, numbers_of, refuse_contradictions
from apportion.cli.sim_picture import picture
from apportion.sim.fleet import NoProcess, Play
from apportion.sim.kernel.outcome import Outcome
from apportion.sim.kernel.scenario import FAULTS, Fault, Scenario, ScenarioRefused
from apportion.sim.kernel.trace import Chronicle
from apportion.sim.play import play
from apportion.sim.shrink import shortest

UNUSABLE = 2  # exit code where the arguments make no sense
LAST_LINES = 200
PIPED_COLUMNS = 120


def run(wish: Wish, play: Play = play) -> int:
    """What was wished for is on stdout; the exit code. play: in the place of the real simulator."""
    try:
        code = _run(wish, play)
        sys.stdout.flush()
        return code
    except (ScenarioRefused, NoProcess) as error:
        print_failure("sim", error, wish.as_json)
    except BrokenPipeError:  # who reads this has seen enough
        _drop_stdout()
        return 0
    except OSError as error:
        _drop_stdout()
        print(f"apportion sim: stdout cannot be written: {error.strerror}.", file=sys.stderr)
    return UNUSABLE


def _drop_stdout() -> None:
    """What is still in the buffer goes nowhere, so that the end of the process does not fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run(wish: Wish, play: Play) -> int:
    refuse_contradictions(wish)
    wish.draw.scenario(wish.seed or wish.shrink or wish.first or 0)  # an impossible world is refused before anything starts
    if wish.seed is not None:
        return _show(wish, wish.seed, play)
    if wish.shrink is not None:
        return _shrink(wish, wish.shrink, play)
    return play_on_spark(wish, play) if wish.spark else play_here(wish, play)


def _console() -> Console:
    """As wide as the terminal, or as COLUMNS says."""
    return Console(
        highlight=False, markup=False, width=None if sys.stdout.isatty() else get_terminal_size((PIPED_COLUMNS, 0)).columns
    )


# One history


def _show(wish: Wish, seed: int, play: Play) -> int:
    scenario = wish.draw.scenario(seed)
    kept = None if wish.only_faults is None else numbers_of(wish.only_faults, scenario)
    if kept is not None:
        scenario = scenario.with_faults(scenario.faults[number] for number in kept)
    try:
        with wish.trace.open("w") if wish.trace else nullcontext() as file:
            chronicle = Chronicle() if file or not wish.as_json else None
            outcome = play(scenario, chronicle)
            if file and chronicle:
                file.writelines(f"{line}\n" for line in chronicle.lines)
    except OSError as error:
        raise ScenarioRefused(f"--trace {wish.trace} cannot be written: {error.strerror}.") from None
    if wish.as_json:
        print(json.dumps(_told(outcome, scenario, wish.command(seed, kept)), indent=2))
    elif chronicle:
        if not wish.quiet:
            _print_trace(wish, chronicle)
        console = _console()
        for line in picture(scenario, outcome, chronicle.hands, console.width):
            print_sentence(console, line)
        console.print(_faults_table(scenario, range(len(scenario.faults)) if kept is None else kept))
        console.print(_figures_table(outcome))
        print_sentence(console, _verdict(outcome))
    return 0 if outcome.holds else BROKEN


def _print_trace(wish: Wish, chronicle: Chronicle) -> None:
    count = len(chronicle.lines)
    if wish.trace:
        print(f"{count:,} lines in {wish.trace}\n")
        return
    shown = chronicle.lines if wish.whole else chronicle.lines[-LAST_LINES:]
    if len(shown) < count:
        print(f"... {count - len(shown):,} lines before these: --all shows them, --trace FILE keeps them")
    sys.stdout.writelines(f"{line}\n" for line in shown)
    print()


def _told(outcome: Outcome, scenario: Scenario, command: str) -> dict[str, Any]:
    """A history as JSON; no figure in it comes from a real clock."""
    figures = outcome._asdict()
    for name in ("seed", "digest", "broken"):
        del figures[name]
    world = asdict(scenario)
    world["faults"] = [fault._asdict() for fault in scenario.faults]
    return {
        "verdict": "holds" if outcome.holds else "broken",
        "broken": outcome.broken and outcome.broken._asdict(),
        "figures": figures,
        "digest": outcome.digest,
        "command": command,
        "scenario": world,
    }


COUNTED = {  # what the amount of a fault counts, where it is no time: of one, of several
    "more-partitions": ("partition", "partitions"),
    "disk-refuses": ("flush", "flushes"),
    "lost-reply": ("answer", "answers"),
}
AT_ONCE = ("topic-again", "subscribe")


def _faults_table(scenario: Scenario, numbers: Iterable[int], explains: bool = False) -> Table:
    """The faults of the scenario, each with its number in the list that was drawn."""
    table = Table("fault", "at", "kind", "befalls", "amount", *(("what it does",) if explains else ()))
    for number, fault in zip(numbers, scenario.faults, strict=True):
        row = (str(number), f"{fault.at_ms / 1000:.3f} s", fault.kind, _victim(fault, scenario), _amount(fault))
        table.add_row(*row, *((FAULTS[fault.kind],) if explains else ()))
    return table


def _victim(fault: Fault, scenario: Scenario) -> str:
    """Whom the fault befalls."""
    if fault.kind in ("broker-crash", "broker-pause", "disk-refuses"):
        return "broker"
    if fault.kind in ("more-partitions", "topic-again"):
        return f"t{fault.who % scenario.topics}"
    if fault.kind == "roll":
        return "all"
    number = fault.who % scenario.members
    name = f"worker{number}" if number < scenario.workers else f"reader{number - scenario.workers}"
    return f"{name} or broker" if fault.kind == "clock-jump" else name


def _amount(fault: Fault) -> str:
    """How long the fault lasts, or how much it is."""
    if fault.kind in AT_ONCE:
        return ""
    if fault.kind in COUNTED:
        return f"{fault.amount} {COUNTED[fault.kind][fault.amount != 1]}"
    return f"{fault.amount / 1000:{'+' if fault.kind == 'clock-jump' else ''},.3f} s"


def _figures_table(outcome: Outcome) -> Table:
    table = Table(show_header=False)
    rows = {
        "steps": f"{outcome.steps:,}",
        "simulated": f"{outcome.simulated_ms / 1000:,.1f} s",
        "rebalances": f"{outcome.rebalances:,}",
        "slowest convergence": f"{outcome.slowest_convergence_ms / 1000:,.1f} s",
        "longest unowned partition": f"{outcome.longest_unowned_ms / 1000:,.1f} s",
        "rows in the sinks": f"{outcome.rows:,}",
        "commits": f"{outcome.commits:,}",
        "broker crashes": f"{outcome.crashes:,}",
        "digest": outcome.digest,
    }
    for name, value in rows.items():
        table.add_row(name, Text(value, overflow="fold"))
    return table


def _verdict(outcome: Outcome) -> Text:
    if outcome.broken is None:
        return Text(f"seed {outcome.seed} holds", style="bold green")
    return Text(f"seed {outcome.seed} breaks {outcome.broken}", style="bold red")


# The fewest faults


def _shrink(wish: Wish, seed: int, play: Play) -> int:
    scenario = wish.draw.scenario(seed)
    with Console(stderr=True).status(f"leaving out faults of seed {seed}") if sys.stderr.isatty() else nullcontext():
        shrunk = shortest(scenario, play)
    if shrunk is None:
        print(json.dumps({"verdict": "holds", "seed": seed}) if wish.as_json else f"seed {seed} holds: there is nothing to shrink")
        return 0
    broken, command = shrunk.outcome.broken, wish.command(seed, shrunk.kept)
    assert broken is not None
    faults = [(number, scenario.faults[number]) for number in shrunk.kept]
    if wish.as_json:
        told = [{"number": number, **fault._asdict()} for number, fault in faults]
        whole = {"verdict": "broken", "seed": seed, "broken": broken._asdict(), "faults": told, "of": len(scenario.faults)}
        print(json.dumps({**whole, "plays": shrunk.plays, "command": command}, indent=2))
        return BROKEN
    console = _console()
    console.print(_faults_table(scenario.with_faults(fault for _, fault in faults), shrunk.kept, explains=True))
    print_sentence(console, _verdict(shrunk.outcome))
    suffice = "suffices" if len(faults) == 1 else "suffice"
    console.print(
        f"{len(faults)} of {len(scenario.faults)} faults {suffice} ({shrunk.plays} histories played): {command}", soft_wrap=True
    )
    return BROKEN
