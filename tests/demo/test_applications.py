import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from demo.applications import Application

# A driver with a child in a process group of its own. Whoever outlives the other long enough to
# notice says so in "goodbye".
FAMILY = """
import os, signal, subprocess, sys, time
from pathlib import Path

signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup

def watch(pid):
    stat = Path(f"/proc/{pid}/stat")
    while stat.exists() and "Z" not in stat.read_text().split(")")[1][:3]:
        pass
    Path("goodbye").touch()

if child := os.fork():
    signal.signal(signal.SIGTERM, lambda *_: (os.kill(child, signal.SIGKILL), sys.exit(0)))
    Path("ready").write_text(str(child))
    watch(child)
else:
    os.setpgid(0, 0)
    watch(os.getppid())
"""


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Application]:
    application = Application("family", [sys.executable, "-c", FAMILY], tmp_path / "log", tmp_path)
    while not (Path(tmp_path) / "ready").exists() or not (Path(tmp_path) / "ready").read_text():
        assert application.exit_code is None, application.last_lines()
    yield application
    application.lose_host()


def test_a_lost_host_takes_every_process_with_it_and_none_notices(
    family: Application, tmp_path: Path
) -> None:
    child = int((tmp_path / "ready").read_text())
    assert {process.pid for process in family.processes()} >= {child}
    assert family.lose_host() == 2
    assert family.exit_code == -signal.SIGKILL
    assert family.processes() == []
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert not (tmp_path / "goodbye").exists()


def test_an_application_that_is_asked_to_stop_ends_in_order(family: Application) -> None:
    family.stop()
    family._driver.wait(10)
    assert (family.exit_code, family.stopping) == (0, True)


def test_the_log_holds_what_the_application_said(tmp_path: Path) -> None:
    application = Application(
        "talker", [sys.executable, "-c", "print('one'); print('two')"], tmp_path / "log", tmp_path
    )
    application._driver.wait(10)
    assert (application.last_lines(1), application.exit_code, application.stopping) == (
        "two",
        0,
        False,
    )
