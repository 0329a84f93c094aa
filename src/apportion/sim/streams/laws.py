"""The laws of a Streams group as its coordinator and its instances have it: a sentence for each
violation, none where it holds.

Those of MOVING hold between any two steps, those of AT_REST once a group has settled, and only if
the bounces are the right ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from apportion.sim.streams.thread import StreamThread
from apportion.streams.metadata.model import TaskId
from apportion.streams.metadata.releases import VERSION_BY_UPGRADE_FROM
from apportion.streams.task_assignment.client_states import AssignmentConfigs


class StreamsGroup(NamedTuple):
    """What a law looks at. threads: all that live, of all instances. members: ids of those whom the
    coordinator takes for members.

    tasks: all that there are.
    """

    threads: Sequence[StreamThread]
    members: Mapping[str, object]
    tasks: Sequence[TaskId]
    policy: AssignmentConfigs


Law = Callable[[StreamsGroup], Iterator[str]]


def one_active(group: StreamsGroup) -> Iterator[str]:
    """No task is active in two threads at once, both of which are members. Who was dismissed may
    not know it yet.
    """
    runs: dict[TaskId, str] = {}
    for each in group.threads:
        view = each.member.view()
        if view.member_id not in group.members or each.active_incarnation != view.incarnation:
            continue
        for task in each.active:
            if task in runs:
                yield f"task {task} is active in {runs[task]} and in {each.name}."
            runs[task] = each.name


def one_role(group: StreamsGroup) -> Iterator[str]:
    """No plan gave a process a task twice: neither as active and as standby, nor to two of its
    threads.

    Who was answered in an older version than it spoke may not have been read: to the leader it is
    of no process that is known, and this law takes it for a process of its own, also where the
    leader could read it.
    """
    given: dict[tuple[str, int, TaskId], str] = {}
    for each in group.threads:
        is_read = each.join_versions.get(each.share.generation, 0) <= each.share.used
        process = each.instance.name if is_read else each.name
        for role, tasks in (("active", each.share.active), ("standby", each.share.standby)):
            for task in tasks:
                place = (process, each.share.generation, task)
                if place in given:
                    yield (
                        f"{process} was given task {task} twice: {given[place]}, and as "
                        f"{role} in {each.name}."
                    )
                given[place] = f"as {role} in {each.name}"


def all_owned(group: StreamsGroup) -> Iterator[str]:
    """Every task is active in exactly one thread."""
    owners: dict[TaskId, list[str]] = {task: [] for task in group.tasks}
    for each in group.threads:
        for task in each.active:
            owners.setdefault(task, []).append(each.name)
    for task, names in owners.items():
        if len(names) != 1:
            yield f"task {task} is active in {' and in '.join(names) or 'no thread'}."


def one_version(group: StreamsGroup) -> Iterator[str]:
    """Everybody works by an assignment in the newest version that all may speak."""
    expected = min((max_metadata_version(each) for each in group.threads), default=0)
    for each in group.threads:
        if each.share.used != expected:
            yield (
                f"{each.name} works by an assignment in metadata version {each.share.used}; "
                f"all may speak {expected}."
            )


def few_warmups(group: StreamsGroup) -> Iterator[str]:
    """Beside the standbys that each task shall have there are no more copies than may warm up.

    Looked at where all work by one plan. A task that is given to nobody is changing hands: its heir
    has it as a standby meanwhile.
    """
    if len({each.share.generation for each in group.threads}) > 1:
        return
    copies = dict.fromkeys((task for each in group.threads for task in each.share.active), 0)
    for each in group.threads:
        for task in each.share.standby:
            if task in copies:
                copies[task] += 1
    beyond = sum(max(0, count - group.policy.num_standby_replicas) for count in copies.values())
    if beyond > group.policy.max_warmup_replicas:
        yield (
            f"{beyond} tasks are warming up at once; no more than "
            f"{group.policy.max_warmup_replicas} may."
        )


ALWAYS: dict[str, Law] = {
    "one-active": one_active,
    "one-role": one_role,
    "few-warmups": few_warmups,
}
AT_REST: dict[str, Law] = {"all-owned": all_owned, "one-version": one_version}
STREAMS_LAWS = {
    "one-active": "no task is active in two threads that are members",
    "one-role": (
        "no process is given a task twice by one plan: neither as active and as standby, nor "
        "for two of its threads"
    ),
    "leader-triggers": (
        "by KIP-268 the leader alone joins again because all understand a newer version"
    ),
    "all-owned": "in a group at rest every task is active in exactly one thread",
    "one-version": (
        "in a group at rest all work by assignments in the newest version that all may speak"
    ),
    "few-warmups": "no more tasks warm up at once than max.warmup.replicas",
    "always-served": (
        "where nothing else befalls a group, no task is without an owner for longer than a "
        "bounce or a death takes"
    ),
}
"""What is watched of Streams groups, beside the laws of every classic group."""


def max_metadata_version(thread: StreamThread) -> int:
    """The newest metadata version that its process may speak, by its release and its
    `upgrade.from`.
    """
    release, upgrade_from = thread.instance.runs_as
    return min(
        release.newest_version,
        VERSION_BY_UPGRADE_FROM.get(upgrade_from or "", release.newest_version),
    )
