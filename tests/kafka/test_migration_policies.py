"""Mixed groups under every migration policy, on our broker and on a real Kafka.

Here a classic group has two members at the most and a consumer group four, so that groups are just
full, or one too large. Who may join what, and what the group is then, is told step by step in
tests/coord/test_migration_policies.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion.testing.kafka import RealKafka
from tests.kafka.differential.classic_intended import INTENDED
from tests.kafka.differential.classic_play import play_waiting
from tests.kafka.differential.compare import side_by_side
from tests.kafka.differential.fleet import LENGTH, check
from tests.kafka.differential.mixed_scripts import MixedScript
from tests.kafka.differential.side import Side

SEEDS = range(5)
"""Scripts that agree under each policy. Their author takes every policy for bidirectional: by
other seeds a member that it takes for gone is silent, with whatever share the assignor gave it.
"""
ALIKE = {
    "group.min.session.timeout.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.max.size": 2,
    "group.consumer.max.size": 4,
}


@pytest.fixture(scope="module", params=["disabled", "upgrade", "downgrade", "bidirectional"])
def sides(
    request: pytest.FixtureRequest, jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    """Our broker and a real one under that policy."""
    settings: dict[str, Any] = ALIKE | {"group.consumer.migration.policy": request.param}
    theirs = {name: str(value) for name, value in settings.items()}
    with (
        RealKafka(jars, tmp_path_factory.mktemp(request.param), theirs) as kafka,
        side_by_side(kafka, **settings) as both,
    ):
        yield both


def test_mixed_scripts_agree_under_every_policy(sides: tuple[Side, Side]) -> None:
    check(
        SEEDS,
        lambda seed, token: play_waiting(
            seed, LENGTH, MixedScript(seed, token, sides[1]), sides, INTENDED
        ),
    )
