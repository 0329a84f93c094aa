"""`apportion groups describe`, `members` and `offsets`: groups as tables."""

from collections.abc import Callable
from typing import Any, NamedTuple

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import print_report
from apportion.cli.cluster_settings import print_settings
from apportion.cli.failures import WrongArguments
from apportion.cli.groups.altering import read_group_settings
from apportion.cli.groups.partitions import PartitionChoice
from apportion.cli.groups.report import (
    OUT_OF_RANGE,
    REBALANCING_STATES,
    out_of_range_note,
    read_group,
    read_members,
    without_owner,
)
from apportion.cli.groups.views import GroupForm, GroupView, Sort
from apportion.cli.lines import print_sentence, row_console
from apportion.cli.tables import Column, Kind, print_table
from apportion.client.cluster import Cluster
from apportion.readable import readable
from apportion.topics import ranges
from apportion.wire.group_states import GroupState

NO_MEMBERS = "Group {} has no members."
NO_OFFSETS = "No offset is committed, and no member owns a partition: do the topics exist?"
NO_OFFSETS_YET = "No offset is committed, and no member owns a partition yet: the group is {}."
MOVING_STATES = (*REBALANCING_STATES, GroupState.ASSIGNING, GroupState.RECONCILING)
"""The states of a group whose members are about to get partitions."""
SHORTENED = (
    "Shortened to fit this terminal: --json and a pipe, as in `... | cat`, show all of each name."
)
OFFSET_COLUMNS = {
    "topic": Column("TOPIC", Kind.NAME),
    "partition": Column("PARTITION", Kind.NUMBER),
    "committed": Column("COMMITTED", Kind.NUMBER),
    "end": Column("END", Kind.NUMBER),
    "lag": Column("LAG", Kind.NUMBER),
    "owner": Column("OWNER", Kind.NAME),
    "client": Column("CLIENT", Kind.NAME, is_optional=True),
    "host": Column("HOST", is_optional=True),
    "note": Column("NOTE", Kind.LIST, is_rare=True),
}
STATE_COLUMNS = {
    "group": Column("GROUP", Kind.NAME),
    "type": Column("TYPE"),
    "state": Column("STATE"),
    "epoch": Column("EPOCH", Kind.NUMBER),
    "assignment_epoch": Column("ASSIGNMENT-EPOCH", Kind.NUMBER),
    "assignor": Column("ASSIGNOR"),
    "count": Column("MEMBERS", Kind.NUMBER),
    "lag": Column("LAG", Kind.NUMBER),
    "out_of_range": OUT_OF_RANGE,
}


class GroupChoice(NamedTuple):
    """The groups that are described: by name, or all."""

    names: tuple[str, ...]
    all_groups: bool

    def ids(self, cluster: Cluster) -> list[str]:
        """Return the ids of the groups, in the order in which they were typed."""
        if self.all_groups and self.names:
            raise WrongArguments("name groups, or say --all-groups, not both")
        if self.all_groups:
            return [group.group_id for group in cluster.list_groups()]
        if not self.names:
            raise WrongArguments(
                "name a group, as in `apportion groups describe GROUP`, or say --all-groups"
            )
        return list(dict.fromkeys(self.names))

    @property
    def is_one(self) -> bool:
        """True if the report is on one group, and no list."""
        return len({*self.names}) == 1 and not self.all_groups


def describe(asked: Asked, groups: GroupChoice, form: GroupForm) -> int:
    """Print the groups' members, offsets and lag; return the exit code."""

    def read(cluster: Cluster) -> list[Report]:
        if form.view is GroupView.CONFIGS:
            ids = groups.ids(cluster)
            return [read_group_settings(cluster, each, asked.at) for each in ids]
        found = [read_group(cluster, each, asked.at) for each in groups.ids(cluster)]
        for group in found:
            group["offsets"].sort(key=SORTS[form.sort])
        return found

    if asked.as_json and groups.is_one:
        return print_report(asked, lambda cluster: read(cluster)[0], lambda _: None)
    return print_report(asked, read, lambda reports: _show(reports, form))


def show_members(asked: Asked, group_id: str, is_verbose: bool) -> int:
    """Print the members of a group; return the exit code."""
    return print_report(
        asked,
        lambda cluster: read_members(cluster, group_id, asked.at),
        lambda group: _advise(_print_members(group, is_verbose)),
    )


def show_offsets(asked: Asked, group_id: str, choice: PartitionChoice, sort: Sort) -> int:
    """Print the offsets, the lag and the owners of a group; return the exit code."""

    def read(cluster: Cluster) -> Report:
        group = read_group(cluster, group_id, asked.at, choice)
        group["offsets"].sort(key=SORTS[sort])
        return group

    return print_report(asked, read, lambda group: _advise(_print_offsets(group, idle=False)))


def _by_topic(row: Report) -> tuple[Any, ...]:
    return row["topic"], row["partition"]


SORTS: dict[Sort, Callable[[Report], tuple[Any, ...]]] = {
    Sort.TOPIC: _by_topic,
    # first what is out of range, then the largest, and last what is not known
    Sort.LAG: lambda row: (
        row["out_of_range"] is None,
        row["lag"] is None,
        -(row["lag"] or 0),
        *_by_topic(row),
    ),
    Sort.OWNER: lambda row: (row["owner"] is None, row["owner"] or "", *_by_topic(row)),
}


def _show(groups: list[Report], form: GroupForm) -> None:
    console, view = row_console(), form.view
    if not groups:
        print_sentence(console, "There are no groups.")
        return
    if view is GroupView.STATE:
        _advise(_print_states(groups, form.is_verbose))
        return
    are_whole = True
    for number, group in enumerate(groups):
        if number:
            console.print()
        print_sentence(console, readable(title(group, form.is_verbose)))
        if view is GroupView.CONFIGS:
            print_settings(group["configs"])
            continue
        if view is not GroupView.MEMBERS:
            are_whole &= _print_offsets(group)
        if view is not GroupView.OFFSETS:
            are_whole &= _print_members(group, form.is_verbose)
    _advise(are_whole)


def _advise(is_whole: bool) -> None:
    """Say where the rest is if a table did not show all."""
    if not is_whole:
        print_sentence(row_console(), SHORTENED)


def title(group: Report, is_verbose: bool = False) -> str:
    """Return a sentence on a group: name, type, state, epoch, assignor, sinks, members and lag.

    The assignment epoch is in it where members wait for a target of the epoch: it is Assigning.
    """
    if group["state"] is None:
        return f"{group['group']}: there is no such group yet, but it has settings"
    count = len(group["members"])
    epochs = {group.get("epoch"), group.get("assignment_epoch")}
    is_apart = "assignment_epoch" in group and (is_verbose or (count > 0 and len(epochs) > 1))
    parts = [
        f"a {group['type']} group",
        group["state"],
        *([f"epoch {group['epoch']}"] if "epoch" in group else []),
        *([f"assignment epoch {group['assignment_epoch']}"] if is_apart else []),
        *([f"assignor {group['assignor']}"] if "assignor" in group else []),
        *([f"of the sink {' and '.join(group['sinks'])}"] if group.get("sinks") else []),
        f"{count} member{'' if count == 1 else 's'}",
        *lag_words(group),
        *owner_words(group),
    ]
    return f"{group['group']}: {', '.join(parts)}"


def lag_words(group: Report) -> list[str]:
    """Return the group's total lag in words, and how many partitions have none; [] without any."""
    every = group.get("offsets", ())
    lag = "-" if group.get("lag") is None else group["lag"]
    counts = {
        "without a committed offset": sum(row["committed"] is None for row in every),
        "with an offset out of range": group.get("out_of_range", 0),
    }
    return [
        *([f"total lag {lag}"] if every else []),
        *(
            f"{count} partition{'' if count == 1 else 's'} {what}"
            for what, count in counts.items()
            if count
        ),
    ]


def owner_words(group: Report) -> list[str]:
    """Return in words how many partitions no member owns; [] if there are none."""
    count = len(without_owner(group))
    return [f"{count} partition{'' if count == 1 else 's'} without an owner"] if count else []


def _print_states(groups: list[Report], is_verbose: bool) -> bool:
    """Print a row for each group; return whether everything was shown."""
    columns = {
        key: column
        for key, column in STATE_COLUMNS.items()
        if is_verbose or key != "assignment_epoch"
    }
    return print_table(columns, [group | {"count": len(group["members"])} for group in groups])


def _print_offsets(group: Report, idle: bool = True) -> bool:
    """Print a row for each partition, then one for each member that owns none, as Kafka does.

    Return whether everything was shown. idle: with the members that own none.
    """
    rows, members = group["offsets"], group["members"]
    if not rows:
        is_moving = group["state"] in MOVING_STATES
        sentence = NO_OFFSETS_YET.format(group["state"]) if is_moving else NO_OFFSETS
        print_sentence(row_console(), sentence)
        if not (idle and members):
            return True
    by_id = {member["member"]: member for member in members}
    cells = [
        row | _owner_cells(by_id.get(row["owner"])) | {"note": out_of_range_note(row)}
        for row in rows
    ]
    if idle:
        cells += [_owner_cells(each) for each in members if not any(each["owns"].values())]
    return print_table(OFFSET_COLUMNS, cells)


def _owner_cells(member: Report | None) -> Report:
    if member is None:
        return {"owner": None}
    return {"owner": member["member"], "client": member["client"], "host": _host(member)}


def _host(member: Report) -> str:
    """Return the member's host. Brokers send Java's form of an address, with a slash before it."""
    host: str = member["host"]
    return host.removeprefix("/")


def _print_members(group: Report, is_verbose: bool) -> bool:
    """Print a row for each member; return whether everything was shown.

    Columns in which no member has anything to show are left out, and the target if each member has
    what it is to have.
    """
    members = group["members"]
    if not members:
        print_sentence(row_console(), NO_MEMBERS.format(readable(group["group"])))
        return True
    is_shown = {
        "protocol": any(member["protocol"] not in (None, group["type"]) for member in members),
        "epoch": any("epoch" in member for member in members),
        "rack": is_verbose,
        "target": is_verbose
        and any(member.get("target", member["owns"]) != member["owns"] for member in members),
        "topics": is_verbose,
        "regex": is_verbose,
    }
    columns = {key: each for key, each in MEMBER_COLUMNS.items() if is_shown.get(key, True)}
    rows = [
        member
        | {
            "host": _host(member),
            "owns": _owned(member["owns"]),
            "target": _owned(member.get("target", {})),
            "topics": "  ".join(member["topics"]),
        }
        for member in members
    ]
    return print_table(columns, rows)


MEMBER_COLUMNS = {
    "member": Column("MEMBER", Kind.NAME),
    "instance": Column("INSTANCE", Kind.NAME, is_rare=True),
    "client": Column("CLIENT", Kind.NAME, is_optional=True),
    "host": Column("HOST", is_optional=True),
    "rack": Column("RACK", Kind.NAME, is_rare=True),
    "protocol": Column("PROTOCOL"),
    "epoch": Column("EPOCH", Kind.NUMBER),
    "owns": Column("OWNS", Kind.LIST),
    "target": Column("TARGET", Kind.LIST),
    "topics": Column("TOPICS", Kind.LIST),
    "regex": Column("REGEX", Kind.NAME, is_rare=True),
}


def _owned(owns: dict[str, list[int]]) -> str:
    return "  ".join(f"{topic} {ranges(partitions)}" for topic, partitions in owns.items())
