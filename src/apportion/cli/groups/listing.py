"""`apportion groups list`: each group with its type and state, its members and its lag.

Costs two requests for each group, and two ListOffsets for the partitions of all of them; for a
group with an offset out of range two more.
"""

from collections.abc import Iterable

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import print_report
from apportion.cli.groups.filters import parse_filter
from apportion.cli.groups.report import OUT_OF_RANGE, listed_group, position_cells, totals
from apportion.cli.lines import print_sentence, row_console
from apportion.cli.tables import Column, Kind, print_table
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.group_positions import CommittedOffsets, Logs, positions_in, read_logs
from apportion.errors import Refused
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery, DescribeGroupsQuery
from apportion.member.cluster_queries.offsets import AllOffsetsQuery
from apportion.wire.messages.list_groups import ListedGroup

COLUMNS = {
    "group": Column("GROUP", Kind.NAME),
    "type": Column("TYPE"),
    "state": Column("STATE"),
    "members": Column("MEMBERS", Kind.NUMBER),
    "lag": Column("LAG", Kind.NUMBER),
    "out_of_range": OUT_OF_RANGE,
}


def list_groups(asked: Asked, states: Iterable[str], types: Iterable[str]) -> int:
    """Print the groups of the cluster that pass the filters; return the exit code."""

    def read(cluster: Cluster) -> list[Report]:
        chosen = parse_filter(states, types)
        return _rows(cluster, [group for group in cluster.list_groups() if chosen.passes(group)])

    return print_report(asked, read, _show)


def _show(groups: list[Report]) -> None:
    if not groups:
        print_sentence(row_console(), "There are no groups.")
        return
    print_table(COLUMNS, groups)


def _rows(cluster: Cluster, groups: list[ListedGroup]) -> list[Report]:
    """Return a row of the report for each of the groups."""
    offsets = {group.group_id: _committed(cluster, group.group_id) for group in groups}
    logs = _logs_or_none(cluster, offsets.values())
    return [
        listed_group(group)
        | {"members": _members_or_none(cluster, group)}
        | _totals(cluster, group.group_id, offsets[group.group_id], logs)
        for group in groups
    ]


def _committed(cluster: Cluster, group_id: str) -> CommittedOffsets:
    """Return the group's committed offsets; none if it is gone, or may not be read."""
    try:
        return cluster.ask_coordinator(AllOffsetsQuery(group_id))
    except Refused:
        return {}


def _logs_or_none(cluster: Cluster, offsets: Iterable[CommittedOffsets]) -> Logs | None:
    """Return the log of every partition in which some group has an offset."""
    try:
        return read_logs(cluster, (each for committed in offsets for each in committed))
    # The list is right without the lags.
    except (Refused, Disconnected):
        return None


def _totals(
    cluster: Cluster, group_id: str, committed: CommittedOffsets, logs: Logs | None
) -> Report:
    """Return the group's total lag, and how many of its offsets are out of range."""
    if logs is not None:
        read = logs.of(committed)
        try:
            found = positions_in(cluster, read, committed, lambda: _committed(cluster, group_id))
            return totals(map(position_cells, found.values()))
        except (Refused, Disconnected):  # as in _logs_or_none
            pass
    return {"lag": None, "out_of_range": None}


def _members_or_none(cluster: Cluster, group: ListedGroup) -> int | None:
    """Return the number of the group's members; None if no API that we know tells it."""
    try:
        match group.group_type.lower():
            case "consumer":
                described = cluster.ask_coordinator(ConsumerGroupDescribeQuery(group.group_id))
                return len(described.members)
            case "classic" | "":
                classic = cluster.ask_coordinator(DescribeGroupsQuery(group.group_id))
                # Offsets alone: a group that DescribeGroups does not know.
                return 0 if classic is None else len(classic.members)
    except Refused:  # it is gone, or has changed its protocol, or may not be described
        pass
    return None
