"""Boxes and arrows as SVG, for the drawings of docs/diagrams."""

from collections.abc import Iterable
from html import escape
from math import hypot
from typing import NamedTuple

INK, PAPER, FILL, LINE, FAINT = "#1f2937", "#ffffff", "#eef2ff", "#4f46e5", "#94a3b8"
FONT = "font-family='system-ui, sans-serif'"
ARROW = (
    "<marker id='arrow' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' markerHeight='7' "
    f"orient='auto-start-reverse'><path d='M0 0L10 5L0 10z' fill='{LINE}'/></marker>"
)


class Box(NamedTuple):
    """A rectangle with a title and a smaller line below it.

    x, y: its centre. All in pixels.
    """

    x: float
    y: float
    width: float
    height: float
    title: str
    line: str = ""


def drawing(width: float, height: float, parts: Iterable[str]) -> str:
    """Return the whole picture."""
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' "
        f"width='{width:g}' height='{height:g}'>"
    )
    ground = f"<rect width='{width:g}' height='{height:g}' rx='8' fill='{PAPER}'/>"
    return "\n".join((head, f"<defs>{ARROW}</defs>", ground, *parts, "</svg>\n"))


def box(shape: Box, fill: str = FILL) -> str:
    """Return a box with its text."""
    left, top = shape.x - shape.width / 2, shape.y - shape.height / 2
    frame = (
        f"<rect x='{left:g}' y='{top:g}' width='{shape.width:g}' height='{shape.height:g}' "
        f"rx='6' fill='{fill}' stroke='{INK}'/>"
    )
    if not shape.line:
        return frame + text(shape.x, shape.y + 5, shape.title, 14, bold=True)
    return (
        frame
        + text(shape.x, shape.y - 4, shape.title, 14, bold=True)
        + text(shape.x, shape.y + 14, shape.line, 11)
    )


def frame(left: float, top: float, width: float, height: float) -> str:
    """Return a dashed frame around boxes."""
    return (
        f"<rect x='{left:g}' y='{top:g}' width='{width:g}' height='{height:g}' rx='10' fill='none' "
        f"stroke='{FAINT}' stroke-dasharray='6 4'/>"
    )


def text(
    x: float, y: float, words: str, size: int, *, bold: bool = False, anchor: str = "middle"
) -> str:
    """Return a line of text; y is its base line."""
    weight = " font-weight='600'" if bold else ""
    return (
        f"<text x='{x:g}' y='{y:g}' font-size='{size}' {FONT} text-anchor='{anchor}'{weight} "
        f"fill='{INK}'>{escape(words)}</text>"
    )


def arrow(start: Box, end: Box, bend: float = 0) -> str:
    """Return an arrow from border to border.

    bend: the distance of its middle from the straight line, to the left, in pixels.
    """
    across, down = end.x - start.x, end.y - start.y
    length = hypot(across, down)
    middle = (
        (start.x + end.x) / 2 + bend * down / length,
        (start.y + end.y) / 2 - bend * across / length,
    )
    (x1, y1), (x2, y2) = _border(start, middle), _border(end, middle)
    return (
        f"<path d='M{x1:.1f} {y1:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {x2:.1f} {y2:.1f}' "
        "fill='none' "
        f"stroke='{LINE}' stroke-width='1.5' marker-end='url(#arrow)'/>"
    )


def _border(shape: Box, toward: tuple[float, float]) -> tuple[float, float]:
    """Return where the line from the middle of a box leaves it."""
    across, down = toward[0] - shape.x, toward[1] - shape.y
    scale = min(
        (shape.width / 2 + 3) / abs(across) if across else float("inf"),
        (shape.height / 2 + 3) / abs(down) if down else float("inf"),
    )
    return shape.x + across * scale, shape.y + down * scale
