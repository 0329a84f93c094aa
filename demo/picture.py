"""The picture of a run: partitions down, time across, colour by owner; changes of the membership as
lines with their cause.
"""

from collections.abc import Sequence
from html import escape

from demo.timeline import Event, Spell

# told apart by colour-blind eyes too
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377")
NOBODY = "#e8e8e8"
LEFT, TOP, WIDTH, ROW, LABEL = 96, 58, 1000, 24, 15
WORDS = {"session": "host lost", "join": "joins", "leave": "leaves"}


def colours(members: Sequence[str]) -> dict[str, str]:
    """A colour for each member, in their order."""
    return {member: COLOURS[index % len(COLOURS)] for index, member in enumerate(members)}


def ownership_svg(
    owned: Sequence[Spell],
    rebalances: Sequence[Event],
    partitions: int,
    end_ms: int,
    title: str,
    members: Sequence[str] = (),
) -> str:
    """An SVG document; every owner has one colour, a partition without owner is pale. members:
    their order; else as they appear.
    """
    owners = list(members) or list(dict.fromkeys(spell.owner for spell in owned if spell.owner))
    colour = colours(owners)
    levels = _levels(rebalances, end_ms)
    top = TOP + LABEL * (max(levels, default=0) + 1)
    bottom = top + partitions * ROW
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 40} {bottom + 70}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{LEFT}" y="28" '
        f'font-size="17">{escape(title)}</text>',
    ]
    for partition in range(partitions):
        drawn.append(
            f'<text x="{LEFT - 10}" y="{top + partition * ROW + 16}" '
            f'text-anchor="end">partition {partition}</text>'
        )
    for spell in owned:
        x, width = (
            _x(spell.from_ms, end_ms),
            max(0.5, _x(spell.to_ms, end_ms) - _x(spell.from_ms, end_ms)),
        )
        label = (
            f"partition {spell.partition}: {spell.owner or 'nobody'}, "
            f"{(spell.to_ms - spell.from_ms) / 1000:.1f} s"
        )
        drawn.append(
            f'<rect x="{x:.1f}" y="{top + spell.partition * ROW + 2}" width="{width:.1f}" '
            f'height="{ROW - 4}"'
            f' fill="{colour.get(spell.owner or "", NOBODY)}"><title>{escape(label)}</title></rect>'
        )
    for event, level in zip(rebalances, levels, strict=True):
        drawn += _marked(event, end_ms, TOP + LABEL * level, bottom)
    for second in range(0, end_ms // 1000 + 1, _step_s(end_ms)):
        x = _x(second * 1000, end_ms)
        drawn.append(f'<path d="M{x:.1f} {bottom}v5" stroke="#888"/>')
        drawn.append(
            f'<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle" '
            f'fill="#666">{second} s</text>'
        )
    for index, name in enumerate([*owners, "nobody"]):
        x = LEFT + index * 130
        drawn.append(
            f'<rect x="{x}" y="{bottom + 38}" width="14" height="14" '
            f'fill="{colour.get(name, NOBODY)}"/>'
        )
        drawn.append(f'<text x="{x + 20}" y="{bottom + 50}">{escape(name)}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def _x(at_ms: int, end_ms: int) -> float:
    return LEFT + WIDTH * at_ms / max(1, end_ms)


def _step_s(end_ms: int) -> int:
    """Seconds between two marks of the time axis: about ten marks."""
    return next((step for step in (1, 2, 5, 10, 20, 30, 60) if end_ms <= step * 12_000), 120)


def _label(event: Event) -> str:
    lost = event.cause == "session" and event.converged_ms is not None
    cost = f", taken over after {(event.converged_ms or 0) / 1000:.1f} s" if lost else ""
    return f"{event.member} {WORDS[event.cause]}{cost}"


def _levels(rebalances: Sequence[Event], end_ms: int) -> list[int]:
    """On which line each label stands, so that none covers another."""
    taken: list[float] = []  # where the last label of each line ends
    levels = []
    for event in rebalances:
        start, end = _extent(event, end_ms)
        level = next((level for level, free in enumerate(taken) if free < start), len(taken))
        taken[level : level + 1] = [end]
        levels.append(level)
    return levels


def _extent(event: Event, end_ms: int) -> tuple[float, float]:
    """Where the label begins and ends: right of its line, or left of it where the picture ends."""
    x, width = _x(event.at_ms, end_ms), 6.2 * len(_label(event)) + 8
    return (x, x + width) if x + width < LEFT + WIDTH + 36 else (x - width, x)


def _marked(event: Event, end_ms: int, y: int, bottom: int) -> list[str]:
    x, (start, _) = _x(event.at_ms, end_ms), _extent(event, end_ms)
    place = f'x="{x + 4:.1f}"' if start == x else f'x="{x - 4:.1f}" text-anchor="end"'
    colour = "#cc0000" if event.cause == "session" else "#444"
    return [
        f'<path d="M{x:.1f} {y - 9}V{bottom}" stroke="{colour}" stroke-dasharray="3 3"/>',
        f'<text {place} y="{y}" font-size="11" fill="{colour}">{escape(_label(event))}</text>',
    ]
