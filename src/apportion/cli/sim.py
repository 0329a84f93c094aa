"""The command `apportion sim`: one history, its fewest faults, or thousands of histories.

`cli/sim_command.py` has its options; `cli/sim_seeds.py` plays thousands.
"""

import json
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from apportion.cli.failures import FAILED, UNUSABLE, drop_stdout, print_failure
from apportion.cli.lines import print_sentence, report_console
from apportion.cli.sim_options import SimOptions, fault_numbers, refuse_contradictions
from apportion.cli.sim_picture import picture
from apportion.cli.sim_seeds import play_here, play_on_spark
from apportion.sim.kernel.outcome import Outcome
from apportion.sim.kernel.scenario import FAULTS, Fault, Scenario, ScenarioRefused
from apportion.sim.kernel.trace import Trace
from apportion.sim.play import play
from apportion.sim.seed_pool import NoProcess, PlayScenario
from apportion.sim.shrink import shrink_faults

LAST_LINES = 200
PIPED_COLUMNS = 120


def run(options: SimOptions, play: PlayScenario = play) -> int:
    """Run the command `apportion sim` and return its exit code.

    play: the simulator, or a fake one in tests.
    """
    try:
        code = _run(options, play)
        # Here and not when the process ends, so that a closed pipe is met inside this try.
        sys.stdout.flush()
        return code
    except (ScenarioRefused, NoProcess) as error:
        print_failure("sim", error, options.as_json)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        drop_stdout()
        return 0
    except OSError as error:
        drop_stdout()
        print(f"apportion sim: stdout cannot be written: {error.strerror}.", file=sys.stderr)
    return UNUSABLE


def _run(options: SimOptions, play: PlayScenario) -> int:
    """Play one seed, shrink one, or play many, as the options say; return the exit code."""
    refuse_contradictions(options)
    # refuse an impossible world first
    options.draw.scenario(options.seed or options.shrink or options.first or 0)
    if options.seed is not None:
        return _play_one(options, options.seed, play)
    if options.shrink is not None:
        return _shrink(options, options.shrink, play)
    return play_on_spark(options, play) if options.spark else play_here(options, play)


# One history


def _play_one(options: SimOptions, seed: int, play: PlayScenario) -> int:
    """Play the history of one seed and print it, as a picture and tables or as JSON.

    Returns the exit code. Raises ScenarioRefused if the file of `--trace` cannot be written.
    """
    scenario = options.draw.scenario(seed)
    kept = None if options.only_faults is None else fault_numbers(options.only_faults, scenario)
    if kept is not None:
        # The other sizes stay as drawn: the history up to the first fault left out is the same.
        scenario = scenario.with_faults(scenario.faults[number] for number in kept)
    try:
        with options.trace.open("w") if options.trace else nullcontext() as file:
            trace = Trace() if file or not options.as_json else None
            outcome = play(scenario, trace)
            if file and trace:
                file.writelines(f"{line}\n" for line in trace.lines)
    except OSError as error:
        raise ScenarioRefused(
            f"--trace {options.trace} cannot be written: {error.strerror}."
        ) from None
    if options.as_json:
        print(json.dumps(_history_json(outcome, scenario, options.command(seed, kept)), indent=2))
    elif trace:
        if not options.quiet:
            _print_trace(options, trace, outcome.holds)
        console = report_console(PIPED_COLUMNS)
        for line in picture(scenario, outcome, trace.ownership, console.width):
            print_sentence(console, line)
        console.print(
            _faults_table(scenario, range(len(scenario.faults)) if kept is None else kept)
        )
        console.print(_figures_table(outcome))
        print_sentence(console, _verdict(outcome))
    return 0 if outcome.holds else FAILED


def _print_trace(options: SimOptions, trace: Trace, holds: bool) -> None:
    """Print the trace of `--seed` in front of its picture.

    Without `--all` or `--trace`, the last lines if a law was broken, else only how to see them.
    """
    count = len(trace.lines)
    if options.trace:
        print(f"{count:,} lines in {options.trace}\n")
        return
    if holds and not options.whole:
        print(f"{count:,} lines of trace: --all shows them, --trace FILE keeps them\n")
        return
    shown = trace.lines if options.whole else trace.lines[-LAST_LINES:]
    if len(shown) < count:
        print(
            f"... {count - len(shown):,} lines before these: --all shows them, --trace "
            "FILE keeps them"
        )
    sys.stdout.writelines(f"{line}\n" for line in shown)
    print()


def _history_json(outcome: Outcome, scenario: Scenario, command: str) -> dict[str, Any]:
    """Return a simulated history as JSON; no figure in it comes from a real clock."""
    figures = outcome._asdict()
    for name in ("seed", "digest", "broken"):
        del figures[name]
    scenario_json = asdict(scenario)
    scenario_json["faults"] = [fault._asdict() for fault in scenario.faults]
    return {
        "verdict": "holds" if outcome.holds else "broken",
        "broken": outcome.broken and outcome.broken._asdict(),
        "figures": figures,
        "digest": outcome.digest,
        "command": command,
        "scenario": scenario_json,
    }


COUNTED = {  # kind of fault whose amount is a count -> what it counts, singular and plural
    "more-partitions": ("partition", "partitions"),
    "disk-refuses": ("flush", "flushes"),
    "lost-reply": ("answer", "answers"),
}
WITHOUT_AMOUNT = ("lost-join", "topic-again", "subscribe", "regex")


def _faults_table(scenario: Scenario, numbers: Iterable[int], explains: bool = False) -> Table:
    """Return a table of a simulated history's faults, each with its number among those drawn."""
    table = Table(
        "fault", "at", "kind", "affects", "amount", *(("what it does",) if explains else ())
    )
    for number, fault in zip(numbers, scenario.faults, strict=True):
        row = (
            str(number),
            f"{fault.at_ms / 1000:.3f} s",
            fault.kind,
            _victim(fault, scenario),
            _magnitude(fault),
        )
        table.add_row(*row, *((FAULTS[fault.kind],) if explains else ()))
    return table


def _victim(fault: Fault, scenario: Scenario) -> str:
    """Return the name of the process or topic that a simulated fault affects, for its table."""
    if fault.kind in ("broker-crash", "broker-pause", "disk-refuses"):
        return "broker"
    if fault.kind in ("more-partitions", "topic-again"):
        return f"t{fault.target % scenario.topics}"
    if fault.kind == "roll":
        return "all"
    if fault.kind == "topology":
        return "all of Streams"
    if fault.kind == "regex":
        return f"reader{fault.target % scenario.readers}" if scenario.readers else "none"
    number = fault.target % scenario.members
    names = [
        *(f"worker{each}" for each in range(scenario.workers)),
        *(f"reader{each}" for each in range(scenario.readers)),
        *(f"streams{each}" for each in range(scenario.streams)),
    ]
    name = names[number]
    return f"{name} or broker" if fault.kind == "clock-jump" else name


def _magnitude(fault: Fault) -> str:
    """Return how long a drawn fault lasts, or how many things it takes, for the faults' table."""
    if fault.kind in WITHOUT_AMOUNT:
        return ""
    if fault.kind in COUNTED:
        return f"{fault.amount} {COUNTED[fault.kind][fault.amount != 1]}"
    return f"{fault.amount / 1000:{'+' if fault.kind == 'clock-jump' else ''},.3f} s"


def _figures_table(outcome: Outcome) -> Table:
    """Return the figures of one simulated history as a table: steps, rebalances, rows..."""
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
    """Return the last line for one seed: the seed holds, or the law that it breaks."""
    if outcome.broken is None:
        return Text(f"seed {outcome.seed} holds", style="bold green")
    return Text(f"seed {outcome.seed} breaks {outcome.broken}", style="bold red")


# The fewest faults


def _shrink(options: SimOptions, seed: int, play: PlayScenario) -> int:
    """Find the fewest faults with which the seed still breaks a law, and print them.

    Return the exit code: 0 where the seed holds.
    """
    scenario = options.draw.scenario(seed)
    with (
        Console(stderr=True).status(f"leaving out faults of seed {seed}")
        if sys.stderr.isatty()
        else nullcontext()
    ):
        shrunk = shrink_faults(scenario, play)
    if shrunk is None:
        print(
            json.dumps({"verdict": "holds", "seed": seed})
            if options.as_json
            else f"seed {seed} holds: there is nothing to shrink"
        )
        return 0
    broken, command = shrunk.outcome.broken, options.command(seed, shrunk.kept)
    assert broken is not None
    faults = [(number, scenario.faults[number]) for number in shrunk.kept]
    if options.as_json:
        numbered_faults = [{"number": number, **fault._asdict()} for number, fault in faults]
        whole = {
            "verdict": "broken",
            "seed": seed,
            "broken": broken._asdict(),
            "faults": numbered_faults,
            "of": len(scenario.faults),
        }
        print(json.dumps({**whole, "plays": shrunk.plays, "command": command}, indent=2))
        return FAILED
    console = report_console(PIPED_COLUMNS)
    console.print(
        _faults_table(
            scenario.with_faults(fault for _, fault in faults), shrunk.kept, explains=True
        )
    )
    print_sentence(console, _verdict(shrunk.outcome))
    suffice = "suffices" if len(faults) == 1 else "suffice"
    console.print(
        f"{len(faults)} of {len(scenario.faults)} faults {suffice} ({shrunk.plays} "
        f"histories played): {command}",
        soft_wrap=True,
    )
    return FAILED
