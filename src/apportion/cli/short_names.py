"""Names shortened to a width of a terminal, so that each still differs from all others.

Names of members, clients and topics often share a long beginning, and differ in their ends or in
the middle. So the shared beginning goes first, up to the last separator; then the shared end; and
then as much of the rest as no name needs to be told from the others.
"""

from collections.abc import Callable, Iterable, Iterator

CUT = "…"
LEAST_WIDTH = 8
SEPARATORS = "-_./:@ "


def shortened_or_none(names: Iterable[str], width: int) -> dict[str, str] | None:
    """Return each name in at most `width` characters; None if they would not all differ."""
    distinct = sorted({*names})
    for shorten in _ways(distinct, width):
        short = {name: shorten(name) for name in distinct}
        fits = all(len(each) <= width for each in short.values())
        if fits and len({*short.values()}) == len(distinct):
            return short
    return None


def least_width(names: Iterable[str]) -> int:
    """Return the smallest width, from LEAST_WIDTH on, in which all of the names differ."""
    distinct = {*names}
    longest = max(map(len, distinct), default=0)
    for width in range(LEAST_WIDTH, longest):
        if shortened_or_none(distinct, width) is not None:
            return width
    return longest


def _ways(names: list[str], width: int) -> Iterator[Callable[[str], str]]:
    """Yield the ways to shorten the names, those that keep most of a name first."""
    yield lambda name: name
    if len(names) == 1:
        yield lambda name: _without_middle(name, width)
        return
    shared = _common_start(names)
    start = 1 + max(shared.rfind(each) for each in SEPARATORS)
    before = CUT if start > 1 else ""
    first = start if before else 0
    yield lambda name: before + name[first:]
    end = len(_common_end([name[first:] for name in names]))
    if end > 1:
        yield lambda name: f"{before}{name[first:-end]}{CUT}"
    yield lambda name: _without_end(before + name[first:], width)
    yield lambda name: _without_middle(before + name[first:], width)
    yield lambda name: CUT + name[first:][-(width - 1) :]


def _common_start(names: list[str]) -> str:
    """Return what all of the names begin with."""
    first, last = min(names), max(names)
    length = next((at for at, letter in enumerate(first) if last[at : at + 1] != letter), None)
    return first[:length]


def _common_end(names: list[str]) -> str:
    return _common_start([name[::-1] for name in names])[::-1]


def _without_end(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 1] + CUT


def _without_middle(name: str, width: int) -> str:
    """Return the name's beginning and its end, the end being the longer part."""
    if len(name) <= width:
        return name
    head = (width - 1) // 3
    return name[:head] + CUT + name[head + 1 - width :]
