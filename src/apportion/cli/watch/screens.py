"""The forms of `apportion watch`: a live screen, plain lines, and lines of JSON."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from apportion.cli.asked import Report
from apportion.cli.groups.describing import lag_words, owner_words, title
from apportion.cli.groups.report import totals
from apportion.cli.short_names import least_width, shortened_or_none
from apportion.cli.tables import Column, Kind, lay_out
from apportion.readable import readable
from apportion.topics import grouped, ranges

SHOWN_CHANGES = 12
SHORT_NAME_WIDTH = 24
LEAST_ROWS = 4
OTHER_LINES = 7  # title, heading, partitions without an owner, and room below
QUIET = "nothing has changed yet"
COLUMNS = (
    Column("MEMBER", Kind.NAME),
    Column("CLIENT", Kind.NAME, is_optional=True),
    Column("LAG", Kind.NUMBER),
    Column("OWNS", Kind.LIST),
)


class Watcher(Protocol):
    """A place where refreshes are shown."""

    def names(self, report: Report) -> Callable[[str], str]:
        """Return how members are called, by id, in sentences about changes."""
        ...

    def show(self, report: Report, changes: Sequence[str]) -> None:
        """Show a report, and what has changed since the last one."""
        ...

    def fail(self, why: str) -> None:
        """Show that a refresh has failed."""
        ...

    def close(self) -> None:
        """Leave the last report where it is."""
        ...


class JsonLines:
    """Each refresh is one line: the report, with the time and the changes."""

    def names(self, _report: Report) -> Callable[[str], str]:
        """Return the whole id of each member."""
        return str

    def show(self, report: Report, changes: Sequence[str]) -> None:
        """Print the report in one line."""
        time = datetime.now().astimezone().isoformat(timespec="milliseconds")
        print(json.dumps({"time": time, **report, "changes": [*changes]}), flush=True)

    def fail(self, why: str) -> None:
        """Print the failure in one line."""
        time = datetime.now().astimezone().isoformat(timespec="milliseconds")
        print(json.dumps({"time": time, "failure": why}), flush=True)

    def close(self) -> None:
        """Do nothing: every line is out."""


class PlainLines:
    """A line for each change, and one for the group whenever its state or its lag is another."""

    def __init__(self) -> None:
        """Have shown nothing yet."""
        self._status = self._failure = ""

    def names(self, _report: Report) -> Callable[[str], str]:
        """Return the whole id of each member."""
        return str

    def show(self, report: Report, changes: Sequence[str]) -> None:
        """Print what is new."""
        self._failure = ""
        for change in changes:
            _print_line(change)
        status = _status(report)
        if status != self._status:
            _print_line(status)
        self._status = status

    def fail(self, why: str) -> None:
        """Print the failure, unless the refresh before has failed in the same way."""
        if why != self._failure:
            _print_line(why)
        self._failure = why

    def close(self) -> None:
        """Do nothing: every line is out."""


def _print_line(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {readable(text)}", flush=True)


def _status(report: Report) -> str:
    count = len(report["members"])
    epoch = [f"epoch {report['epoch']}"] if "epoch" in report else []
    members = f"{count} member{'' if count == 1 else 's'}"
    return ", ".join([report["state"], *epoch, members, *lag_words(report), *owner_words(report)])


class Screen:
    """A terminal's screen: the group, its members with lag and partitions, the last changes."""

    def __init__(self, console: Console) -> None:
        """Begin to draw on the console."""
        self._console = console
        self._changes: deque[str] = deque(maxlen=SHOWN_CHANGES)
        self._report: Report | None = None
        self._failure = ""
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def names(self, report: Report) -> Callable[[str], str]:
        """Return long ids shortened to what tells each from the members of the group."""
        members = [member["member"] for member in report["members"]]

        def name(member_id: str) -> str:
            ids = [*members, member_id]
            width = max(SHORT_NAME_WIDTH, least_width(ids))
            return (shortened_or_none(ids, width) or {}).get(member_id, member_id)

        return name

    def show(self, report: Report, changes: Sequence[str]) -> None:
        """Draw the report, and the last changes under it, the newest first."""
        self._report, self._failure = report, ""
        self._add(changes)

    def fail(self, why: str) -> None:
        """Draw the failure above the last report, which stays, and among the changes once.

        Before the first report there is nothing else to draw.
        """
        is_news, self._failure = why != self._failure, why
        self._add([why] if is_news else [])
        if self._report is None:
            self._live.update(Text(readable(why)), refresh=True)

    def close(self) -> None:
        """Stop drawing; the last screen stays."""
        self._live.stop()

    def _add(self, changes: Sequence[str]) -> None:
        now = f"{datetime.now():%H:%M:%S}"
        self._changes.extendleft(f"{now} {readable(change)}" for change in changes)
        if self._report is not None:
            self._live.update(self._drawing(self._report), refresh=True)

    def _drawing(self, report: Report) -> Group:
        rows = [_member_row(report, member) for member in report["members"]]
        layout = lay_out(COLUMNS, rows, self._console.width)
        heading, *lines = layout.lines
        changes = [*self._changes] or [QUIET]
        # What is below the terminal's last line could not be seen, and the changes come last.
        most = max(LEAST_ROWS, self._console.height - len(changes) - OTHER_LINES)
        if len(lines) > most:
            lines = [*lines[: most - 1], f"... and {len(lines) - most + 1} lines more"]
        failures = [f"not up to date: {readable(self._failure)}"] if self._failure else []
        return Group(
            *(Text(each, style="bold red") for each in failures),
            Text(readable(title(report)), style="bold"),
            Text(heading, style="bold"),
            *map(Text, lines),
            *map(Text, _unowned(report)),
            Text(""),
            *map(Text, changes),
        )


def _member_row(report: Report, member: Report) -> list[object]:
    rows = [row for row in report["offsets"] if row["owner"] == member["member"]]
    owned = (f"{topic} {ranges(numbers)}" for topic, numbers in member["owns"].items())
    return [member["member"], member["client"], totals(rows)["lag"], "  ".join(owned)]


def _unowned(report: Report) -> list[str]:
    """Return a line about the partitions that nobody reads; none if there are no such."""
    unowned = grouped(
        (row["topic"], row["partition"]) for row in report["offsets"] if row["owner"] is None
    )
    if not unowned:
        return []
    partitions = ", ".join(f"{topic} {ranges(numbers)}" for topic, numbers in unowned.items())
    return [readable(f"without an owner: {partitions}")]
