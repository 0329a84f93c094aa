"""What every test may use: lanes that need something of the machine, and say so when it is missing."""

import os
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

# how long an example takes, or takes to be drawn, says how busy the machine is
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


def lane_missing(reason: str) -> NoReturn:
    """This test cannot run here: skipped with `reason`, or failed where APPORTION_REQUIRE_LANES=1 (as in .ci/run)."""
    if os.environ.get("APPORTION_REQUIRE_LANES") == "1":
        pytest.fail(f"this lane must run here, but: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(name="lane_missing", scope="session")
def _lane_missing():
    """`lane_missing(reason)` for tests and fixtures: with importlib import mode a conftest is not importable."""
    return lane_missing
