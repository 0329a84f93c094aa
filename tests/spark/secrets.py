"""Where a Spark application may leave a secret: the files of its run, and its processes."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark
import pytest

from demo import host
from tests.spark.harness import Application


def work_directory() -> Path:
    """Where workers of `local-cluster` keep the logs of executors, by application."""
    return Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0], "work")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Settings of Spark that keep its event log as text, and what it spills, in the directory of
    the test, with a log of all that it does.
    """
    events, local = tmp_path / "events", tmp_path / "local"
    events.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.local.dir": str(local),
        "spark.log.level": "INFO",
    }


def files_with(directory: Path, secret: str) -> list[Path]:
    """The files below the directory that have these bytes."""
    found = []
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):  # of a run that goes on
            if path.is_file() and secret.encode() in path.read_bytes():
                found.append(path)
    return found


def executors(directory: Path) -> list[Path]:
    """The directories of executors in processes of their own, by the names of the event logs."""
    logs = (directory / "events").iterdir()
    applications = [path.name.removeprefix("eventlog_v2_") for path in logs]
    return [path for name in applications for path in (work_directory() / name).glob("*")]


def processes_with(application: Application, secret: str) -> list[str]:
    """The commands of the application's processes that show these bytes, but for the test's own
    way to give its options to the driver.
    """
    return [
        " ".join(process.cmdline()[:3])
        for process in host.processes(application.process.pid)
        if process.pid != application.process.pid and secret in "\n".join(_shown(process))
    ]


def _shown(process: psutil.Process) -> Iterator[str]:
    """What others may see of a process, or its own user."""
    with suppress(psutil.Error):
        yield from process.cmdline()
        yield from map("=".join, process.environ().items())
