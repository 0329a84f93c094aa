"""`apportion streams rehearse`: one upgrade played and told, as a table, as JSON, as a picture."""

import json
import os
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NamedTuple

from rich.console import Console
from rich.status import Status
from rich.table import Table

from apportion.cli.failures import print_failure
from apportion.cli.lines import print_sentence
from apportion.cli.rehearsal_picture import upgrade_svg
from apportion.sim.kernel.trace import Chronicle
from apportion.sim.streams.rehearsal import LEADERS, Rehearsal, RehearsalRefused, Rehearsed, Step, rehearse
from apportion.streams.metadata.upgrades import UpgradePath, upgrade_path

UNUSABLE = 2  # exit code where the arguments make no sense
BROKEN = 1  # exit code where the upgrade does not go well
PIPED_COLUMNS = 132
LEGEND = (
    "version: of the metadata in use once the group has settled. moved: tasks that another instance runs than before. "
    "stopped: tasks that nobody ran for a while, and the longest of these times."
)


class Wish(NamedTuple):
    """What the user wants to see. sizes: fields of `Rehearsal`."""

    sizes: dict[str, Any]
    as_json: bool = False
    picture: Path | None = None
    trace: Path | None = None
    matrix: bool = False
    spark: str | None = None
    jobs: int | None = None


def run(wish: Wish) -> int:
    """What was wished for is on stdout; the exit code."""
    try:
        code = _run(wish)
        sys.stdout.flush()
        return code
    except RehearsalRefused as error:
        print_failure("streams", RehearsalRefused(_by_option(str(error))), wish.as_json)
    except BrokenPipeError:  # who reads this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    return UNUSABLE


def _by_option(sentence: str) -> str:
    """The sentence with a size that it begins with named as the option that says it."""
    name, _, rest = sentence.partition(" ")
    is_size = name in {each.name for each in fields(Rehearsal)}
    return f"--{name.replace('_', '-')} {rest}" if is_size else sentence


def leader_of(said: str) -> str | int:
    """The place of the leader: one of LEADERS, or a number. RehearsalRefused for anything else."""
    if said in LEADERS:
        return said
    if not said.isdecimal():
        raise RehearsalRefused(f"--leader must be {', '.join(LEADERS)} or a number, not {said!r}")
    return int(said)


def _run(wish: Wish) -> int:
    if wish.matrix:
        _refuse_beside_matrix(wish)
        from apportion.cli.rehearsal_matrix import run_matrix

        return run_matrix(wish.sizes["seed"], wish.as_json, wish.spark, wish.jobs)
    if wish.spark or wish.jobs:
        raise RehearsalRefused("--spark and --jobs are for --matrix")
    if wish.sizes["from_"] is None or wish.sizes["to"] is None:
        raise RehearsalRefused("say both --from and --to, or --matrix")
    return _one(wish)


def _refuse_beside_matrix(wish: Wish) -> None:
    """RehearsalRefused for what is said of one upgrade."""
    plain = {each.name: None if each.default is MISSING else each.default for each in fields(Rehearsal)}
    said = [name for name, size in wish.sizes.items() if name != "seed" and size != plain[name]]
    said += [name for name, path in (("picture", wish.picture), ("trace", wish.trace)) if path is not None]
    if said:
        option = said[0].strip("_").replace("_", "-")
        raise RehearsalRefused(f"--matrix plays every upgrade, in worlds of its own: --{option} is for one")
    if wish.spark and wish.jobs:
        raise RehearsalRefused("--jobs and --spark exclude each other")


def _one(wish: Wish) -> int:
    sizes = dict(wish.sizes, leader=leader_of(wish.sizes["leader"]))
    if wish.picture is not None and wish.picture.suffix != ".svg":
        raise RehearsalRefused(f"--picture draws SVG: name a file that ends with .svg, not {wish.picture}")
    if wish.trace is not None and wish.trace == wish.picture:
        raise RehearsalRefused(f"--trace and --picture cannot both be written to {wish.trace}")
    if sizes["crash_at"] is None and sizes["victim"] != "instance":
        raise RehearsalRefused("--victim says who dies: say when, with --crash-at")
    rehearsal = Rehearsal(**sizes)
    chronicle = Chronicle() if wish.trace else None
    console = Console(stderr=True)
    with Status("", console=console) as status:

        def told(step: Step) -> None:
            status.update(f"step {step.number}: {step.instance} is back as {step.runs_as}")

        rehearsed = rehearse(rehearsal, chronicle, told)
    if wish.trace and chronicle:
        _write(wish.trace, "".join(f"{line}\n" for line in chronicle.lines))
    if wish.picture:
        _write(wish.picture, upgrade_svg(rehearsed))
    if wish.as_json:
        print(json.dumps(as_json(rehearsed), indent=2))
    else:
        _show(rehearsed)
    return 0 if rehearsed.held else BROKEN


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise RehearsalRefused(f"{path} cannot be written: {error.strerror}") from None


def _show(rehearsed: Rehearsed) -> None:
    width = None if sys.stdout.isatty() else get_terminal_size((PIPED_COLUMNS, 0)).columns
    console = Console(highlight=False, markup=False, width=width)
    rehearsal = rehearsed.rehearsal
    print_sentence(console, f"From {rehearsal.from_} to {rehearsal.to}: {told(rehearsal.upgrade)}")
    if rehearsal.threads > 1:
        console.print(f"  {rehearsal.instances} instances with {rehearsal.threads} threads each")
    for number, bounce in enumerate(rehearsal.upgrade.bounces):
        first, last = number * rehearsal.instances + 1, (number + 1) * rehearsal.instances
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        print_sentence(console, f"  bounce {number + 1}, {steps}: every instance comes back as {bounce}")
    if rehearsed.steps:
        console.print(_steps(rehearsed))
        print_sentence(console, LEGEND, style="dim")
    for name, why in rehearsed.died.items():
        print_sentence(console, f"{name} died: {why}")
    for line in verdict(rehearsed):
        print_sentence(console, line)


def told(way: UpgradePath) -> str:
    """How many bounces, and why."""
    if len(way.bounces) == 1:
        return f"one rolling bounce; {way.why}."
    bridge = f", by way of {way.bridge}" if way.bridge else ""
    return f"two rolling bounces{bridge}; {way.why}."


def _steps(rehearsed: Rehearsed) -> Table:
    table = Table("step", "instance", "version", "rebalances", "moved", "stopped", "settled")
    for each in table.columns:  # a narrow terminal makes it high, and hides nothing
        each.overflow = "fold"
    for column in (0, 2, 3, 4, 5, 6):
        table.columns[column].justify = "right"
    table.add_row("", "", str(rehearsed.version_before), "", "", "", "", style="dim")
    before = rehearsed.version_before
    for step in rehearsed.steps:
        leads = " (leads)" if step.led else ""
        version = str(step.version) if step.version == before else f"{before} -> {step.version}"
        stopped = f"{step.stopped}, {step.unowned_ms / 1000:.1f} s" if step.stopped else "0"
        figures = (version, str(step.rebalances), str(step.moved), stopped, f"{step.took_ms / 1000:.1f} s")
        last = step.number % rehearsed.rehearsal.instances == 0
        table.add_row(str(step.number), f"{step.instance}{leads}", *figures, end_section=last and not step.crashed)
        if step.crashed:
            table.add_row("", f"{step.crashed} crashes", end_section=last)
        before = step.version
    return table


def verdict(rehearsed: Rehearsed) -> list[str]:
    """What it came to, in sentences."""
    rehearsal = rehearsed.rehearsal
    needed = upgrade_path(rehearsal.from_, rehearsal.to)
    lines = []
    if rehearsed.broken is not None:
        lines.append(f"The law {rehearsed.broken.law} broke after {rehearsed.broken.at_ms / 1000:.1f} s: {rehearsed.broken.why}")
    if rehearsed.died:
        lines.append(f"{len(rehearsed.died)} of {rehearsal.instances} instances died on the way.")
    longest = f"{rehearsed.longest_unowned_ms / 1000:.1f} s"
    if rehearsed.held:
        lines.append(
            f"All instances speak version {rehearsed.final_version}. The longest time that a task had no owner: {longest}."
        )
    else:
        lines.append(f"The longest time that a task had no owner until then: {longest}.")
    if rehearsal.upgrade.bounces != needed.bounces:
        luck = "It went well in this history, and need not in another." if rehearsed.held else "This was not the way."
        lines.append(f"{luck} Needed: {told(needed)}")
        lines += [f"  bounce {number}: {bounce}" for number, bounce in enumerate(needed.bounces, 1)]
    return lines


def as_json(rehearsed: Rehearsed) -> dict[str, Any]:
    """The rehearsal as JSON; no figure in it comes from a real clock."""
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
        "plan": [{"release": bounce.release.name, "upgrade_from": bounce.upgrade_from} for bounce in rehearsal.upgrade.bounces],
        "bounces_needed": len(needed.bounces),
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


def _step_json(step: Step) -> dict[str, Any]:
    told = step._asdict()
    bounce = told.pop("runs_as")
    return {"step": told.pop("number"), "release": bounce.release.name, "upgrade_from": bounce.upgrade_from, **told}
