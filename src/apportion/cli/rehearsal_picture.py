"""The picture of `apportion streams rehearse --picture`: the instances over time, as SVG.

Each instance is a row, with time from left to right; the colour is the release that the instance
runs as, the height the number of its tasks. Below the rows is the metadata version of the group,
above them the steps.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from apportion.sim.streams.cluster import InstanceChange
from apportion.sim.streams.play import RehearsalResult

# told apart by colour-blind eyes too
COLOURS = ("#4477aa", "#ccbb44", "#228833", "#aa3377", "#66ccee", "#ee6677")
VERSIONS = ("#dddddd", "#bbbbbb", "#888888", "#555555")
PALE = 0.22
LEFT, TOP, WIDTH, ROW, STRIP, BELOW = 84, 84, 1000, 34, 26, 96


class InstanceSpan(NamedTuple):
    """A time in which an instance ran as `label`, "" while it was down, with that many tasks."""

    from_ms: int
    to_ms: int
    label: str
    tasks: int


class _Axis(NamedTuple):
    from_ms: int
    to_ms: int

    def x(self, at_ms: int) -> float:
        """Return the horizontal position of that time."""
        return LEFT + WIDTH * (max(at_ms, self.from_ms) - self.from_ms) / max(
            1, self.to_ms - self.from_ms
        )

    def seconds(self) -> Iterator[int]:
        """Return about ten round times, in seconds after the beginning, for the ticks."""
        span_s = (self.to_ms - self.from_ms) // 1000
        step_s = next((step for step in (1, 2, 5, 10, 20, 30, 60, 120) if span_s <= step * 12), 300)
        return iter(range(0, span_s + 1, step_s))


def upgrade_svg(rehearsed: RehearsalResult) -> str:
    """Return the picture of a rehearsal as an SVG document."""
    names = [f"app{number + 1}" for number in range(rehearsed.rehearsal.instances)]
    first_ms = rehearsed.steps[0].at_ms if rehearsed.steps else 0
    axis = _Axis(max(0, first_ms - 4_000), rehearsed.simulated_ms)
    rows = {
        name: instance_spans(
            [point for point in rehearsed.instance_changes if point.instance == name], axis.to_ms
        )
        for name in names
    }
    labels = list(
        dict.fromkeys(str(point.runs_as) for point in rehearsed.instance_changes if point.runs_as)
    )
    colour = {label: COLOURS[number % len(COLOURS)] for number, label in enumerate(labels)}
    most = max(
        [1, *(span.tasks for row in rows.values() for span in row if span.to_ms > axis.from_ms)]
    )
    bottom = TOP + ROW * len(names)
    parts = [*_frame(rehearsed, bottom)]
    for number, (name, row) in enumerate(rows.items()):
        y = TOP + ROW * number
        parts.append(
            f'<text x="{LEFT - 12}" y="{y + ROW / 2 + 4}" text-anchor="end">{escape(name)}</text>'
        )
        for span in row:
            parts += _span_svg(span, axis, y, colour=colour.get(span.label, "none"), most=most)
    parts += _steps(rehearsed, axis, bottom)
    parts += _versions(rehearsed, axis, bottom + 10)
    parts += _time(axis, bottom + 10 + STRIP)
    parts += _legend(colour, bottom + STRIP + 62)
    return "\n".join([*parts, "</svg>", ""])


def instance_spans(points: Sequence[InstanceChange], end_ms: int) -> list[InstanceSpan]:
    """Return an instance's spans for the picture, without a gap from first change to end."""
    ends = [*(point.at_ms for point in points[1:]), end_ms]
    all_spans = [
        InstanceSpan(p.at_ms, end, str(p.runs_as) if p.runs_as else "", p.tasks)
        for p, end in zip(points, ends, strict=True)
    ]
    return [span for span in all_spans if span.to_ms > span.from_ms]


def _frame(rehearsed: RehearsalResult, bottom: int) -> list[str]:
    """Return the SVG elements of the frame: the root, which stays open, background and titles."""
    rehearsal = rehearsed.rehearsal
    way = rehearsal.upgrade
    many = "one rolling bounce" if len(way.bounces) == 1 else "two rolling bounces"
    bridge = f" by way of {way.bridge}" if way.bridge else ""
    longest = (
        f"no task without an owner for longer than {rehearsed.longest_unowned_ms / 1000:.1f} s"
    )
    end = (
        longest
        if rehearsed.held
        else f"broken: {rehearsed.broken.why if rehearsed.broken else 'instances died'}"
    )
    threads = f" with {rehearsal.threads} threads each" if rehearsal.threads > 1 else ""
    size = f"{rehearsal.instances} instances{threads}, {2 * rehearsal.partitions} tasks"
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 40} '
        f'{bottom + STRIP + BELOW}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="17">Kafka Streams from {rehearsal.from_} to '
        f"{rehearsal.to}: {many}{bridge}</text>",
        f'<text x="{LEFT}" y="46" fill="#666">{size}; {escape(end)}</text>',
    ]


def _span_svg(span: InstanceSpan, axis: _Axis, y: int, *, colour: str, most: int) -> list[str]:
    """Return the SVG shapes of a span, a time in which an instance ran as one release.

    A pale bar of the whole row shows that the instance runs, a solid one the number of its tasks.
    """
    x, width = axis.x(span.from_ms), axis.x(span.to_ms) - axis.x(span.from_ms)
    if not span.label or width <= 0:
        return []
    height = (ROW - 6) * span.tasks / most
    title = f"{span.label}: {span.tasks} tasks for {(span.to_ms - span.from_ms) / 1000:.1f} s"
    return [
        f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" '
        f'fill="{colour}" fill-opacity="{PALE}"/>',
        f'<rect x="{x:.1f}" y="{y + ROW - 3 - height:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" fill="{colour}">'
        f"<title>{escape(title)}</title></rect>",
    ]


def _steps(rehearsed: RehearsalResult, axis: _Axis, bottom: int) -> Iterator[str]:
    """Yield SVG lines at the steps of the rolling bounces, with their numbers and crashes."""
    for step in rehearsed.steps:
        x, mark = axis.x(step.at_ms), f"{step.number}{' leader' if step.led else ''}"
        yield (
            f'<path d="M{x:.1f} {TOP - 8}V{bottom + 10 + STRIP}" stroke="#444" '
            'stroke-dasharray="2 4" stroke-width="0.8"/>'
        )
        yield (
            f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle" font-size="11" '
            f'fill="#444">{mark}</text>'
        )
        if step.crashed:
            yield (
                f'<text x="{x + 6:.1f}" y="{bottom + 6}" font-size="10" '
                f'fill="#cc0000">{escape(step.crashed)} crashes</text>'
            )


def _versions(rehearsed: RehearsalResult, axis: _Axis, y: int) -> Iterator[str]:
    """Yield the SVG strip of metadata versions: of the newest assignment that an instance has."""
    changes = [(axis.from_ms, rehearsed.version_before)]
    for point in rehearsed.instance_changes:
        if (
            point.at_ms > axis.from_ms
            and point.version not in (-1, changes[-1][1])
            and point.version >= changes[-1][1]
        ):
            changes.append((point.at_ms, point.version))
    ends = [*(at_ms for at_ms, _ in changes[1:]), axis.to_ms]
    shade = {
        version: VERSIONS[min(number, len(VERSIONS) - 1)]
        for number, (_, version) in enumerate(changes)
    }
    yield (
        f'<text x="{LEFT - 12}" y="{y + STRIP / 2 + 4}" text-anchor="end" '
        'fill="#666">version</text>'
    )
    for (at_ms, version), end_ms in zip(changes, ends, strict=True):
        x, width = axis.x(at_ms), axis.x(end_ms) - axis.x(at_ms)
        ink = "white" if shade[version] in VERSIONS[2:] else "#222"
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{STRIP}" '
            f'fill="{shade[version]}"/>'
        )
        yield f'<text x="{x + 6:.1f}" y="{y + STRIP / 2 + 4}" fill="{ink}">{version}</text>'


def _time(axis: _Axis, y: int) -> Iterator[str]:
    """Yield the SVG elements of the time axis: a tick and a label for each second shown."""
    for second in axis.seconds():
        x = axis.x(axis.from_ms + second * 1000)
        yield f'<path d="M{x:.1f} {y}v5" stroke="#888"/>'
        yield f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle" fill="#666">{second} s</text>'


def _legend(colour: dict[str, str], y: int) -> Iterator[str]:
    """Yield the SVG legend: the colours of the releases, and the meaning of a bar's height."""
    x = float(LEFT)
    for label, fill in colour.items():
        yield f'<rect x="{x:.0f}" y="{y - 11}" width="14" height="14" fill="{fill}"/>'
        yield f'<text x="{x + 20:.0f}" y="{y}">{escape(label)}</text>'
        x += 44 + 6.6 * len(label)
    yield (
        f'<text x="{x:.0f}" y="{y}" fill="#666">height: tasks that it runs; white: it is '
        "away</text>"
    )
