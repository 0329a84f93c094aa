"""Histories in which the logs of groups are cleaned all the time: every law holds as if they were
not.
"""

from dataclasses import replace
from typing import Any

import pytest

from apportion.sim.actors import broker
from apportion.sim.kernel.settings import PROTOCOLS
from apportion.sim.play import play
from apportion.sim.seed_pool import Draw
from apportion.store.log import Log
from apportion.store.segment import Segment
from tests.profiles import simulated_seeds

SEEDS = simulated_seeds(2)


@pytest.fixture
def cleaned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The brokers of these worlds close a segment every few records; gives every log once for each
    of its cleanings.
    """
    settings_of, put, logs = broker.broker_settings, Log.replace_segments, []

    def replaced(log: Log, old: list[Segment], new: Segment) -> None:
        put(log, old, new)
        logs.append(log)

    monkeypatch.setattr(
        broker,
        "broker_settings",
        lambda *facts: replace(settings_of(*facts), offsets_topic_segment_bytes=1500),
    )
    monkeypatch.setattr(Log, "replace_segments", replaced)
    return logs


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_law_breaks_while_logs_are_cleaned(cleaned: list[Any], protocol: str) -> None:
    outcomes = [play(Draw(None, {"protocol": protocol}).scenario(seed)) for seed in SEEDS]
    assert [outcome for outcome in outcomes if outcome.broken is not None] == []
    assert len(cleaned) > 5 * len(SEEDS)
