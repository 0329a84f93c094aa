"""What logs replay to, for machines that ask after every step."""

from collections.abc import Callable
from typing import Any

from apportion.sim.checks.saved import (
    compact,
    read_during_compaction,
    replay_records,
    saved_state,
)


class Replays:
    """Values of a log; one that has not changed since the last step is not replayed again.

    They are of fresh shards alone: a live shard that changes without a record differs from them.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[Any], Any]] = {}

    def of(self, log: list[Any], name: str, replay: Callable[[], list[Any]]) -> list[Any]:
        """What `replay` gives for the log, under a name."""
        if name not in self._known or self._known[name][0] != log:
            self._known[name] = (list(log), replay())
        found: list[Any] = self._known[name][1]
        return found


def cleaned_states(log: list[Any], ends: tuple[int, ...]) -> list[Any]:
    """What is saved after the log's cleaner came to each end, and for a reader of that moment."""
    logs = []
    for upto in ends:
        logs += [compact(log, upto, drops_tombstones) for drops_tombstones in (True, False)]
        reads = sorted({len(log) // 4, upto // 2, upto * 3 // 4})
        logs += [read_during_compaction(log, read, upto) for read in reads]
    return [saved_state(replay_records(each)) for each in logs]
