"""`apportion watch` on a running broker."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.cli.watch.screens import Screen
from apportion.cli.watch.watching import LEAST_PATIENCE_S, ClusterOutage, patience_ms
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from tests.cli.members import join, leave
from tests.cli.terminal import STYLE, on_terminal
from tests.client import changes

TIME = re.compile(r"^\d\d:\d\d:\d\d ")
LIMIT_S = 60
SLACK_S = 3  # a loaded machine


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A broker with `t` of one record, and the group `g`, which has read nothing of it."""
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap, client_id="reader")
        (partition,) = partitions_of(cluster.create_topic("t", 1))
        cluster.produce(partition, encode_batch([(None, b"a", ())], timestamp_ms=1))
        changes.commit(cluster, "g", {partition: 0})
        yield cluster
        cluster.close()


class Watch:
    """A process of `apportion watch` whose output is a pipe."""

    def __init__(self, cluster: Cluster, *options: str, group: str = "g") -> None:
        at = ["--bootstrap", cluster.bootstrap_servers, "--interval", "0.05"]
        command = [sys.executable, "-m", "apportion.cli.main", "watch", group, *at, *options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def lines(self, last: str) -> list[str]:
        """The lines up to the one that ends with `last`, without their times."""
        found: list[str] = []
        while not found or not found[-1].endswith(last):
            line = self.line()
            assert TIME.match(line), line
            found.append(TIME.sub("", line).rstrip())
        return found

    def hang_up(self) -> tuple[int, str]:
        """Close the pipe; return the exit code, and what it said."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdout.close()
        code = self._process.wait(LIMIT_S)
        with self._process.stderr as stderr:
            return code, stderr.read()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=LIMIT_S)


def test_each_change_is_a_line_in_a_pipe(cluster: Cluster) -> None:
    watch = Watch(cluster)
    try:
        assert watch.lines("lag 1") == ["Empty, 0 members, total lag 1"]
        join(cluster, "g", "m")
        assert watch.lines("lag 1") == [
            "Empty, now Stable",
            "epoch -, now 2",
            "m (reader) joined",
            "t 0: from nobody to m",
            "Stable, epoch 2, 1 member, total lag 1",
        ]
        leave(cluster, "g", "m")
        assert watch.lines("lag 1") == [
            "Stable, now Empty",
            "epoch 2, now 3",
            "m (reader) is gone: it left, was removed, or its session ended",
            "t 0: from m to nobody",
            "Empty, epoch 3, 0 members, total lag 1",
        ]
        cluster.call(DeleteGroupsRequest(groups_names=("g",)), coordinator="g")
        assert watch.lines("gone") == ["the group is gone"]
    finally:
        watch.close()


def test_a_group_that_does_not_exist_yet_is_waited_for(cluster: Cluster) -> None:
    at = f"--bootstrap {cluster.bootstrap_servers}"
    watch = Watch(cluster, group="later")
    try:
        assert watch.lines("waiting for it") == [
            f"there is no group 'later': `apportion groups list {at}` shows what there is; "
            "waiting for it"
        ]
        join(cluster, "later", "m")
        assert watch.lines("offset") == [
            "Stable, epoch 2, 1 member, total lag -, 1 partition without a committed offset"
        ]
        leave(cluster, "later", "m")
        assert watch.lines("3") == ["Stable, now Empty", "epoch 2, now 3"]
    finally:
        watch.close()


def test_a_group_that_has_not_come_by_the_last_refresh_is_the_error(cluster: Cluster) -> None:
    at = f"--bootstrap {cluster.bootstrap_servers}"
    command = ["watch", "never", "--json", "--refreshes", "2", "--interval", "0.05", *at.split()]
    watched = CliRunner().invoke(app, command)
    missing = f"there is no group 'never': `apportion groups list {at}` shows what there is"
    assert watched.exit_code == 1
    assert [json.loads(line)["failure"] for line in watched.stdout.splitlines()] == [
        f"{missing}; waiting for it"
    ] * 2
    assert json.loads(watched.stderr) == {"error": "GROUP_ID_NOT_FOUND", "message": missing}


def test_a_terminal_shows_that_a_group_is_waited_for_and_then_the_group(cluster: Cluster) -> None:
    drawn = StringIO()
    screen = Screen(Console(file=drawn, width=60, force_terminal=True, color_system=None))
    screen.fail("there is no group 'g'; waiting for it")
    assert last_lines(drawn, 1) == ["there is no group 'g'; waiting for it"]
    report = {"group": "g", "type": "classic", "state": "Empty", "members": [], "offsets": []}
    screen.show(report, [])
    assert last_lines(drawn, 4) == [
        "g: a classic group, Empty, 0 members",
        "MEMBER  CLIENT  LAG  OWNS",
        "",
        "there is no group 'g'; waiting for it",
    ]
    screen.close()


def test_each_refresh_is_a_line_of_json_on_request(cluster: Cluster) -> None:
    at = ["--bootstrap", cluster.bootstrap_servers, "--interval", "0.05"]
    watched = CliRunner().invoke(app, ["watch", "g", "--json", "--refreshes", "2", *at])
    described = CliRunner().invoke(app, ["groups", "describe", "g", "--json", *at[:2]])
    lines: list[Any] = [json.loads(line) for line in watched.stdout.splitlines()]
    assert watched.exit_code == 0
    assert [each.pop("time")[10] for each in lines] == ["T", "T"]
    assert lines == [json.loads(described.stdout) | {"changes": []}] * 2


def test_a_reader_that_goes_away_ends_a_watch_without_an_error(cluster: Cluster) -> None:
    watch = Watch(cluster, "--json")
    assert json.loads(watch.line())["group"] == "g"
    assert watch.hang_up() == (0, "")


def test_a_terminal_has_members_lag_and_changes(cluster: Cluster) -> None:
    join(cluster, "g", "m")
    at = ["--bootstrap", cluster.bootstrap_servers]
    lines = on_terminal(["watch", "g", "--refreshes", "1", *at], 80)
    assert lines[-5:] == [
        "g: a consumer group, Stable, epoch 2, assignor uniform, 1 member, total lag 1",
        "MEMBER  CLIENT  LAG  OWNS",
        "m       reader    1  t 0",
        "",
        "nothing has changed yet",
    ]


def test_a_partition_out_of_range_leaves_group_and_member_without_a_lag(cluster: Cluster) -> None:
    low, high, _ = partitions_of(cluster.create_topic("u", 3))
    cluster.produce(low, encode_batch([(None, b"a", ())], timestamp_ms=1))
    changes.commit(cluster, "h", {low: 0, high: 5})
    join(cluster, "h", "m", "u")
    at = ["--bootstrap", cluster.bootstrap_servers]
    lines = on_terminal(["watch", "h", "--refreshes", "1", *at], 160)
    words = "1 member, total lag -, 1 partition without a committed offset, 1 partition with an "
    assert lines[-5:] == [
        f"h: a consumer group, Stable, epoch 2, assignor uniform, {words}offset out of range",
        "MEMBER  CLIENT  LAG  OWNS",
        "m       reader    -  u 0-2",
        "",
        "nothing has changed yet",
    ]


def test_partitions_without_an_owner_are_named_on_a_terminal(cluster: Cluster) -> None:
    at = ["--bootstrap", cluster.bootstrap_servers]
    lines = on_terminal(["watch", "g", "--refreshes", "1", *at], 80)
    assert "without an owner: t 0" in lines


def test_an_outage_is_told_at_once_and_once_and_its_end_too(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        at = broker.bootstrap
        lone = Cluster(at)
        changes.commit(lone, "g", {partitions_of(lone.create_topic("t", 1))[0]: 0})
        watch = Watch(lone)
        assert watch.lines("lag 0") == ["Empty, 0 members, total lag 0"]
        lone.close()
    try:
        began_s = time.monotonic()
        told = watch.lines("APPORTION_BOOTSTRAP")
        assert time.monotonic() - began_s < LEAST_PATIENCE_S + SLACK_S
        # A connection that breaks may come before those that are refused.
        while "refused" not in told[-1]:
            told += watch.lines("APPORTION_BOOTSTRAP")
        with EmbeddedBroker(tmp_path, listeners=at):
            (back,) = watch.lines(" s")
        assert len(told) == len(set(told))
        assert told[-1] == (
            f"no connection to the broker at {at}: Connection refused; see that a broker runs "
            "there, or name another one with --bootstrap-server or in APPORTION_BOOTSTRAP"
        )
        assert re.fullmatch(r"the cluster answers again after \d+ s", back)
    finally:
        watch.close()


def test_an_outage_lasts_until_the_first_answer_also_about_a_group_that_is_gone() -> None:
    outage = ClusterOutage()
    outage.end(1.0)
    assert outage.news() == []
    outage.go_on(10.0)
    outage.go_on(12.0)
    outage.end(15.0)  # the group is gone
    outage.end(99.0)  # it is there again, and is shown
    assert outage.news() == ["the cluster answers again after 5 s"]
    assert outage.news() == []


def last_lines(drawn: StringIO, count: int) -> list[str]:
    """The last lines of a screen, without colours and times."""
    lines = STYLE.sub("", drawn.getvalue()).split("\n")[-count:]
    return [TIME.sub("", line.rpartition("\r")[2]) for line in lines]


def test_a_screen_that_is_not_up_to_date_says_so_above_its_last_report() -> None:
    drawn = StringIO()
    screen = Screen(Console(file=drawn, width=60, force_terminal=True, color_system=None))
    report = {"group": "g", "type": "classic", "state": "Empty", "members": [], "offsets": []}
    lines = ["g: a classic group, Empty, 0 members", "MEMBER  CLIENT  LAG  OWNS", "", "no broker"]
    screen.show(report, [])
    for _ in range(2):
        screen.fail("no broker")
        assert last_lines(drawn, 5) == ["not up to date: no broker", *lines]
    screen.show(report, [])
    assert last_lines(drawn, 4) == lines
    assert last_lines(drawn, 5)[0] != "not up to date: no broker"
    screen.close()


@pytest.mark.parametrize(
    ("slowest_s", "limit_ms"), [(0.01, 2_000), (0.5, 2_000), (0.8, 3_200), (30.0, 120_000)]
)
def test_a_slow_cluster_is_given_more_time(slowest_s: float, limit_ms: int) -> None:
    assert patience_ms(slowest_s) == limit_ms
