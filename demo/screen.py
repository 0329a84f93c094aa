"""What the viewer sees: on a terminal a live picture of who owns which partition, elsewhere one
plain line now and then.
"""

from bisect import bisect_right
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.picture import colours
from demo.timeline import Sample

LINE_EVERY_MS = 5_000
NEWS, REST = 6, 21  # lines for the latest news, and for all else
CELL_MS = 500
NOBODY = "·"


class Scene(NamedTuple):
    """All that is shown at one moment. members: the applications in the order in which they were
    started.
    """

    at_ms: int
    title: str
    doing: str
    total: int
    produced: int
    members: Sequence[str]
    samples: Sequence[Sample]
    died: dict[str, int]
    partitions: int
    memory_mb: int


def clock(at_ms: int) -> str:
    """Minutes and seconds since the start."""
    return f"{at_ms // 60_000}:{at_ms // 1000 % 60:02}"


class Lines:
    """One line for each piece of news, and one every five seconds with the figures."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_ms = 0

    def __enter__(self) -> "Lines":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def news(self, at_ms: int, text: str) -> None:
        """It is told at once."""
        print(f"{clock(at_ms)}  {text}", file=self._stream, flush=True)

    def show(self, scene: Scene) -> None:
        """The figures, if it is time for them."""
        if scene.at_ms >= self._next_ms and scene.produced:
            self._next_ms = scene.at_ms + LINE_EVERY_MS
            print(
                f"{clock(scene.at_ms)}    {figures(scene)} | {shares(scene)}",
                file=self._stream,
                flush=True,
            )


def figures(scene: Scene) -> str:
    """Rows and memory in words."""
    now = scene.samples[-1]
    rows = (
        f"produced {scene.produced:,} of {scene.total:,} | written {now.written:,} | lag "
        f"{now.lag:,}"
    )
    return f"{rows} | memory {scene.memory_mb:,} MB"


def shares(scene: Scene) -> str:
    """How many partitions each member owns."""
    now = scene.samples[-1]
    owned = [
        (member, len(now.owned_by(member))) for member in scene.members if member in now.members
    ]
    return (
        ", ".join(f"{member} owns {count}" for member, count in owned) or "nobody owns a partition"
    )


class Picture:
    """The live view: a row for each partition with its owner, its lag and its past; the figures;
    the latest news.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._news: list[Text] = []

    def __enter__(self) -> "Picture":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The news stay on the terminal, the rest is gone."""
        self._live.stop()
        for line in self._news:
            self._console.print(line)

    def news(self, at_ms: int, text: str) -> None:
        """It is among the latest news from the next `show` on."""
        self._news.append(Text.assemble((f"{clock(at_ms)}  ", "dim"), text))

    def show(self, scene: Scene) -> None:
        """The terminal shows this scene."""
        self._live.update(self._drawn(scene), refresh=True)

    def _drawn(self, scene: Scene) -> Group:
        width = self._console.width
        heading = Text.assemble(
            (f" {clock(scene.at_ms)}  ", "bold reverse"), " ", (scene.title, "bold")
        )
        return Group(
            heading,
            Text(f" {scene.doing}", style="italic", overflow="ellipsis", no_wrap=True),
            Text(),
            partition_table(scene, width),
            Text(),
            Text.assemble(" ", progress(scene, width - 2)),
            Text(f" {figures(scene)}", overflow="ellipsis", no_wrap=True),
            Text(),
            *self._news[-max(1, min(NEWS, self._console.height - REST)) :],
        )


def partition_table(scene: Scene, width: int) -> Table:
    """A row for each partition: number, owner, lag, and a strip of its owners since the start."""
    colour = colours(scene.members)
    now = scene.samples[-1]
    table = Table(box=None, padding=(0, 1), pad_edge=True, show_header=True, header_style="dim")
    table.add_column("partition", justify="right")
    table.add_column("owner", min_width=6)
    table.add_column("lag", justify="right", min_width=6)
    table.add_column(f"owners since 0:00, until now at {clock(scene.at_ms)}", no_wrap=True)
    cells = max(10, width - 31)
    for partition in range(scene.partitions):
        owner = owner_at(scene, partition, now)
        lag = now.ends.get(partition, 0) - now.committed.get(partition, 0)
        name = Text(owner or "nobody", style=colour.get(owner or "", "dim"))
        table.add_row(str(partition), name, f"{lag:,}", strip(scene, partition, cells))
    return table


def strip(scene: Scene, partition: int, cells: int) -> Text:
    """The owners of a partition from the start until now, each in its colour."""
    colour = colours(scene.members)
    # few widths of a cell, so that the past stands still
    cell_ms = CELL_MS * (scene.at_ms // CELL_MS // cells + 1)
    drawn = Text()
    for at_ms in range(cell_ms, scene.at_ms + 1, cell_ms):
        seen = scene.samples[
            bisect_right(scene.samples, at_ms, key=lambda sample: sample.at_ms) - 1
        ]
        owner = owner_at(scene, partition, seen)
        drawn.append("█" if owner else NOBODY, style=colour.get(owner or "", "dim"))
    return drawn


def owner_at(scene: Scene, partition: int, sample: Sample) -> str | None:
    """Who owned the partition then; a lost host owns nothing, whatever the coordinator still
    believes.
    """
    owner = sample.owners.get(partition)
    return None if owner in scene.died and sample.at_ms >= scene.died[owner] else owner


def progress(scene: Scene, width: int) -> Text:
    """A bar: what is written, what is produced and not yet written, what is still to come."""
    now = scene.samples[-1]
    written = width * now.written // scene.total
    produced = max(written, width * scene.produced // scene.total)
    return Text.assemble(
        ("━" * written, "green"),
        ("━" * (produced - written), "yellow"),
        ("─" * (width - produced), "dim"),
    )


def screen(stream: TextIO) -> Picture | Lines:
    """The live view if `stream` is a terminal, plain lines otherwise."""
    console = Console(file=stream)
    return (
        Picture(console) if console.is_terminal and not console.is_dumb_terminal else Lines(stream)
    )
