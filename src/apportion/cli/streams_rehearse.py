"""The command `apportion streams rehearse`: one upgrade as a table, as JSON, as a picture."""

import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.status import Status
from rich.table import Table

from apportion.cli.failures import FAILED, UNUSABLE, drop_stdout, print_failure
from apportion.cli.lines import folded, print_sentence, report_console
from apportion.cli.rehearsal_picture import upgrade_svg
from apportion.cli.rehearsal_settings import MatrixSettings
from apportion.cli.setting_options import number_fault_or_none
from apportion.sim.kernel.trace import Trace
from apportion.sim.streams.play import RehearsalResult, UpgradeStep, rehearse
from apportion.sim.streams.rehearsal import Rehearsal, RehearsalRefused
from apportion.sim.streams.settings import LEADERS, BounceSettings, UpgradeSettings
from apportion.streams.metadata.upgrades import UpgradePath, topology_caution, upgrade_path

PIPED_COLUMNS = 132
LEGEND = (
    "version: of the metadata in use once the group has settled. moved: tasks that "
    "another instance runs than before. "
    "stopped: tasks that nobody ran for a while, and the longest of these times."
)


class RehearseOptions(NamedTuple):
    """The options of one command line. sizes: fields of `Rehearsal`."""

    sizes: dict[str, Any]
    as_json: bool = False
    picture: Path | None = None
    trace: Path | None = None
    matrix: bool = False
    spark: str | None = None
    jobs: int | None = None


def run(options: RehearseOptions) -> int:
    """Run the command `apportion streams rehearse`; return its exit code."""
    try:
        code = _run(options)
        sys.stdout.flush()
        return code
    except RehearsalRefused as error:
        print_failure("streams", RehearsalRefused(_by_option(str(error))), options.as_json)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        drop_stdout()
        return 0
    return UNUSABLE


def _by_option(sentence: str) -> str:
    """Return the sentence with the field of `Rehearsal` that it begins with as an option."""
    name, _, rest = sentence.partition(" ")
    is_size = name in {each.name for each in fields(Rehearsal)}
    return f"--{name.replace('_', '-')} {rest}" if is_size else sentence


def parse_leader(text: str) -> str | int:
    """Return the value of `--leader`: one of LEADERS, or a number. Raises RehearsalRefused."""
    if text in LEADERS:
        return text
    if not text.isdecimal():
        raise RehearsalRefused(f"--leader must be {', '.join(LEADERS)} or a number, not {text!r}")
    return int(text)


def _run(options: RehearseOptions) -> int:
    """Rehearse one upgrade or, with --matrix, all of them, as the options say.

    Returns the exit code. Raises RehearsalRefused for a number out of its bounds, and for options
    that exclude each other.
    """
    for owner, values in (
        (UpgradeSettings, options.sizes),
        (BounceSettings, options.sizes),
        (MatrixSettings, options._asdict()),
    ):
        if (fault := number_fault_or_none(owner, values)) is not None:
            raise RehearsalRefused(fault)
    if options.matrix:
        _refuse_beside_matrix(options)
        from apportion.cli.rehearsal_matrix import run_matrix

        return run_matrix(options.sizes["seed"], options.as_json, options.spark, options.jobs)
    if options.spark or options.jobs:
        raise RehearsalRefused("--spark and --jobs are for --matrix")
    if options.sizes["from_"] is None or options.sizes["to"] is None:
        raise RehearsalRefused("say both --from and --to, or --matrix")
    return _rehearse_one(options)


def _refuse_beside_matrix(options: RehearseOptions) -> None:
    """Raise RehearsalRefused for options beside `--matrix` that are for one upgrade."""
    defaults = {
        each.name: None if each.default is MISSING else each.default for each in fields(Rehearsal)
    }
    beside = [
        name for name, size in options.sizes.items() if name != "seed" and size != defaults[name]
    ]
    beside += [
        name
        for name, path in (("picture", options.picture), ("trace", options.trace))
        if path is not None
    ]
    if beside:
        option = beside[0].strip("_").replace("_", "-")
        raise RehearsalRefused(
            f"--matrix plays every upgrade, in worlds of its own: --{option} is for one"
        )
    if options.spark and options.jobs:
        raise RehearsalRefused("--jobs and --spark exclude each other")


def _rehearse_one(options: RehearseOptions) -> int:
    """Rehearse one upgrade; print it as tables or JSON, and write its trace and picture.

    Returns the exit code. Raises RehearsalRefused for options that make no rehearsal.
    """
    sizes = dict(options.sizes, leader=parse_leader(options.sizes["leader"]))
    if options.picture is not None and options.picture.suffix != ".svg":
        raise RehearsalRefused(
            f"--picture draws SVG: name a file that ends with .svg, not {options.picture}"
        )
    # The second would overwrite the first without a word.
    if options.trace is not None and options.trace == options.picture:
        raise RehearsalRefused(f"--trace and --picture cannot both be written to {options.trace}")
    if sizes["crash_at"] is None and sizes["victim"] != "instance":
        raise RehearsalRefused("--victim needs --crash-at")
    rehearsal = Rehearsal(**sizes)
    trace = Trace() if options.trace else None
    console = Console(stderr=True)
    with Status("", console=console) as status:

        def show_step(step: UpgradeStep) -> None:
            status.update(f"step {step.number}: {step.instance} is back as {step.runs_as}")

        rehearsed = rehearse(rehearsal, trace, show_step)
    if options.trace and trace:
        _write(options.trace, "".join(f"{line}\n" for line in trace.lines))
    if options.picture:
        _write(options.picture, upgrade_svg(rehearsed))
    if options.as_json:
        print(json.dumps(as_json(rehearsed), indent=2))
    else:
        _show(rehearsed)
    return 0 if rehearsed.held else FAILED


def _write(path: Path, text: str) -> None:
    """Write the trace or the picture to a file; raise RehearsalRefused if that fails."""
    try:
        path.write_text(text)
    except OSError as error:
        raise RehearsalRefused(f"{path} cannot be written: {error.strerror}") from None


def _show(rehearsed: RehearsalResult) -> None:
    """Print a rehearsed upgrade: its bounces, a table of the steps, dead instances, the verdict."""
    console = report_console(PIPED_COLUMNS)
    rehearsal = rehearsed.rehearsal
    print_sentence(
        console, f"From {rehearsal.from_} to {rehearsal.to}: {describe_upgrade(rehearsal.upgrade)}"
    )
    if rehearsal.threads > 1:
        console.print(f"  {rehearsal.instances} instances with {rehearsal.threads} threads each")
    for number, bounce in enumerate(rehearsal.upgrade.bounces):
        first, last = number * rehearsal.instances + 1, (number + 1) * rehearsal.instances
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        print_sentence(
            console, f"  bounce {number + 1}, {steps}: every instance comes back as {bounce}"
        )
    if rehearsed.steps:
        console.print(_steps(rehearsed))
        print_sentence(console, LEGEND, style="dim")
    for name, why in rehearsed.died.items():
        print_sentence(console, f"{name} died: {why}")
    for line in verdict(rehearsed):
        print_sentence(console, line)


def describe_upgrade(upgrade: UpgradePath) -> str:
    """Return the number of a Streams upgrade's rolling bounces, and why, as a sentence."""
    if len(upgrade.bounces) == 1:
        return f"one rolling bounce; {upgrade.why}."
    bridge = f", by way of {upgrade.bridge}" if upgrade.bridge else ""
    return f"two rolling bounces{bridge}; {upgrade.why}."


def _steps(rehearsed: RehearsalResult) -> Table:
    """Return the table of a rehearsed rolling upgrade, one row for each restart; see LEGEND."""
    table = folded(
        Table("step", "instance", "version", "rebalances", "moved", "stopped", "settled")
    )
    for column in (0, 2, 3, 4, 5, 6):
        table.columns[column].justify = "right"
    table.add_row("", "", str(rehearsed.version_before), "", "", "", "", style="dim")
    before = rehearsed.version_before
    for step in rehearsed.steps:
        leads = " (leads)" if step.led else ""
        version = str(step.version) if step.version == before else f"{before} -> {step.version}"
        stopped = f"{step.stopped}, {step.unowned_ms / 1000:.1f} s" if step.stopped else "0"
        figures = (
            version,
            str(step.rebalances),
            str(step.moved),
            stopped,
            f"{step.took_ms / 1000:.1f} s",
        )
        last = step.number % rehearsed.rehearsal.instances == 0
        table.add_row(
            str(step.number),
            f"{step.instance}{leads}",
            *figures,
            end_section=last and not step.crashed,
        )
        if step.crashed:
            table.add_row("", f"{step.crashed} crashes", end_section=last)
        before = step.version
    return table


def verdict(rehearsed: RehearsalResult) -> Iterator[str]:
    """Yield the result of `streams rehearse` in sentences."""
    rehearsal = rehearsed.rehearsal
    # The played path may be forced with --bounces; the advice is always the path that is needed.
    needed = upgrade_path(rehearsal.from_, rehearsal.to)
    if rehearsed.broken is not None:
        yield (
            f"The law {rehearsed.broken.law} broke after "
            f"{rehearsed.broken.at_ms / 1000:.1f} s: {rehearsed.broken.why}"
        )
    if rehearsed.died:
        yield f"{len(rehearsed.died)} of {rehearsal.instances} instances died on the way."
    longest = f"{rehearsed.longest_unowned_ms / 1000:.1f} s"
    if rehearsed.held:
        yield (
            f"All instances speak version {rehearsed.final_version}. The longest time "
            f"that a task had no owner: {longest}."
        )
    else:
        yield f"The longest time that a task had no owner until then: {longest}."
    if rehearsal.upgrade.bounces != needed.bounces:
        luck = (
            "It went well in this history, and need not in another."
            if rehearsed.held
            else "This was not the way."
        )
        yield f"{luck} Needed: {describe_upgrade(needed)}"
        yield from (
            f"  bounce {number}: {bounce}" for number, bounce in enumerate(needed.bounces, 1)
        )
    if caution := topology_caution(rehearsal.from_, rehearsal.to):
        yield caution


def as_json(rehearsed: RehearsalResult) -> dict[str, Any]:
    """Return the rehearsed upgrade as JSON; no figure in it comes from a real clock."""
    rehearsal = rehearsed.rehearsal
    needed = upgrade_path(rehearsal.from_, rehearsal.to)
    return {
        "from": rehearsal.from_,
        "to": rehearsal.to,
        "held": rehearsed.held,
        "bounces": len(rehearsal.upgrade.bounces),
        "upgrade_from": rehearsal.upgrade.upgrade_from,
        "bridge": rehearsal.upgrade.bridge,
        "why": rehearsal.upgrade.why,
        "plan": [
            {"release": bounce.release.name, "upgrade_from": bounce.upgrade_from}
            for bounce in rehearsal.upgrade.bounces
        ],
        "bounces_needed": len(needed.bounces),
        "caution": topology_caution(rehearsal.from_, rehearsal.to) or None,
        "version_before": rehearsed.version_before,
        "final_version": rehearsed.final_version,
        "rebalances": sum(step.rebalances for step in rehearsed.steps),
        "tasks_moved": sum(step.moved for step in rehearsed.steps),
        "longest_unowned_ms": rehearsed.longest_unowned_ms,
        "simulated_ms": rehearsed.simulated_ms,
        "steps": [_step_json(step) for step in rehearsed.steps],
        "died": rehearsed.died,
        "broken": rehearsed.broken and rehearsed.broken._asdict(),
        "world": {
            "instances": rehearsal.instances,
            "threads": rehearsal.threads,
            "partitions": rehearsal.partitions,
            "standbys": rehearsal.standbys,
            "leader": rehearsal.leader,
            "crash_at": rehearsal.crash_at,
            "victim": rehearsal.victim,
            "away_ms": rehearsal.away_ms,
            "session_ms": rehearsal.scenario.session_ms,
            "seed": rehearsal.seed,
        },
        "digest": rehearsed.digest,
    }


def _step_json(step: UpgradeStep) -> dict[str, Any]:
    """Return one step of the rehearsed upgrade, for `--json`."""
    fields_of_step = step._asdict()
    bounce = fields_of_step.pop("runs_as")
    return {
        "step": fields_of_step.pop("number"),
        "release": bounce.release.name,
        "upgrade_from": bounce.upgrade_from,
        **fields_of_step,
    }
