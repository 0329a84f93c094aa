"""The outcome of one simulated history: its figures, its digest, and a broken law, if any."""

from typing import NamedTuple

from apportion.errors import raised_at


class Violation(NamedTuple):
    """A law that broke.

    law: its name in `apportion.sim.checks.consumer_laws`. at_ms: simulated time. why: one sentence.
    """

    law: str
    at_ms: int
    why: str

    def __str__(self) -> str:
        return f"{self.law} at {self.at_ms / 1000:.3f} s: {self.why}"


class LawBroken(Exception):
    """A law does not hold. The simulation ends there."""

    def __init__(self, law: str, why: str) -> None:
        super().__init__(f"{law}: {why}")
        self.law, self.why = law, why


def violation_of(error: Exception, at_ms: int) -> Violation:
    """Return the law that broke, by the exception that ended a simulation at that time."""
    if isinstance(error, LawBroken):
        return Violation(error.law, at_ms, error.why)
    why = f"{type(error).__name__}: {error} ({raised_at(error)})"
    return Violation("no-defect", at_ms, why)


class Outcome(NamedTuple):
    """The figures of one history. None of them comes from a real clock.

    rebalances: new group epochs and generations. slowest_convergence_ms: from a new epoch until
    every member is at its target assignment. longest_unowned_ms: the longest time that a subscribed
    partition had no owner while faults were on. rows: records in the sinks. crashes: of the broker.
    digest: of the trace, and of all bytes that the broker's disk and the sinks hold in the end.
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
        """Return whether every law held to the end."""
        return self.broken is None
