"""The table of releases of Kafka Streams beside their jars."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from apportion.streams.metadata.releases import initial_metadata_version, is_eager, known_release
from apportion.testing.kafka import KafkaMissing, jars_of
from tests.compat.streams.program import RELEASES
from tests.kafka.java import tool_output

STREAMS = Path(__file__).with_name("streams")


@pytest.mark.parametrize("name", RELEASES)
def test_the_table_of_releases_says_what_the_jars_say(
    name: str, lane_missing: Callable[[str], NoReturn]
) -> None:
    pom, _ = RELEASES[name]
    try:
        said = tool_output(jars_of(STREAMS / pom), str(STREAMS / "Releases.java"))
    except KafkaMissing as problem:
        lane_missing(str(problem))
    release = known_release(name)
    assert said.splitlines() == [
        f"{value or 'null'} {initial_metadata_version(release, value)} "
        f"{'EAGER' if is_eager(release, value) else 'COOPERATIVE'}"
        for value in (None, *release.upgrade_from)
    ]
