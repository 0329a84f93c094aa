"""What became of one simulated history: figures, the digest of all that happened, and the law that broke, if one did."""

from typing import NamedTuple


class Violation(NamedTuple):
    """A law that did not hold. law: its name in `apportion.sim.checks.consumer_laws`. at_ms: simulated time. why: one sentence."""

    law: str
    at_ms: int
    why: str

    def __str__(self) -> str:
        return f"{self.law} at {self.at_ms / 1000:.3f} s: {self.why}"


class LawBroken(Exception):
    """Raised where a law does not hold; the simulation ends there."""

    def __init__(self, law: str, why: str) -> None:
        super().__init__(f"{law}: {why}")
        self.law, self.why = law, why


class Outcome(NamedTuple):
    """One history in figures. None of them comes from a real clock.

    rebalances: how often a group got a new epoch. slowest_convergence_ms: from a group's new epoch to every member at its target.
    longest_unowned_ms: the longest time that a subscribed partition was in nobody's hands, while faults were on.
    rows: records in the sinks. crashes: of the broker. digest: of every step, and of every byte that the broker and the sinks
    hold in the end.
    """

    seed: int
    steps: int
    simulated_ms: int
    rebalances: int
    slowest_convergence_ms: int
    longest_unowned_ms: int
    rows: int
    commits: int
    crashes: int
    digest: str
    broken: Violation | None

    @property
    def holds(self) -> bool:
        """True where every law held to the end."""
        return self.broken is None
