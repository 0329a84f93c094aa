"""`apportion groups remove-members`: removes members before their sessions expire."""

import shlex
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import ReportedChange, print_change
from apportion.cli.failures import Impossible, WrongArguments
from apportion.cli.groups.report import read_members
from apportion.cli.lines import print_dry_run, print_sentence, row_console
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.group_changes import (
    RemoveConsumerMemberQuery,
    RemovedMember,
    RemoveMembersQuery,
)
from apportion.readable import readable

REASON = "removed by apportion groups remove-members"
REJOINS = "A member that still runs joins again by itself."


class MemberChoice(NamedTuple):
    """The members to remove: by member id, by group instance id, or all."""

    members: tuple[str, ...]
    instances: tuple[str, ...]
    all_members: bool


def parse_members(
    members: Iterable[str], instances: Iterable[str], all_members: bool
) -> MemberChoice:
    """Return the members that were typed. Raises WrongArguments."""
    choice = MemberChoice(tuple(members), tuple(instances), all_members)
    if bool(choice.members or choice.instances) is all_members:
        raise WrongArguments("name members as --member or --instance, or say --all")
    return choice


def remove_members(asked: Asked, group_id: str, choice: MemberChoice, *, execute: bool) -> int:
    """Show the members, or remove them and print which are gone; return the exit code."""

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        group = read_members(cluster, group_id, asked.at)
        members = tuple(dict.fromkeys(_chosen(group, choice, asked.at)))
        if execute:
            return _remove(cluster, group, members)
        return ReportedChange([_row(each, removed=False) for each in members], ())

    return print_change(asked, change, lambda rows: _show(rows, execute=execute))


def _row(member: RemovedMember, *, removed: bool) -> Report:
    return {"member": member.member_id, "instance": member.instance_id, "removed": removed}


def _show(members: list[Report], *, execute: bool) -> None:
    what = "is removed" if execute else "would be removed"
    for row in members:
        instance = f" ({row['instance']})" if row["instance"] else ""
        print_sentence(row_console(), readable(f"{row['member']}{instance} {what}."))
    print_sentence(row_console(), REJOINS if members else "The group has no members.")
    if members and not execute:
        print_dry_run("remove them")


def _remove(
    cluster: Cluster, group: Report, members: tuple[RemovedMember, ...]
) -> ReportedChange[list[Report]]:
    """Remove these members of a group; return those that are gone, and the failures."""
    classic = {each["member"] for each in group["members"] if each["protocol"] == "classic"}
    errors = _remove_classic(
        cluster, group["group"], tuple(each for each in members if each.member_id in classic)
    )
    for each in members:
        if each.member_id not in classic:
            errors[each] = _remove_consumer(cluster, group["group"], each)
    removed = [_row(each, removed=True) for each in members if errors[each] is None]
    return ReportedChange(removed, [error for error in errors.values() if error is not None])


def _remove_classic(
    cluster: Cluster, group_id: str, members: tuple[RemovedMember, ...]
) -> dict[RemovedMember, Refused | None]:
    """Remove members that speak the classic protocol, in one request; return their errors."""
    if not members:
        return {}
    codes = cluster.ask_coordinator(RemoveMembersQuery(group_id, members, REASON))
    return {
        each: _error_or_none(
            Refused(code, f"member {each.member_id!r} of group {group_id!r}: {code.sentence}")
        )
        for each, code in codes.items()
    }


def _remove_consumer(cluster: Cluster, group_id: str, member: RemovedMember) -> Refused | None:
    """Remove a member that speaks the consumer protocol; return its error."""
    try:
        cluster.ask_coordinator(RemoveConsumerMemberQuery(group_id, member))
    except Refused as refused:
        return _error_or_none(refused)
    return None


def _error_or_none(refused: Refused) -> Refused | None:
    """Return the error; None for no error, and for a member that has left meanwhile."""
    return None if refused.code in (Code.NONE, Code.UNKNOWN_MEMBER_ID) else refused


def _chosen(group: Report, choice: MemberChoice, at: str) -> Iterator[RemovedMember]:
    """Yield the chosen members; raise Impossible if there is no such member. at: as Asked.at."""
    known = [RemovedMember(each["member"], each["instance"]) for each in group["members"]]
    if choice.all_members:
        yield from known
    by_member = {each.member_id: each for each in known}
    by_instance = {each.instance_id: each for each in known if each.instance_id}
    for names, found, what in (
        (choice.members, by_member, "member"),
        (choice.instances, by_instance, "member with the instance id"),
    ):
        for name in names:
            if name not in found:
                raise Impossible(
                    f"group {group['group']!r} has no {what} {name!r}: `apportion groups members "
                    f"{shlex.quote(group['group'])} {at}` shows those that it has"
                )
            yield found[name]
