"""`apportion watch`: reads a group again and again, and shows what changes."""

import sys
import time
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import on_cluster, with_next_step
from apportion.cli.failures import NoSuchGroup, WrongArguments
from apportion.cli.groups.report import read_group
from apportion.cli.lines import row_console
from apportion.cli.watch.changes import GroupChanges
from apportion.cli.watch.screens import JsonLines, PlainLines, Screen, Watcher
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused

LEAST_INTERVAL_S, LONGEST_INTERVAL_S = 0.05, 86_400
LEAST_PATIENCE_S = 2
"""How long a request of a refresh is tried, if the refreshes before were not slow."""


class Rhythm(NamedTuple):
    """The time between two refreshes, and how many there are; None: until Ctrl-C."""

    interval_s: float
    refreshes: int | None


def parse_rhythm(interval: str, refreshes: int | None) -> Rhythm:
    """Return the rhythm that was typed. Raises WrongArguments."""
    try:
        interval_s = float(interval)
    except ValueError:
        interval_s = 0.0
    if not LEAST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        raise WrongArguments(
            f"--interval must be {LEAST_INTERVAL_S} to {LONGEST_INTERVAL_S} seconds, not "
            f"{interval!r}"
        )
    if refreshes is not None and refreshes < 1:
        raise WrongArguments(f"--refreshes must be 1 or more, not {refreshes}")
    return Rhythm(interval_s, refreshes)


class ClusterOutage:
    """The time in which the cluster does not answer. All moments are in seconds of one clock."""

    def __init__(self) -> None:
        """Begin while the cluster answers."""
        self._since_s: float | None = None
        self._lasted_s: float | None = None  # of the last one, until it is told

    def go_on(self, moment_s: float) -> None:
        """Count from this moment, if the cluster has answered before."""
        if self._since_s is None:
            self._since_s = moment_s

    def end(self, moment_s: float) -> None:
        """End at this moment, with an answer; also with one that there is no such group."""
        if self._since_s is not None:
            self._lasted_s, self._since_s = moment_s - self._since_s, None

    def news(self) -> list[str]:
        """Return a sentence about the end, once."""
        lasted_s, self._lasted_s = self._lasted_s, None
        return [] if lasted_s is None else [f"the cluster answers again after {lasted_s:.0f} s"]


class WatchedGroup:
    """The reports on a group that are shown, of which there are none before it exists."""

    def __init__(self, watcher: Watcher) -> None:
        """Begin before the first look at the group."""
        self._watcher = watcher
        self._changes: GroupChanges | None = None
        self._missing: NoSuchGroup | None = None

    def show(self, report: Report, news: list[str]) -> None:
        """Show the report, and after the news what has changed since the last one."""
        changes = []
        if self._changes is None:
            self._changes = GroupChanges(report)
        else:
            changes = self._changes.since_last(report, self._watcher.names(report))
        self._watcher.show(report, [*news, *changes])

    def miss(self, missing: NoSuchGroup) -> None:
        """Show that there is no such group, not yet or no longer."""
        self._missing = missing
        is_gone = self._changes is not None
        self._watcher.fail("the group is gone" if is_gone else f"{missing}; waiting for it")

    def end(self) -> None:
        """Raise NoSuchGroup if the group has never been there."""
        if self._changes is None and self._missing is not None:
            raise self._missing


def watch(asked: Asked, group_id: str, rhythm: Rhythm) -> int:
    """Show the group until Ctrl-C, or as often as the rhythm says; return the exit code.

    The cluster must answer the first refresh; a later one that fails is shown, and tried again. A
    group that does not exist yet is waited for; if it never comes, that is the error.
    """

    def run(cluster: Cluster) -> int:
        with suppress(KeyboardInterrupt):  # how a watch ends
            _watch(cluster, asked, group_id, rhythm)
        return 0

    return on_cluster(asked, run)


def _watch(cluster: Cluster, asked: Asked, group_id: str, rhythm: Rhythm) -> None:
    """Show the group in that rhythm."""
    began_s = time.monotonic()
    found: Report | NoSuchGroup | None = _look(cluster, group_id, asked.at)
    slowest_s = time.monotonic() - began_s
    outage, watcher = ClusterOutage(), _watcher(asked)
    view = WatchedGroup(watcher)
    try:
        for shown in count(1):
            if isinstance(found, NoSuchGroup):
                view.miss(found)
            elif found is not None:
                view.show(found, outage.news())
            if shown == rhythm.refreshes:
                view.end()
                return
            time.sleep(rhythm.interval_s)
            began_s = time.monotonic()
            # An outage is to be seen soon. What is tried in vain now is tried by the next refresh.
            cluster.timeout_ms = min(asked.timeout_ms, patience_ms(slowest_s))
            try:
                cluster.nodes()  # fails at once where no broker listens
                found = _look(cluster, group_id, asked.at)
            except (Refused, Disconnected) as error:
                found = None
                outage.go_on(began_s)
                watcher.fail(str(with_next_step(error, asked)))
            else:
                ended_s = time.monotonic()
                slowest_s = max(slowest_s, ended_s - began_s)
                outage.end(ended_s)
    finally:
        watcher.close()


def _look(cluster: Cluster, group_id: str, at: str) -> Report | NoSuchGroup:
    """Return the report on the group, or the error that there is none."""
    try:
        return read_group(cluster, group_id, at)
    except NoSuchGroup as missing:
        return missing


def patience_ms(slowest_s: float) -> int:
    """Return how long a request of a refresh is tried. slowest_s: a refresh that succeeded."""
    return int(max(LEAST_PATIENCE_S, 4 * slowest_s) * 1_000)


def _watcher(asked: Asked) -> Watcher:
    if asked.as_json:
        return JsonLines()
    return Screen(row_console()) if sys.stdout.isatty() else PlainLines()
