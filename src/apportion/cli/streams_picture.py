"""How `apportion streams describe` shows a group: a title, what to know of the whole, and a block
for each process.
"""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from apportion.cli.lines import print_sentence
from apportion.readable import readable

PIPED_WIDTH = 10_000  # no terminal, no line breaks: a line is a row
LEAST_WIDTH = 20  # of what stands beside a label
LAST_DATE_MS = 253_402_300_799_999  # of the year 9999
COPIES = {"standby": "standby", "warmup": "warm-up", "standby_or_warmup": "standby or warm-up"}
TOLD = {  # what the leader's error means, by its name
    "INCOMPLETE_SOURCE_TOPIC_METADATA": (
        "source topics are missing, so it got no tasks and shuts down: make them, start it again"
    ),
    "VERSION_PROBING": "it is to join again in the leader's version",
    "ASSIGNMENT_ERROR": "the leader failed to assign tasks; its log says why",
    "SHUTDOWN_REQUESTED": "somebody has asked the whole application to shut down",
}


def show(report: dict[str, Any]) -> None:
    """The report is on stdout."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    for line in (_title(report), *_whole(report)):
        print_sentence(console, Text(readable(line)))
    if not report["told"]:
        everybody = (
            _consumer(process, each)
            for process in report["processes"]
            for each in process["consumers"]
        )
        _show_rows(console, list(zip(_once("consumers"), everybody, strict=False)))
        return
    for process in report["processes"]:
        console.print()
        print_sentence(console, Text(readable(_name(process)), style="bold"))
        _show_rows(console, list(_rows(process)))


def _show_rows(console: Console, rows: list[tuple[str, str]]) -> None:
    """Labels and values stand in two columns; a long value goes on below itself."""
    beside = max((len(label) for label, _ in rows), default=0) + 4
    for label, value in rows:
        lines = Text(readable(value)).wrap(console, max(console.width - beside, LEAST_WIDTH))
        for number, part in enumerate(lines):
            part.rstrip()
            console.print(Text(f"  {'' if number else label}".ljust(beside)) + part, soft_wrap=True)


def _title(report: dict[str, Any]) -> str:
    processes = report["processes"]
    counts = [_count(sum(len(process["consumers"]) for process in processes), "consumer")]
    if report["told"]:
        active = sum(len(process["active"]) for process in processes)
        lag = "unknown" if report["lag"] is None else report["lag"]
        counts = [
            _count(len(processes), "process"),
            *counts,
            _count(active, "active task"),
            f"lag {lag}",
        ]
    kind = "a group of Kafka Streams" if report["told"] else "a classic group"
    return f"{report['group']}: {kind}, {report['state']}, {', '.join(counts)}"


def _whole(report: dict[str, Any]) -> Iterator[str]:
    """What to know of the group as a whole, a line each."""
    processes = report["processes"]
    if not processes:
        yield (
            "It has no members: no instance of the application is running. `apportion groups "
            "describe` shows its offsets."
        )
    elif not report["told"]:
        yield (
            "It is rebalancing, and a broker tells only of a stable group what its members "
            "say: ask again in a moment."
        )
    metadata = report["metadata"]
    if metadata is not None:
        if holders := metadata["held_back_by"]:
            are, of = ("is", "1") if len(holders) == 1 else ("are", str(len(holders)))
            could = f"spoken is version {metadata['used']}, possible {metadata['possible']}"
            yield f"metadata: {could}; {of} of {_count(len(processes), 'process')} {are} in the way"
        yield from (f"metadata: {sentence}" for sentence in metadata["advice"])
    if report["next_rebalance_ms"] is not None:
        yield f"next rebalance: {_when(report['next_rebalance_ms'])}"
    if report["unowned"]:
        yield (
            f"given to nobody: {' '.join(report['unowned'])} (withheld until who had them "
            "gives them back, or no tasks any more)"
        )
    if report["copies"] == "standby_or_warmup" and any(
        process["standby_or_warmup"] for process in processes
    ):
        yield (
            "Standby tasks and warm-ups look alike to others than the leader, and nothing "
            "here tells them apart."
        )
    if report["lag_problem"]:
        yield f"The lag is not known: {report['lag_problem']}"


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _when(at_ms: int) -> str:
    if at_ms == 0:
        return "at once, as tasks change hands"
    if not 0 < at_ms <= LAST_DATE_MS:
        return f"at {at_ms} ms since 1970, which is no date"
    left_s = round(at_ms / 1000 - time.time())
    minutes, seconds = divmod(left_s, 60)
    away = (
        "due" if left_s < 0 else f"in {minutes} min {seconds} s" if minutes else f"in {seconds} s"
    )
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC, {away}"


def _name(process: dict[str, Any]) -> str:
    if process["process"] is None:
        return f"process unknown, of {process['consumers'][0]['client']}"
    return f"process {process['process']}"


def _rows(process: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What to know of one process, as label and value."""
    if process["used"] is not None:
        yield "metadata", _versions(process)
    if process["endpoint"]:
        yield "endpoint", process["endpoint"]
    if process["tags"]:
        yield "tags", ", ".join(f"{key}={value}" for key, value in process["tags"].items())
    for label, consumer in zip(_once("consumers"), process["consumers"], strict=False):
        yield label, _consumer(process, consumer)
    for label, fault in zip(_once("problems"), _problems(process), strict=False):
        yield label, fault
    if process["active"]:
        yield "active", " ".join(each["task"] for each in process["active"])
        yield "lag", _lag(process)
    elif process["lag"] == 0:
        yield "active", "nothing: it was given no tasks to run"
    else:
        yield "active", "not known"
    for key, label in COPIES.items():
        if process[key]:
            yield label, " ".join(map(_copy, process[key]))


def _once(label: str) -> Iterator[str]:
    """The label, and then nothing, for the rows that go on with it."""
    yield label
    while True:
        yield ""


def _versions(said: dict[str, Any]) -> str:
    """The two version numbers of a process or a consumer."""
    if said["supported"] is None:
        return f"version {said['used']}, cannot say what it supports"
    return f"version {said['used']}, supports {said['supported']}"


def _consumer(process: dict[str, Any], consumer: dict[str, Any]) -> str:
    """Who it is and where, and what is different with it than with its process."""
    instance = f", instance {consumer['instance']}" if consumer["instance"] else ""
    same = all(consumer[key] == process[key] for key in ("used", "supported"))
    version = "" if same or consumer["used"] is None else f", {_versions(consumer)}"
    return f"{consumer['client']} at {consumer['host'].removeprefix('/')}{instance}{version}"


def _problems(process: dict[str, Any]) -> Iterator[str]:
    """What is wrong with its consumers, a sentence each; whose it is where there are several."""
    for consumer in process["consumers"]:
        whose = f"{consumer['client']}: " if len(process["consumers"]) > 1 else ""
        yield from (f"{whose}{fault}" for fault in consumer["unread"])
        if consumer["asks"] == "SHUTDOWN_REQUESTED":
            yield f"{whose}it asks the whole application to shut down"
        elif consumer["asks"]:
            yield f"{whose}it says error {consumer['asks']}"
        if consumer["error"]:
            meant = TOLD.get(consumer["error"], "an error that is not known here")
            yield f"{whose}it was told {consumer['error']}: {meant}"


def _lag(process: dict[str, Any]) -> str:
    """The lag of all its tasks, and of each that has one."""
    behind = [f"{each['task']} {each['lag']}" for each in process["active"] if each["lag"]]
    unknown = [each["task"] for each in process["active"] if each["lag"] is None]
    parts = [*behind, *([f"not known of {' '.join(unknown)}"] if unknown else [])]
    whole = "not known" if process["lag"] is None else str(process["lag"])
    return f"{whole} ({', '.join(parts)})" if parts else whole


def _copy(copy: dict[str, Any]) -> str:
    """A task of which it has a copy, and how far that was."""
    known = copy["offset_sum_at_join"]
    return copy["task"] if known is None else f"{copy['task']} (at {known} when it joined)"
