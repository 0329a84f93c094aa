"""Every law of a Streams group breaks where the bug is planted that it is there for, and holds
without it.
"""

import pytest

from apportion.sim.streams.play import rehearse
from tests.sim.laws import STREAMS_LAWS
from tests.sim.planted_streams import PLANTED, PlantedInStreams


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_bug_breaks_its_law(
    planted: PlantedInStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rehearse(planted.rehearsal).held
    planted.plant(monkeypatch)
    broken = rehearse(planted.rehearsal).broken
    assert broken is not None
    assert broken.law == planted.law


def test_every_law_has_its_bug() -> None:
    assert {planted.law for planted in PLANTED} == STREAMS_LAWS.keys()
