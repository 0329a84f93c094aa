"""The laws of a Streams group, over its coordinator and its instances.

A law yields one sentence for each violation. Those of ALWAYS hold between any two steps, those of
AT_REST once a group has settled, and only if the rolling bounces are the right ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from apportion.sim.streams.thread import StreamThread
from apportion.streams.metadata.model import TaskId
from apportion.streams.metadata.releases import VERSION_BY_UPGRADE_FROM
from apportion.streams.task_assignment.client_states import AssignmentConfigs


class TaskRunner(Protocol):
    """A stream thread that is a member of a group, of either protocol.

    active: the tasks that it runs; active_incarnation: of its member, in which they were assigned.
    """

    name: str
    active_incarnation: int
    member: Any

    @property
    def active(self) -> Mapping[TaskId, None]:
        """The tasks that it runs."""
        ...


class RunningApplication(Protocol):
    """Living threads of one Streams application, the members of its group, and all its tasks."""

    @property
    def threads(self) -> Sequence[TaskRunner]:
        """All living threads of all instances."""
        ...

    @property
    def members(self) -> Mapping[str, object]:
        """The members in the coordinator, by id."""
        ...

    @property
    def tasks(self) -> Sequence[TaskId]:
        """All tasks of the application."""
        ...


class StreamsGroup(NamedTuple):
    """The state that a law checks.

    threads: all living threads of all instances. members: the members in the coordinator, by id.
    tasks: all tasks of the application. configs: of the leader's task assignor.
    """

    threads: Sequence[StreamThread]
    members: Mapping[str, object]
    tasks: Sequence[TaskId]
    configs: AssignmentConfigs


StreamsGroupLaw = Callable[[StreamsGroup], Iterator[str]]


def one_active(group: RunningApplication) -> Iterator[str]:
    """Yield Streams tasks that are active in two threads at once, both of which are members.

    A thread that was removed from the group may still run tasks, so it does not count; nor does one
    whose member has left because the thread did not poll in time.
    """
    owner: dict[TaskId, str] = {}
    for thread in group.threads:
        view = thread.member.view()
        # A member that was removed learns of it with its next request only. A static member that
        # left stays in the group until its session ends; what it had yet to revoke is free.
        if (
            thread.active_incarnation != view.incarnation
            or view.epoch <= 0
            or view.member_id not in group.members
        ):
            continue
        for task in thread.active:
            if task in owner:
                yield f"task {task} is active in {owner[task]} and in {thread.name}."
            owner[task] = thread.name


def one_role(group: StreamsGroup) -> Iterator[str]:
    """Yield Streams tasks that one assignment gives to a process twice: in two roles or threads.

    A leader may have been unable to decode a subscription of a higher version (KIP-268); it then
    counts the thread as a process of its own. So does this law, for every thread whose assignment
    has a lower version than its subscription.
    """
    roles: dict[tuple[str, int, TaskId], str] = {}
    for thread in group.threads:
        is_decoded = thread.join_versions.get(thread.share.generation, 0) <= thread.share.used
        process = thread.instance.name if is_decoded else thread.name
        for role, tasks in (("active", thread.share.active), ("standby", thread.share.standby)):
            for task in tasks:
                key = (process, thread.share.generation, task)
                if key in roles:
                    yield (
                        f"{process} was given task {task} twice: {roles[key]}, and as "
                        f"{role} in {thread.name}."
                    )
                roles[key] = f"as {role} in {thread.name}"


def all_owned(group: RunningApplication) -> Iterator[str]:
    """Yield Streams tasks that are not active in exactly one thread."""
    owners: dict[TaskId, list[str]] = {task: [] for task in group.tasks}
    for thread in group.threads:
        for task in thread.active:
            owners.setdefault(task, []).append(thread.name)
    for task, names in owners.items():
        if len(names) != 1:
            yield f"task {task} is active in {' and in '.join(names) or 'no thread'}."


def one_version(group: StreamsGroup) -> Iterator[str]:
    """Yield stream threads whose assignment lacks the newest metadata version that all may use."""
    expected = min((max_metadata_version(thread) for thread in group.threads), default=0)
    for thread in group.threads:
        if thread.share.used != expected:
            yield (
                f"{thread.name} works by an assignment in metadata version {thread.share.used}; "
                f"all may speak {expected}."
            )


def few_warmups(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence if more tasks warm up than `max.warmup.replicas` allows (KIP-441).

    Warm-ups are the standbys beyond `num.standby.replicas`. Checked only while all threads have an
    assignment of one generation. A task without an active owner is being moved and its next owner
    may have it as a standby meanwhile, so it does not count.
    """
    # While assignments of two generations are about, a task may be counted in both.
    if len({thread.share.generation for thread in group.threads}) > 1:
        return
    copies = dict.fromkeys((task for thread in group.threads for task in thread.share.active), 0)
    for thread in group.threads:
        for task in thread.share.standby:
            if task in copies:
                copies[task] += 1
    beyond = sum(max(0, count - group.configs.num_standby_replicas) for count in copies.values())
    if beyond > group.configs.max_warmup_replicas:
        yield (
            f"{beyond} tasks are warming up at once; no more than "
            f"{group.configs.max_warmup_replicas} may."
        )


ALWAYS: dict[str, StreamsGroupLaw] = {
    "one-active": one_active,
    "one-role": one_role,
    "few-warmups": few_warmups,
}
AT_REST: dict[str, StreamsGroupLaw] = {"all-owned": all_owned, "one-version": one_version}


def max_metadata_version(thread: StreamThread) -> int:
    """Return the newest metadata version that the thread's release and `upgrade.from` allow.

    As `initial_metadata_version`, which members use: a law must not be the code that it checks.
    """
    release, upgrade_from = thread.instance.runs_as
    return min(
        release.newest_version,
        VERSION_BY_UPGRADE_FROM.get(upgrade_from or "", release.newest_version),
    )
