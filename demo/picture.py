"""The picture of a run as SVG: who owned which partition when, and each change of the membership.

A row for each partition, time to the right, a colour for each owner, a vertical line for each
member that joins, leaves or is lost.
"""

from collections.abc import Sequence
from html import escape

from demo.timeline import Event, OwnershipPeriod

# Colour-blind people can tell them apart, too.
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377")
NO_OWNER = "#e8e8e8"
LEFT_MARGIN, TOP_MARGIN, WIDTH, ROW_HEIGHT, LABEL_HEIGHT = 96, 58, 1000, 24, 15
CAUSE_WORDS = {"session": "host lost", "join": "joins", "leave": "leaves", "worker": "lost"}


def colours_by_member(members: Sequence[str]) -> dict[str, str]:
    """Return a colour for each member, in their order."""
    return {member: COLOURS[index % len(COLOURS)] for index, member in enumerate(members)}


def ownership_svg(
    periods: Sequence[OwnershipPeriod],
    rebalances: Sequence[Event],
    partitions: int,
    end_ms: int,
    title: str,
    members: Sequence[str] = (),
) -> str:
    """Return the SVG document of a run.

    members: their order in the legend; without any, the order in which they became owners.
    """
    owners = list(members) or list(
        dict.fromkeys(period.owner for period in periods if period.owner)
    )
    colour = colours_by_member(owners)
    lines = _label_lines(rebalances, end_ms)
    top = TOP_MARGIN + LABEL_HEIGHT * (max(lines, default=0) + 1)
    bottom = top + partitions * ROW_HEIGHT
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {LEFT_MARGIN + WIDTH + 40} {bottom + 70}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{LEFT_MARGIN}" y="28" '
        f'font-size="17">{escape(title)}</text>',
    ]
    for partition in range(partitions):
        elements.append(
            f'<text x="{LEFT_MARGIN - 10}" y="{top + partition * ROW_HEIGHT + 16}" '
            f'text-anchor="end">partition {partition}</text>'
        )
    for period in periods:
        x, width = (
            _x(period.from_ms, end_ms),
            max(0.5, _x(period.to_ms, end_ms) - _x(period.from_ms, end_ms)),
        )
        label = (
            f"partition {period.partition}: {period.owner or 'nobody'}, "
            f"{(period.to_ms - period.from_ms) / 1000:.1f} s"
        )
        elements.append(
            f'<rect x="{x:.1f}" y="{top + period.partition * ROW_HEIGHT + 2}" width="{width:.1f}" '
            f'height="{ROW_HEIGHT - 4}"'
            f' fill="{colour.get(period.owner or "", NO_OWNER)}">'
            f"<title>{escape(label)}</title></rect>"
        )
    for event, line in zip(rebalances, lines, strict=True):
        elements += _event_line(event, end_ms, TOP_MARGIN + LABEL_HEIGHT * line, bottom)
    for second in range(0, end_ms // 1000 + 1, _step_s(end_ms)):
        x = _x(second * 1000, end_ms)
        elements.append(f'<path d="M{x:.1f} {bottom}v5" stroke="#888"/>')
        elements.append(
            f'<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle" '
            f'fill="#666">{second} s</text>'
        )
    for index, name in enumerate([*owners, "nobody"]):
        x = LEFT_MARGIN + index * 130
        elements.append(
            f'<rect x="{x}" y="{bottom + 38}" width="14" height="14" '
            f'fill="{colour.get(name, NO_OWNER)}"/>'
        )
        elements.append(f'<text x="{x + 20}" y="{bottom + 50}">{escape(name)}</text>')
    return "\n".join([*elements, "</svg>", ""])


def _x(at_ms: int, end_ms: int) -> float:
    return LEFT_MARGIN + WIDTH * at_ms / max(1, end_ms)


def _step_s(end_ms: int) -> int:
    """Return the seconds between two marks of the time axis, for about ten marks."""
    return next((step for step in (1, 2, 5, 10, 20, 30, 60) if end_ms <= step * 12_000), 120)


def _label(event: Event) -> str:
    lost = event.cause == "session" and event.converged_ms is not None
    delay = f", taken over after {(event.converged_ms or 0) / 1000:.1f} s" if lost else ""
    return f"{event.member} {CAUSE_WORDS[event.cause]}{delay}"


def _label_lines(rebalances: Sequence[Event], end_ms: int) -> list[int]:
    """Return the line of text for each label, so that none covers another."""
    label_ends: list[float] = []  # where the last label of each line ends
    lines = []
    for event in rebalances:
        start, end = _extent(event, end_ms)
        line = next(
            (line for line, end_of_label in enumerate(label_ends) if end_of_label < start),
            len(label_ends),
        )
        label_ends[line : line + 1] = [end]
        lines.append(line)
    return lines


def _extent(event: Event, end_ms: int) -> tuple[float, float]:
    """Return where the label begins and ends: right of its event, or left of it near the edge."""
    x, width = _x(event.at_ms, end_ms), 6.2 * len(_label(event)) + 8
    return (x, x + width) if x + width < LEFT_MARGIN + WIDTH + 36 else (x - width, x)


def _event_line(event: Event, end_ms: int, y: int, bottom: int) -> list[str]:
    x, (start, _) = _x(event.at_ms, end_ms), _extent(event, end_ms)
    anchor = f'x="{x + 4:.1f}"' if start == x else f'x="{x - 4:.1f}" text-anchor="end"'
    colour = "#cc0000" if event.cause in ("session", "worker") else "#444"
    return [
        f'<path d="M{x:.1f} {y - 9}V{bottom}" stroke="{colour}" stroke-dasharray="3 3"/>',
        f'<text {anchor} y="{y}" font-size="11" fill="{colour}">{escape(_label(event))}</text>',
    ]
