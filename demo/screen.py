"""What the viewer sees: on a terminal a live view of all partitions, elsewhere a line at times."""

from bisect import bisect_right
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.picture import colours_by_member
from demo.timeline import Sample

LINE_EVERY_MS = 5_000
MAX_NEWS_LINES, OTHER_LINES = 6, 21  # lines for the latest news, and for all else
MIN_CELL_MS = 500
NO_OWNER = "·"


class Scene(NamedTuple):
    """Everything that is shown at one moment.

    members: the applications in the order in which they started. samples: all since the start.
    """

    at_ms: int
    title: str
    activity: str
    total: int
    produced: int
    members: Sequence[str]
    samples: Sequence[Sample]
    lost_at_ms: dict[str, int]
    partitions: int
    memory_mb: int


def clock(at_ms: int) -> str:
    """Return minutes and seconds since the start, as text."""
    return f"{at_ms // 60_000}:{at_ms // 1000 % 60:02}"


class PlainLines:
    """The view without a terminal: a line for each report, and the figures every five seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_ms = 0

    def __enter__(self) -> "PlainLines":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def report(self, at_ms: int, text: str) -> None:
        """Print the report at once."""
        print(f"{clock(at_ms)}  {text}", file=self._stream, flush=True)

    def show(self, scene: Scene) -> None:
        """Print the figures, if five seconds have passed since the last time."""
        if scene.at_ms >= self._next_ms and scene.produced:
            self._next_ms = scene.at_ms + LINE_EVERY_MS
            print(
                f"{clock(scene.at_ms)}    {figures(scene)} | {shares(scene)}",
                file=self._stream,
                flush=True,
            )


def figures(scene: Scene) -> str:
    """Return the numbers of rows and the memory in words."""
    latest = scene.samples[-1]
    rows = (
        f"produced {scene.produced:,} of {scene.total:,} | written {latest.written:,} | lag "
        f"{latest.lag:,}"
    )
    return f"{rows} | memory {scene.memory_mb:,} MB"


def shares(scene: Scene) -> str:
    """Return in words how many partitions each member owns."""
    latest = scene.samples[-1]
    owned = [
        (member, len(latest.owned_by(member)))
        for member in scene.members
        if member in latest.members
    ]
    return (
        ", ".join(f"{member} owns {count}" for member, count in owned) or "nobody owns a partition"
    )


class LiveView:
    """The view on a terminal: a row for each partition, the figures, and the latest reports."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._reports: list[Text] = []

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the live view; only the reports stay on the terminal."""
        self._live.stop()
        for line in self._reports:
            self._console.print(line)

    def report(self, at_ms: int, text: str) -> None:
        """Add a report, which the next `show` shows."""
        self._reports.append(Text.assemble((f"{clock(at_ms)}  ", "dim"), text))

    def show(self, scene: Scene) -> None:
        """Redraw the terminal."""
        self._live.update(self._render(scene), refresh=True)

    def _render(self, scene: Scene) -> Group:
        width = self._console.width
        heading = Text.assemble(
            (f" {clock(scene.at_ms)}  ", "bold reverse"), " ", (scene.title, "bold")
        )
        return Group(
            heading,
            Text(f" {scene.activity}", style="italic", overflow="ellipsis", no_wrap=True),
            Text(),
            partition_table(scene, width),
            Text(),
            Text.assemble(" ", progress(scene, width - 2)),
            Text(f" {figures(scene)}", overflow="ellipsis", no_wrap=True),
            Text(),
            *self._reports[-max(1, min(MAX_NEWS_LINES, self._console.height - OTHER_LINES)) :],
        )


def partition_table(scene: Scene, width: int) -> Table:
    """Return a table with number, owner, lag and all owners since the start of each partition."""
    colour = colours_by_member(scene.members)
    latest = scene.samples[-1]
    table = Table(box=None, padding=(0, 1), pad_edge=True, show_header=True, header_style="dim")
    table.add_column("partition", justify="right")
    table.add_column("owner", min_width=6)
    table.add_column("lag", justify="right", min_width=6)
    table.add_column(f"owners since 0:00, until now at {clock(scene.at_ms)}", no_wrap=True)
    cells = max(10, width - 31)
    for partition in range(scene.partitions):
        owner = owner_at(scene, partition, latest)
        lag = latest.ends.get(partition, 0) - latest.committed.get(partition, 0)
        name = Text(owner or "nobody", style=colour.get(owner or "", "dim"))
        table.add_row(str(partition), name, f"{lag:,}", strip(scene, partition, cells))
    return table


def strip(scene: Scene, partition: int, cells: int) -> Text:
    """Return the owners of a partition from the start until now, as a strip of coloured cells."""
    colour = colours_by_member(scene.members)
    # The time of a cell changes only in whole steps, so that the strip rarely moves as it grows.
    cell_ms = MIN_CELL_MS * (scene.at_ms // MIN_CELL_MS // cells + 1)
    cells_drawn = Text()
    for at_ms in range(cell_ms, scene.at_ms + 1, cell_ms):
        sample = scene.samples[
            bisect_right(scene.samples, at_ms, key=lambda sample: sample.at_ms) - 1
        ]
        owner = owner_at(scene, partition, sample)
        cells_drawn.append("█" if owner else NO_OWNER, style=colour.get(owner or "", "dim"))
    return cells_drawn


def owner_at(scene: Scene, partition: int, sample: Sample) -> str | None:
    """Return the owner of the partition in this sample, None without one.

    A lost host owns nothing, though it is in the group until its session times out.
    """
    owner = sample.owners.get(partition)
    return None if owner in scene.lost_at_ms and sample.at_ms >= scene.lost_at_ms[owner] else owner


def progress(scene: Scene, width: int) -> Text:
    """Return a bar of the rows that are written, that are only produced, and that are to come."""
    latest = scene.samples[-1]
    written = width * latest.written // scene.total
    produced = max(written, width * scene.produced // scene.total)
    return Text.assemble(
        ("━" * written, "green"),
        ("━" * (produced - written), "yellow"),
        ("─" * (width - produced), "dim"),
    )


def screen(stream: TextIO) -> LiveView | PlainLines:
    """Return the live view if `stream` is a terminal, plain lines otherwise."""
    console = Console(file=stream)
    return (
        LiveView(console)
        if console.is_terminal and not console.is_dumb_terminal
        else PlainLines(stream)
    )
