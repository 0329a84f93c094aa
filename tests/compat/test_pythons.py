"""The rooms without Spark on every Python that this machine has: their tests, and members on an
embedded broker.
"""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from tools.pythons import found

from tests.compat.wheels import InstallFailed, installed
from tests.lanes import QUICK_HOMES

ROOT = Path(__file__).parents[2]
PYTHONS = {"{}.{}".format(*version): each for version, each in found(os.environ).items()}
ROOMS = [f"tests/{room}" for room in QUICK_HOMES if room != "columns"]
"""The columns are of the extra `spark`."""
A_BROKER = ("tests/client/test_broker_restart.py", "tests/client/test_members_on_our_broker.py")


@pytest.fixture(scope="module", params=PYTHONS)
def run(
    request: pytest.FixtureRequest, lane_missing: Callable[[str], NoReturn]
) -> Callable[..., None]:
    """Runs pytest with these arguments on one of the Pythons, with the locked packages."""
    python = PYTHONS[request.param].executable
    try:
        home = installed(ROOT / "requirements-pythons.lock", f"python-{request.param}", python)
    except InstallFailed as problem:
        lane_missing(str(problem))
    path = os.pathsep.join(map(str, (home, ROOT / "src")))
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": path}
    pytest_of = [python, "-m", "pytest", "-p", "no:cacheprovider", "--hypothesis-profile=quick"]

    def play(*arguments: str) -> None:
        done = subprocess.run(
            [*pytest_of, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]

    return play


@pytest.mark.timeout(1_800)
def test_the_rooms_without_spark_pass_their_tests_on_every_python(
    run: Callable[..., None],
) -> None:
    run("--numprocesses=2", "--lane=quick", *ROOMS)


def test_an_embedded_broker_has_members_on_every_python(run: Callable[..., None]) -> None:
    run(*A_BROKER)
