"""What is kept of a history for people to read: a line a step, and who had which partition from when on."""

from typing import NamedTuple


class Line(NamedTuple):
    """One thing that happened. at_us: simulated microseconds. who: the process."""

    at_us: int
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_us / 1_000_000:11.4f} s  {self.who:<12} {self.what}"


class Hand(NamedTuple):
    """From `at_us` on, `who` uses the partition of the group's; "" says that nobody does, two names with + that both do."""

    at_us: int
    group: str
    place: str
    who: str


class Chronicle:
    """Lines and hands in the order in which they came. Nothing is kept of a history that is played without one."""

    __slots__ = ("hands", "lines")

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.hands: list[Hand] = []
