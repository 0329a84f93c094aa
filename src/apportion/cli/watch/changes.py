"""The changes between two reports on a group, in sentences.

Brokers do not tell who owns what while a classic group rebalances. So owners are compared with the
last ones that were told, and a partition that comes back to its owner has not moved.
"""

from collections.abc import Callable, Iterator

from apportion.cli.asked import Report
from apportion.cli.groups.report import REBALANCING_STATES
from apportion.member.consumer.requests import LEAVE_FOR_NOW
from apportion.topics import TopicPartition, grouped, ranges

NOBODY = "nobody"
GONE = "is gone: it left, was removed, or its session ended"
"""No API tells which. A member that was killed is shown until its session has ended."""
LEFT_FOR_NOW = "left for now: its partitions wait for it until its session ends"


class GroupChanges:
    """The changes of a group from report to report."""

    def __init__(self, first: Report) -> None:
        """Take the first report, to which the next one is compared."""
        self._last = first
        self._owners = _owners(first)

    def since_last(self, report: Report, name: Callable[[str], str]) -> list[str]:
        """Return what has changed since the last report. name: how a member's id is shown."""
        changes = [*_state_changes(self._last, report), *_member_changes(self._last, report, name)]
        self._last = report
        if report["state"] not in REBALANCING_STATES:
            owners = _owners(report)
            changes += _moves(self._owners, owners, name)
            self._owners = owners
        return changes


def _owners(report: Report) -> dict[TopicPartition, str | None]:
    return {
        TopicPartition(row["topic"], row["partition"]): row["owner"] for row in report["offsets"]
    }


def _state_changes(before: Report, after: Report) -> Iterator[str]:
    if before["state"] != after["state"]:
        yield f"{before['state']}, now {after['state']}"
    if before.get("epoch") != after.get("epoch"):
        yield f"epoch {before.get('epoch', '-')}, now {after.get('epoch', '-')}"


def _member_changes(before: Report, after: Report, name: Callable[[str], str]) -> Iterator[str]:
    there, here = (
        {member["member"]: member for member in report["members"]} for report in (before, after)
    )
    gone = {key: member for key, member in there.items() if key not in here}
    predecessors = {each["instance"]: key for key, each in gone.items() if each.get("instance")}
    joined = []
    for member_id, member in here.items():
        if member_id in there:
            was_away, is_away = (
                each.get("epoch") == LEAVE_FOR_NOW for each in (there[member_id], member)
            )
            if was_away != is_away:
                yield f"{_called(member, name)} {LEFT_FOR_NOW if is_away else 'is back'}"
            continue
        predecessor = predecessors.get(member.get("instance"))
        if predecessor is not None:
            gone.pop(predecessor, None)
        place = "" if predecessor is None else f" in the place of {name(predecessor)}"
        joined.append(f"{_called(member, name)} joined{place}")
    for member in gone.values():
        yield f"{_called(member, name)} {GONE}"
    yield from joined


def _called(member: Report, name: Callable[[str], str]) -> str:
    """Return a member as sentences call it, with the name of its application if it has one."""
    member_id, client = member["member"], member["client"]
    return f"{name(member_id)}{'' if client == member_id else f' ({client})'}"


def _moves(
    before: dict[TopicPartition, str | None],
    after: dict[TopicPartition, str | None],
    name: Callable[[str], str],
) -> Iterator[str]:
    """Yield a sentence for the partitions of one topic that moved from one owner to another."""
    moved = (
        ((partition.topic, before.get(partition), owner), partition.partition)
        for partition, owner in after.items()
        if before.get(partition) != owner
    )
    for (topic, old, new), numbers in grouped(moved).items():
        source, target = (NOBODY if owner is None else name(owner) for owner in (old, new))
        yield f"{topic} {ranges(numbers)}: from {source} to {target}"
