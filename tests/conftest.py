"""What every test may use: a client of its module's broker, and lanes that need something of the
machine, and say so when it is missing.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from apportion.client.cluster import Cluster
from tests import durations, lanes, profiles, units
from tests.spark.spark_home import installed_spark, make_quick_home

profiles.register()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of our own."""
    lanes.add_option(parser)
    parser.addoption(
        "--rewrite", action="store_true", help="rewrite the expected lines of script tests"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse a profile or a path where nothing is; record the durations of a run of whole lanes."""
    profiles.check(config)
    lanes.check_paths(config)
    if not {*lanes.chosen(config)} <= {lanes.QUICK}:
        durations.register(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that hold no test of the chosen lanes."""
    names = lanes.chosen(config)
    if not names or not collection_path.name.startswith("test_"):
        return None
    file = collection_path.relative_to(lanes.ROOT).as_posix()
    return None if lanes.may_hold(file, names) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the chosen lanes, scale the properties to the profile, and let the tests
    that wait longest begin first. A search has no time limit.
    """
    lanes.select(config, items)
    profiles.scale(items)
    if profiles.is_search():
        for item in items:
            item.add_marker(pytest.mark.timeout(0))
    items.sort(key=lambda item: units.rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share a run with several workers (`pytest -n 3`) out by `tests/units.py`."""
    return units.scheduler(config, log)


@pytest.fixture(scope="session")
def quick_spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let every Spark that is started from here on begin its Python processes in half the time."""
    home = make_quick_home(tmp_path_factory.mktemp("spark") / "home", installed_spark())
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_HOME", str(home))
        yield


@pytest.fixture
def bootstrap(broker: Any) -> str:
    """Where the `broker` of the module listens."""
    address: str = broker.bootstrap
    return address


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    """A client of the broker at `bootstrap`."""
    with closing(Cluster(bootstrap)) as made:
        yield made


def lane_missing(reason: str) -> NoReturn:
    """This test cannot run here: skipped with `reason`, or failed where APPORTION_REQUIRE_LANES=1
    (as in .ci/run).
    """
    if os.environ.get("APPORTION_REQUIRE_LANES") == "1":
        pytest.fail(f"this lane must run here, but: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(name="lane_missing", scope="session")
def _lane_missing() -> Any:
    """`lane_missing(reason)` for tests and fixtures: with importlib import mode a conftest is not
    importable.
    """
    return lane_missing
