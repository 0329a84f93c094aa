"""The trace of a history for people to read: what happened, and who used which partition when."""

from typing import NamedTuple


class TraceLine(NamedTuple):
    """One event. at_us: simulated microseconds. process: its name."""

    at_us: int
    process: str
    text: str

    def __str__(self) -> str:
        return f"{self.at_us / 1_000_000:11.4f} s  {self.process:<12} {self.text}"


class OwnershipChange(NamedTuple):
    """A change of the owner of a partition at `at_us`.

    owner: "" means that no application uses the partition; two names joined by + that both do.
    """

    at_us: int
    group: str
    partition: str
    owner: str


class Trace:
    """The lines and changes of ownership of one history, in order, if a caller asks for a trace."""

    __slots__ = ("lines", "ownership")

    def __init__(self) -> None:
        self.lines: list[TraceLine] = []
        self.ownership: list[OwnershipChange] = []
