"""tests/lanes.py, tests/touched.py and tools/ci.py: every test has one lane, three draws run
everything, and what a run leaves out is named.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from tools import ci
from tools.long import SEARCHES

from tests import touched
from tests.lanes import (
    BY_NAME,
    CHECK,
    LANES,
    NOT_QUICK,
    QUARANTINE,
    QUICK,
    ROOT,
    TEST,
    THIRDS,
    drawn,
    is_quick,
    lane_of,
    lane_of_search,
    may_hold,
    quarantined,
    seed_of,
    third_of,
)

COMMITS = [f"{number:08x}{'5' * 32}" for number in (3, 7, 11)]
"""Commits of three different draws."""


def test_the_longest_row_decides_the_lane_of_a_test() -> None:
    assert [
        lane_of(f"tests/{test}::test_a")
        for test in (
            "compat/test_clients.py",
            "compat/test_kill.py",
            "kafka/test_versions.py",
            "coord/test_guards.py",
        )
    ] == ["clients", "kills", "kafka", TEST]
    assert may_hold("tests/compat/test_kill.py", ["kills", TEST])
    assert not may_hold("tests/compat/test_kill.py", ["clients", TEST])
    assert may_hold("tests/coord/test_guards.py", [TEST])


def test_quick_is_the_part_of_make_test_that_starts_no_process() -> None:
    quick = ("tests/coord/test_guards.py", "tests/test_topics.py")
    slow = ("tests/wire/test_oracles.py", "tests/server/test_tls.py", "tests/test_tidy.py")
    assert not is_quick("tests/node/test_many_names.py::test_a_request_of_many_names_takes_no_more")
    assert [is_quick(f"{file}::test_a") for file in (*quick, *slow)] == [True] * 2 + [False] * 3
    assert [may_hold(file, [QUICK]) for file in (*quick, *slow)] == [True] * 2 + [False] * 3


def test_every_row_names_tests_searches_and_code_that_there_are() -> None:
    files = [file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("*.py")]
    wrong = [
        row
        for lane in LANES
        for row in lane.tests
        if not any(f"{file}::".startswith(row.partition("::")[0]) for file in files)
    ]
    wrong += [
        path
        for lane in LANES
        for path in lane.proves
        if not (ROOT / "src" / "apportion" / path).exists()
    ]
    wrong += [path for lane in LANES for path in lane.plays if not (ROOT / path).exists()]
    for row in NOT_QUICK:
        file, _, test = row.partition("::")
        if f"def {test}" not in (ROOT / file).read_text():
            wrong.append(row)
    assert wrong == []
    sampled = [search.name for search in SEARCHES if search.sample]
    assert [name for name in sampled if not lane_of_search(name)] == []
    assert {lane_of_search(name) for name in sampled} == {
        lane.name for lane in LANES if lane.searches
    }


def test_commits_of_three_different_draws_run_every_lane() -> None:
    thirds = [third_of(commit) for commit in COMMITS]
    assert sorted(thirds) == list(range(THIRDS))
    assert sorted(lane for third in thirds for lane in drawn(third)) == sorted(BY_NAME)
    assert len({seed_of(commit) for commit in COMMITS}) == THIRDS


def test_a_run_keeps_the_tests_of_its_lanes_alone() -> None:
    tests = ["tests/house/test_lanes.py", "tests/house/test_package.py"]
    seen = {}
    for lane in (CHECK, "house", "nobodys,"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", f"--lane={lane}", *tests],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        seen[lane] = {*re.findall(r"^tests\S+\.py(?=:)", done.stdout, re.MULTILINE)}
        last = done.stderr
    assert seen == {CHECK: {*tests[:1]}, "house": {*tests[1:]}, "nobodys,": set()}
    assert "--lane: there is no lane 'nobodys', '' of tests; there are check, quick, test, " in last


@pytest.mark.parametrize(
    ("changed", "lanes"),
    [
        ("docs/spark.md", ["pages"]),
        ("demo/stage.py", ["spark-clusters"]),
        ("tools/long.py", ["house"]),
        ("tests/compat/clients/confluent.py", ["clients"]),
        ("tests/client/consumer_scenarios.py", ["kafka"]),
        ("src/apportion/node/authorization/table.py", ["acls"]),
        ("tests/compat/test_kill.py", ["kills"]),
        ("tests/compat/java/Members.java", ["clients", "java-clients", "java-migration"]),
        ("src/apportion/store/log.py", ["kills"]),
    ],
)
def test_a_change_touches_the_lanes_that_prove_or_import_it(changed: str, lanes: list[str]) -> None:
    found = touched.touched_lanes([changed])
    assert {*lanes} <= {*found}
    assert {*found.values()} <= {changed}
    assert len(found) < len(LANES) / 2


def test_each_file_that_users_have_touches_a_lane() -> None:
    folders = ("src/apportion", "demo", "docs", "tools")
    files = [
        file.relative_to(ROOT).as_posix()
        for folder in folders
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    assert [file for file in files if not touched.touched_lanes([file])] == []


def test_packages_and_what_every_test_imports_touch_every_lane_with_tests() -> None:
    with_tests = [lane.name for lane in LANES if lane.tests]
    assert [*touched.touched_lanes(["tests/conftest.py"])] == with_tests
    assert [*touched.touched_lanes(["requirements.lock"])] == [*BY_NAME]


def test_an_unknown_change_touches_every_lane() -> None:
    assert touched.changed_since("0" * 40) is None
    assert [*touched.touched_lanes(None)] == [*BY_NAME]


def plan(**given: Any) -> ci.Plan:
    """A plan of one drawn lane, one that is touched, and one with searches."""
    names = ["kills", "acls", "properties"]
    known: dict[str, Any] = {
        "commit": COMMITS[0],
        "is_whole": False,
        "drawn": ["kills", "properties"],
        "touched": {"acls": "src/apportion/node/authorization/table.py"},
        "lanes": names,
    }
    return ci.Plan(**(known | given))


def test_a_run_plays_check_docs_test_its_lanes_and_its_searches() -> None:
    searches = "--only properties"
    seed = f"ARGS=--sample --seed {seed_of(COMMITS[0])} {searches}"
    assert plan().steps() == [
        ["make", "check"],
        ["make", "docs"],
        ["make", "test"],
        ["make", "lanes", "LANES=kills,acls"],
        ["make", "long", seed],
    ]
    assert plan(is_whole=True).steps()[2] == [
        *("make", "lanes", "LANES=test,kills,acls", "PROFILE=all")
    ]
    assert plan(lanes=[]).steps() == [["make", "check"], ["make", "docs"], ["make", "test"]]


def test_a_run_says_what_it_does_not_run() -> None:
    left = [name for name in BY_NAME if name not in ("kills", "acls", "properties")]
    left += [f"{test} (in quarantine, {why})" for test, why in quarantined().items()]
    assert plan().not_run == left
    assert plan().summary()[-1] == f"NOT run: {', '.join(left)}"


def test_the_plan_of_a_commit_is_its_draw_and_what_was_touched() -> None:
    made = ci.plan_for(COMMITS[0], is_whole=False)
    assert made.drawn == drawn(third_of(COMMITS[0]))
    assert {*made.lanes} == {*made.drawn, *made.touched}
    assert ci.plan_for(COMMITS[0], is_whole=True).lanes == [*BY_NAME]


def test_every_step_is_run_and_those_that_failed_are_named(
    capfd: pytest.CaptureFixture[str],
) -> None:
    steps = [["false"], ["sh", "-c", "exit 3"], ["echo", "heard"]]
    assert ci.play(steps, os.environ) == ["false", "sh -c 'exit 3'"]
    said = capfd.readouterr().out
    assert "== sh -c 'exit 3': exit code 3 after 0 s" in said
    assert "\nheard\n== echo heard: passed after 0 s" in said


def test_the_result_of_a_run_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "bench-out" / "ci.json"
    ci.keep(plan(), True, 1234.5, [], path)
    assert json.loads(path.read_text()) == {
        "commit": COMMITS[0],
        "ok": True,
        "seconds": 1234,
        "drawn": ["kills", "properties"],
        "touched": {"acls": "src/apportion/node/authorization/table.py"},
        "not_run": plan().not_run,
        "failed": [],
    }


def test_a_whole_run_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "whole_run.toml"
    path.write_text('# Why.\ncommit = "0"\n')
    ci.note_whole_run(COMMITS[0], 99.6, path)
    lines = path.read_text().splitlines()
    assert lines[:2] == ["# Why.", f'commit = "{COMMITS[0][:12]}"']
    assert lines[3:] == ["seconds = 100"]


def test_nothing_in_the_environment_decides_what_a_run_plays() -> None:
    given = {
        "ARGS": "--collect-only",
        "TESTS": "tests/coord",
        "PYTEST_ADDOPTS": "-k nothing",
        "MAKEFLAGS": "i",
        "APPORTION_KILLS": "1",
        "HOME": "/home/somebody",
    }
    seed = str(seed_of(COMMITS[0]))
    assert ci.environment_of(plan(), given) == {
        "HOME": "/home/somebody",
        "APPORTION_REQUIRE_LANES": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": seed,
        "APPORTION_DIFFERENTIAL_FIRST": seed,
        "APPORTION_KILLS_SEED": seed,
    }


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run("--all")`: tools/ci.py in a project of its own, whose `make` prints what it is asked."""
    for folder in ("tools", "tests"):
        (tmp_path / folder).mkdir()
        for file in chain.from_iterable((ROOT / folder).glob(f"*.{end}") for end in ("py", "toml")):
            shutil.copy(file, tmp_path / folder)
    (tmp_path / ".gitignore").write_text("bench-out\n__pycache__\n")
    (tmp_path / "Makefile").write_text("check docs test lanes long:\n\t@echo made $@ $(LANES)\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "All.")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tools.ci", *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    return run


def test_make_all_notes_the_commit_on_which_everything_passed(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    noted = tmp_path / "tests" / "whole_run.toml"
    before = noted.read_text()
    done = run("--all")
    assert (done.returncode, done.stderr) == (0, "")
    played = re.findall(r"^made (\w+)", done.stdout, re.MULTILINE)
    assert played == ["check", "docs", "lanes", "long"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout[:12]
    assert tomllib.loads(noted.read_text())["commit"] == head
    result = json.loads((tmp_path / "bench-out" / "ci.json").read_text())
    assert (result["ok"], result["not_run"]) == (True, [])

    # what is not committed is not what the commit is
    done = run("--all")
    assert done.returncode == 1
    assert "the work tree differs from the commit, commit first:\n M tests/whole_run.toml" in (
        done.stdout
    )
    assert not json.loads((tmp_path / "bench-out" / "ci.json").read_text())["ok"]
    assert noted.read_text() != before


@pytest.mark.parametrize(
    ("recipe", "why"),
    [("@test $@ != docs", "make docs"), ("@touch left", "the run has changed the work tree")],
)
def test_a_run_with_a_failure_notes_nothing_and_has_exit_code_1(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, recipe: str, why: str
) -> None:
    (tmp_path / "Makefile").write_text(f"check docs test lanes long:\n\t{recipe}\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    subprocess.run(["git", *identity, "commit", "-qam", "Worse."], cwd=tmp_path, check=True)
    before = (tmp_path / "tests" / "whole_run.toml").read_text()
    done = run("--all")
    assert done.returncode == 1
    assert f"\n== FAILED: {why}" in done.stdout
    assert (tmp_path / "tests" / "whole_run.toml").read_text() == before
    assert not json.loads((tmp_path / "bench-out" / "ci.json").read_text())["ok"]


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("tests/nowhere.py::test_a", "tests/nowhere.py: there is no such file or directory"),
        ("--hypothesis-profile=zebra", "there is no profile 'zebra'; there are quick, test, all"),
    ],
    ids=["path", "profile"],
)
def test_a_path_or_a_profile_that_is_none_is_refused_in_a_sentence(argument: str, why: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--numprocesses=2", argument],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert why in done.stderr


def test_a_quarantined_test_exists_and_has_its_log() -> None:
    for row in tomllib.loads(QUARANTINE.read_text()).get("test", []):
        file = row["test"].partition("::")[0]
        collect = [sys.executable, "-m", "pytest", "--collect-only", file]
        done = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True)
        assert row["test"] in done.stdout.splitlines()
        assert row["log"].strip()
        assert row["seen"].strip()
        date.fromisoformat(str(row["since"]))
