"""The picture of a run: partitions down, time across, colour by owner; rebalances as lines with their cause."""

from collections.abc import Sequence
from html import escape

from demo.timeline import Event, Spell

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
NOBODY = "#f0f0f0"
LEFT, TOP, WIDTH, ROW, LEGEND = 90, 60, 1000, 24, 60


def ownership_svg(owned: Sequence[Spell], rebalances: Sequence[Event], partitions: int, end_ms: int, title: str) -> str:
    """An SVG document; every owner has one colour, a partition without owner is pale."""
    owners = list(dict.fromkeys(spell.owner for spell in owned if spell.owner))
    colour = {owner: COLOURS[index % len(COLOURS)] for index, owner in enumerate(owners)}
    height = TOP + partitions * ROW + LEGEND + 30

    def across(at_ms: int) -> float:
        return LEFT + WIDTH * at_ms / max(1, end_ms)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 30} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{LEFT}" y="22" font-size="16">{escape(title)}</text>',
    ]
    for partition in range(partitions):
        parts.append(f'<text x="{LEFT - 8}" y="{TOP + partition * ROW + 16}" text-anchor="end">partition {partition}</text>')
    for spell in owned:
        x, width = across(spell.from_ms), max(0.5, across(spell.to_ms) - across(spell.from_ms))
        y = TOP + spell.partition * ROW + 2
        fill = colour.get(spell.owner or "", NOBODY)
        label = f"partition {spell.partition}: {spell.owner or 'nobody'}, {(spell.to_ms - spell.from_ms) / 1000:.1f} s"
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 4}" fill="{fill}"><title>{escape(label)}</title></rect>'
        )
    for event in rebalances:
        x = across(event.at_ms)
        words = {"session": "host lost", "join": "joins", "leave": "leaves"}[event.cause]
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{TOP + partitions * ROW}" stroke="#333" stroke-dasharray="3 3"/>'
        )
        parts.append(f'<text x="{x + 3:.1f}" y="{TOP - 10}" font-size="10">{escape(event.member)} {words}</text>')
    for second in range(0, end_ms // 1000 + 1, 20):
        x = across(second * 1000)
        parts.append(f'<text x="{x:.1f}" y="{TOP + partitions * ROW + 16}" text-anchor="middle" fill="#666">{second} s</text>')
    for index, name in enumerate([*owners, "nobody"]):
        x, y = LEFT + index * 170, TOP + partitions * ROW + 34
        parts.append(f'<rect x="{x}" y="{y}" width="14" height="14" fill="{colour.get(name, NOBODY)}" stroke="#999"/>')
        parts.append(f'<text x="{x + 20}" y="{y + 12}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
