"""How long each test of a lane took, and what else the machine did meanwhile.

A run of lanes (`tests/lanes.py`) keeps the seconds of every set-up, call and tear-down in
`bench-out/durations.json`, where each lane has the record of its last run. `make durations` prints
them; `make check` compares their sums with `tests/durations.toml`.
"""

import json
import os
import time
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest

from tests.lanes import ROOT, lane_of
from tests.profiles import is_whole
from tests.touched import git

RECORD = ROOT / "bench-out" / "durations.json"
PHASES = ("setup", "call", "teardown")
LOAD_INTERVAL_S = 5.0

Lane = dict[str, Any]
"""The record of a lane in one run: `commit`, `seconds` (of the run, which may have played other
lanes, too), `workers`, `whole` (whether all cases were played, as by `make all`), `load` (the
machine's load average `before` the run, its `mean` and `most` during it), `tests` (node id ->
seconds of PHASES).
"""


def register(config: pytest.Config) -> None:
    """Record this run if it plays whole lanes. Only the controller of several workers records."""
    option = config.option
    is_part = option.keyword or option.markexpr or config.args_source is config.ArgsSource.ARGS
    if not hasattr(config, "workerinput") and not is_part:
        config.pluginmanager.register(Recorder(RECORD), "apportion-durations")


def read_record(path: Path = RECORD) -> dict[str, Lane]:
    """Return lane -> record of its last run; empty where nothing has been recorded."""
    lanes: dict[str, Lane] = json.loads(path.read_text()) if path.exists() else {}
    return lanes


class Recorder:
    """The pytest plugin that records one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, list[float]] = {}
        self.loads: list[float] = [os.getloadavg()[0]]
        self.started = self.looked = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds of one phase of one test."""
        if report.when not in PHASES:  # xdist says of a worker that died that it is at "???"
            return
        seconds = self.tests.setdefault(report.nodeid, [0.0] * len(PHASES))
        seconds[PHASES.index(report.when)] += round(report.duration, 3)
        now = time.monotonic()
        if now - self.looked >= LOAD_INTERVAL_S:
            self.looked = now
            self.loads.append(os.getloadavg()[0])

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Put what was recorded in the place of the last record of each lane, unless the run was
        stopped before its end.
        """
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        if session.shouldstop or session.shouldfail:  # pytest -x
            return
        during = self.loads[1:] or self.loads
        run = {
            "commit": _commit(),
            "seconds": round(time.monotonic() - self.started, 1),
            "workers": int(getattr(session.config.option, "numprocesses", 0) or 1),
            "whole": is_whole(),
            "load": {
                "before": round(self.loads[0], 2),
                "mean": round(sum(during) / len(during), 2),
                "most": round(max(during), 2),
            },
        }
        lanes: dict[str, Lane] = {}
        for nodeid, seconds in sorted(self.tests.items()):
            lanes.setdefault(lane_of(nodeid), {**run, "tests": {}})["tests"][nodeid] = seconds
        if lanes:
            self.path.parent.mkdir(exist_ok=True)
            draft = self.path.with_suffix(".new")
            draft.write_text(json.dumps(read_record(self.path) | lanes, indent=0) + "\n")
            draft.replace(self.path)


def _commit() -> str:
    """Return the commit that is checked out, with a `+` where files differ from it; "" for a copy
    without its history.
    """
    try:
        is_changed = bool(git("status", "--porcelain", "--untracked-files=no"))
        return git("rev-parse", "--short=12", "HEAD") + "+" * is_changed
    except (OSError, CalledProcessError):
        return ""
