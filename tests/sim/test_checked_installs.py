"""Whole histories in which all that members install is checked beside the shard."""

from typing import Any

import pytest

from apportion.coord import shard
from apportion.coord.consumer import installed_check
from apportion.coord.consumer.installed_check import CheckInstalled
from apportion.sim.kernel.scenario import draw_scenario
from apportion.sim.kernel.settings import UNRELIABLE
from apportion.sim.play import play


@pytest.mark.parametrize("seed", [5, 6])
def test_every_law_holds_where_all_installed_targets_are_checked_beside_the_shard(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = []
    end = shard.ON_COMPUTED[CheckInstalled]

    def note(*arguments: Any) -> None:
        checked.append(arguments)
        end(*arguments)

    monkeypatch.setattr(installed_check, "MOST_IN_STEP", -1)
    monkeypatch.setitem(shard.ON_COMPUTED, CheckInstalled, note)
    assert play(draw_scenario(seed, local_assignor=UNRELIABLE)).broken is None
    assert checked
