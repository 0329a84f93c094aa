"""Rounds: each side does the same work in turn, A B C A B C, on the same machine."""

import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bench.peers.rows import PeerMissing, figure
from confluent_kafka import KafkaException

Say = Callable[[str], None]


FAILURES = (PeerMissing, OSError, KafkaException, subprocess.SubprocessError)
"""What a side may raise in a round without ending those of others: a broker has died, say."""


class Samples(NamedTuple):
    """Values by row and side, and why a side has none."""

    values: dict[str, dict[str, list[float]]]
    missing: dict[str, str]


def interleaved(
    sides: Mapping[str, Callable[[], Mapping[str, float]]], rounds: int, say: Say
) -> Samples:
    """Let each side do a round, so many times.

    sides: by name, what does one round and returns a value for each row. A side that raises
    one of FAILURES is left out from then on, with its reason and without its earlier values.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    missing: dict[str, str] = {}
    for number in range(1, rounds + 1):
        for side, play in sides.items():
            if side in missing:
                continue
            try:
                played = play()
            except FAILURES as problem:
                missing[side] = str(problem) or type(problem).__name__
                say(f"{side}: {problem}")
                continue
            for row, value in played.items():
                values[row][side].append(value)
            shown = ", ".join(f"{row} {figure(value)}" for row, value in played.items())
            say(f"round {number} of {rounds}, {side}: {shown}")
    return Samples(
        {
            row: {side: found for side, found in by_side.items() if side not in missing}
            for row, by_side in values.items()
        },
        missing,
    )
