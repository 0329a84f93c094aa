"""The text that `apportion streams describe` prints: a title, the group, a block for each process.

The report comes from `cli/streams.py`, which has its keys.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from apportion.cli.groups.report import out_of_range_note
from apportion.cli.lines import print_sentence, row_console
from apportion.readable import readable
from apportion.streams.describe.group import StandbyKind

LEAST_WIDTH = 20  # of what stands beside a label
LAST_DATE_MS = 253_402_300_799_999  # of the year 9999
STANDBY_KEYS = {  # key of the JSON report by the kind of the tasks that are not active
    StandbyKind.STANDBY: "standby",
    StandbyKind.WARMUP: "warmup",
    StandbyKind.EITHER: "standby_or_warmup",
}
ERRORS = {  # name of the assignor's error -> what it means
    "INCOMPLETE_SOURCE_TOPIC_METADATA": (
        "source topics are missing, so it got no tasks and shuts down: make them, start it again"
    ),
    "VERSION_PROBING": "it is to join again in the leader's version",
    "ASSIGNMENT_ERROR": "the leader failed to assign tasks; its log says why",
    "SHUTDOWN_REQUESTED": "somebody has asked the whole application to shut down",
}


def show(report: dict[str, Any], command: str) -> None:
    """Print the report of `streams describe` to stdout.

    command: that which shows the offsets of any group.
    """
    console = row_console()
    for line in (_title(report), *_group_lines(report, command)):
        print_sentence(console, Text(readable(line)))
    if not report["told"]:
        consumers = (
            _consumer(process, each)
            for process in report["processes"]
            for each in process["consumers"]
        )
        _show_rows(console, list(zip(_once("consumers"), consumers, strict=False)))
        return
    for process in report["processes"]:
        console.print()
        print_sentence(console, Text(readable(_name(process)), style="bold"))
        _show_rows(console, list(_rows(process)))


def _show_rows(console: Console, rows: list[tuple[str, str]]) -> None:
    """Print labels and values in two columns.

    A long value is folded in its own column.
    """
    label_width = max((len(label) for label, _ in rows), default=0) + 4
    for label, value in rows:
        lines = Text(readable(value)).wrap(console, max(console.width - label_width, LEAST_WIDTH))
        for number, part in enumerate(lines):
            part.rstrip()
            console.print(
                Text(f"  {'' if number else label}".ljust(label_width)) + part, soft_wrap=True
            )


def _title(report: dict[str, Any]) -> str:
    """Return the first line: group, state, counts and the total lag."""
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


def _group_lines(report: dict[str, Any], command: str) -> Iterator[str]:
    """Yield the lines about the Streams group as a whole."""
    processes = report["processes"]
    if not processes:
        yield (
            "It has no members, and a broker tells only of a stable group whether it is one of "
            "Kafka Streams. If it is, no instance of the application is running. "
            f"`{command}` shows its offsets."
        )
    elif not report["told"]:
        yield (
            "It is rebalancing, and a broker tells only of a stable group what its members "
            "say: ask again in a moment."
        )
    metadata = report["metadata"]
    if metadata is not None:
        if blocking := metadata["held_back_by"]:
            hold = "holds" if len(blocking) == 1 else "hold"
            versions = f"version {metadata['used']} is in use, {metadata['possible']} is possible"
            count = _count(len(processes), "process")
            yield f"metadata: {versions}; {len(blocking)} of {count} {hold} the group back"
        yield from (f"metadata: {sentence}" for sentence in metadata["advice"])
    for process in processes:
        if len(process["places"]) > 1:
            yield (
                f"process {process['process']} is at {' and '.join(process['places'])}, and the "
                "leader takes that for one: was a state directory copied? Delete its file "
                "kafka-streams-process-metadata at one of them, and restart the instance"
            )
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
    """Return the time of the group's next rebalance as text: the date, and how far away it is."""
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
    """Yield label and value of each row about one Streams process."""
    if process["used"] is not None:
        yield "metadata", _versions(process)
    if process["endpoint"]:
        yield "endpoint", process["endpoint"]
    if process["tags"]:
        yield "tags", ", ".join(f"{key}={value}" for key, value in process["tags"].items())
    for label, consumer in zip(_once("consumers"), process["consumers"], strict=False):
        yield label, _consumer(process, consumer)
    for label, problem in zip(_once("problems"), _problems(process), strict=False):
        yield label, problem
    if process["active"]:
        yield "active", " ".join(each["task"] for each in process["active"])
        yield "lag", _lag(process)
    elif process["lag"] == 0:
        yield "active", "nothing: it was given no tasks to run"
    else:
        yield "active", "not known"
    for kind, key in STANDBY_KEYS.items():
        if process[key]:
            yield kind.value, " ".join(map(_standby_task, process[key]))


def _once(label: str) -> Iterator[str]:
    """Yield the label once, then empty labels for the rows below it."""
    yield label
    while True:
        yield ""


def _versions(report: dict[str, Any]) -> str:
    """Return the metadata versions of a process or a consumer as text."""
    # Versions 1 and 2 of the subscription do not carry the newest supported version.
    if report["supported"] is None:
        return f"version {report['used']}, cannot say what it supports"
    return f"version {report['used']}, supports {report['supported']}"


def _consumer(process: dict[str, Any], consumer: dict[str, Any]) -> str:
    """Return a Streams consumer's client id, host and instance id as text.

    Also its metadata versions, if they differ from those of its process.
    """
    instance = f", instance {consumer['instance']}" if consumer["instance"] else ""
    same = all(consumer[key] == process[key] for key in ("used", "supported"))
    version = "" if same or consumer["used"] is None else f", {_versions(consumer)}"
    return f"{consumer['client']} at {consumer['host'].removeprefix('/')}{instance}{version}"


def _problems(process: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each problem of a Streams process's consumers.

    Each sentence begins with the client id if the process has several consumers.
    """
    for consumer in process["consumers"]:
        whose = f"{consumer['client']}: " if len(process["consumers"]) > 1 else ""
        yield from (f"{whose}{problem}" for problem in consumer["unread"])
        if consumer["asks"] == "SHUTDOWN_REQUESTED":
            yield f"{whose}it asks the whole application to shut down"
        elif consumer["asks"]:
            yield f"{whose}it says error {consumer['asks']}"
        if consumer["error"]:
            meaning = ERRORS.get(consumer["error"], "an error that is not known here")
            yield f"{whose}it was told {consumer['error']}: {meaning}"


def _lag(process: dict[str, Any]) -> str:
    """Return the lag of a Streams process, and of each task that lags, as text."""
    behind = [f"{each['task']} {each['lag']}" for each in process["active"] if each["lag"]]
    unknown = [each["task"] for each in process["active"] if each["lag"] is None]
    lost = (
        f"{row['topic']}-{row['partition']} {note}"
        for each in process["active"]
        for row in each["partitions"]
        if (note := out_of_range_note(row))
    )
    parts = [*behind, *([f"not known of {' '.join(unknown)}"] if unknown else []), *lost]
    total = "not known" if process["lag"] is None else str(process["lag"])
    return f"{total} ({', '.join(parts)})" if parts else total


def _standby_task(task: dict[str, Any]) -> str:
    """Return a standby or warm-up task, with the position that its process reported."""
    offset_sum = task["offset_sum_at_join"]
    return (
        task["task"] if offset_sum is None else f"{task['task']} (at {offset_sum} when it joined)"
    )
