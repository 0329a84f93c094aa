"""The assignment of a Streams group by a client-side assignor of KIP-848."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.streams.client_side import (
    AssignableInstance,
    ClientSideAssignment,
    InstanceTasks,
    hash_of_topology,
)
from apportion.streams.metadata.kip848 import (
    RESTORE_FAILED,
    AssignmentError,
    Kip848ActiveTask,
    Kip848AssignmentMetadata,
    Kip848ClientTag,
    Kip848HostPartitions,
    Kip848Replica,
    Kip848TopicPartitions,
    Reason,
)
from apportion.streams.queries import CreateInternalTopics, ListEndOffsets
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition
from tests.streams.client_side_runs import (
    FEW,
    active,
    compute,
    instance,
    numbers,
    warmups,
)
from tests.streams.leader_runs import LINES, STATE, WORDS, lines


def test_a_lone_member_runs_every_task_once_its_topics_are_made() -> None:
    queries: list[Any] = []
    plan = compute({"a": instance("p", user_endpoint=b"one:1")}, queries=queries)
    assert [type(query) for query in queries] == [CreateInternalTopics, ListEndOffsets]
    partitions = (Kip848TopicPartitions(topic="lines", partitions=(0, 1, 2, 3)),)
    assert plan == ClientSideAssignment(
        {
            "a": InstanceTasks(
                lines(0, 1, 2, 3),
                Kip848AssignmentMetadata(
                    active_tasks=tuple(
                        Kip848ActiveTask(subtopology=0, partition=number) for number in range(4)
                    ),
                    partitions_by_host=(
                        Kip848HostPartitions(host="one", port=1, partitions=partitions),
                    ),
                    topology_hash=hash_of_topology(STATE),
                ),
            )
        }
    )


def test_nothing_is_withheld_from_a_new_owner_since_the_coordinator_does_that() -> None:
    plan = compute({"a": instance("p", LINES, target=range(4)), "b": instance("q", LINES)}, LINES)
    assert (active(plan, "a"), active(plan, "b")) == ([2, 3], [0, 1])


def test_a_task_with_two_sources_is_named_for_each_of_its_partitions() -> None:
    both = topology_of([{"sources": ["lines", "other"]}])
    plan = compute({"a": instance("p", both)}, both, existing={"lines": 2, "other": 1})
    assert plan.assignments["a"].partitions == (*lines(0, 1), TopicPartition("other", 0))
    assert active(plan, "a") == [0, 1, 0]


def test_a_task_of_the_older_target_runs_on_until_a_warm_up_has_said_it_is_ready() -> None:
    members = {"a": instance("p", target=range(4)), "b": instance("q")}
    warming = compute(members)
    assert active(warming, "a") == [0, 1, 2, 3]
    assert warmups(warming) == {"a": [], "b": [0, 1]}
    source = (Kip848TopicPartitions(topic="lines", partitions=(0,)),)
    assert warming.assignments["b"].metadata.warmup_tasks[0] == Kip848Replica(
        subtopology=0, partition=0, sources=source
    )
    members["b"] = instance("q", lags={0: 10, 1: 500}, reason=Reason.WARM_UP_READY)
    ready = compute(members)
    assert (active(ready, "a"), active(ready, "b")) == ([1, 2, 3], [0])
    assert warmups(ready) == {"a": [], "b": [1]}


def test_a_lag_that_a_member_sent_of_a_task_it_runs_since_does_not_count() -> None:
    members = {"a": instance("p", target=range(4), lags={0: 900}), "b": instance("q")}
    assert active(compute(members), "a") == [0, 1, 2, 3]


def test_a_process_that_could_not_restore_a_task_gets_no_warm_up_of_it_and_others_do() -> None:
    members = {
        "a": instance("p", target=range(4)),
        "b": instance("q", lags={0: RESTORE_FAILED}, reason=Reason.WARM_UP_FAILED),
    }
    plan = compute(members)
    assert active(plan, "a") == [0, 1, 2, 3]
    assert warmups(plan) == {"a": [], "b": [1]}
    one_at_once = FEW._replace(max_warmup_replicas=1)
    assert warmups(compute(members, configs=one_at_once)) == {"a": [], "b": [1]}
    members["b"] = instance("q", lags={3: RESTORE_FAILED})
    assert warmups(compute(members, configs=one_at_once)) == {"a": [], "b": [0]}


def test_standby_tasks_are_apart_from_warm_ups() -> None:
    members = {"a": instance("p", target=range(4)), "b": instance("q"), "c": instance("r")}
    plan = compute(members, configs=FEW._replace(num_standby_replicas=1))
    standby = [
        number
        for each in plan.assignments.values()
        for number in numbers(each.metadata.standby_tasks)
    ]
    assert sorted(standby) == [0, 1, 2, 3]
    for each in plan.assignments.values():
        metadata = each.metadata
        roles = (metadata.active_tasks, metadata.standby_tasks, metadata.warmup_tasks)
        held = [number for role in roles for number in numbers(role)]
        assert len(held) == len(set(held))


def test_one_list_of_hosts_has_what_is_active_and_what_is_standby_there() -> None:
    members = {
        "a": instance("p", user_endpoint=b"one:1", target=(0, 1)),
        "b": instance("q", user_endpoint=b"two:2", target=(2, 3)),
    }
    plan = compute(members, configs=FEW._replace(num_standby_replicas=1))
    every = (Kip848TopicPartitions(topic="lines", partitions=(0, 1, 2, 3)),)
    for each in plan.assignments.values():
        assert each.metadata.partitions_by_host == (
            Kip848HostPartitions(host="one", port=1, partitions=every),
            Kip848HostPartitions(host="two", port=2, partitions=every),
        )


def test_client_tags_decide_where_standby_tasks_are() -> None:
    def tagged(process: str, zone: str, **rest: Any) -> AssignableInstance:
        tags = (Kip848ClientTag(key="zone", value=zone),)
        return instance(process, client_tags=tags, **rest)

    zones = {"a": "east", "b": "east", "c": "west"}
    members = {name: tagged(name, zone) for name, zone in zones.items()}
    configs = AssignmentConfigs(num_standby_replicas=1, rack_aware_tags=("zone",))
    plan = compute(members, configs=configs)
    runs = {number: zones[name] for name in members for number in active(plan, name)}
    stands_by = {
        number: zones[name]
        for name, each in plan.assignments.items()
        for number in numbers(each.metadata.standby_tasks)
    }
    assert sorted(runs) == sorted(stands_by) == [0, 1, 2, 3]
    assert all(runs[number] != stands_by[number] for number in runs)


def test_one_request_to_shut_down_is_answered_to_all() -> None:
    members = {"a": instance("p", target=range(4)), "b": instance("q", reason=Reason.SHUTDOWN)}
    assert compute(members) == ClientSideAssignment(
        {"a": InstanceTasks(), "b": InstanceTasks()},
        AssignmentError.SHUTDOWN,
        ("nobody gets anything: b asks all instances to shut down",),
    )


def test_while_topologies_differ_every_member_keeps_its_older_target() -> None:
    members = {
        "a": instance("p", target=(0, 1)),
        "b": instance("q", WORDS, target=(2, 3)),
        "c": AssignableInstance(("other",), instance("r").metadata, target=lines(0)),
        "d": AssignableInstance(("lines",), None, target=lines(3, 4)),
    }
    queries: list[Any] = []
    assert compute(members, queries=queries) == ClientSideAssignment(
        {
            "a": InstanceTasks(lines(0, 1)),
            "b": InstanceTasks(lines(2, 3)),
            "c": InstanceTasks(),
            "d": InstanceTasks(lines(3)),
        },
        AssignmentError.INCONSISTENT_TOPOLOGY,
        (
            "every task stays where it is until all instances run the same topology: b has told "
            "the group of another one than this instance runs",
        ),
    )
    assert queries == []


def test_a_topology_of_which_the_group_has_not_heard_yet_is_not_assigned() -> None:
    members = {"a": instance("p", target=(0, 1)), "b": instance("q", target=(2, 3))}
    queries: list[Any] = []
    assert compute(members, LINES, queries=queries) == ClientSideAssignment(
        {"a": InstanceTasks(lines(0, 1)), "b": InstanceTasks(lines(2, 3))},
        AssignmentError.INCONSISTENT_TOPOLOGY,
        (
            "every task stays where it is until all instances run the same topology: a has told "
            "the group of another one than this instance runs",
        ),
    )
    assert queries == []


@pytest.mark.parametrize(
    ("existing", "error", "why", "missing"),
    [
        (
            {"other": 1},
            AssignmentError.MISSING_SOURCES,
            "source topics are missing: lines; create them, and start again",
            ("lines",),
        ),
        (
            {"lines": 4},
            AssignmentError.ASSIGNMENT_ERROR,
            "internal topic g-changelog has 3 partitions and should have 4: reset the "
            "application, or give its topics the partitions they had",
            (),
        ),
    ],
)
def test_a_topology_that_cannot_run_is_an_error_of_all(
    existing: dict[str, int], error: AssignmentError, why: str, missing: tuple[str, ...]
) -> None:
    plan = compute({"a": instance("p")}, existing=existing, made={"g-changelog": 3})
    assert plan == ClientSideAssignment(
        {"a": InstanceTasks()},
        error,
        (f"nobody gets anything: {why}",),
        missing=missing,
    )


def test_tasks_of_a_topic_that_was_just_made_follow_in_the_next_assignment() -> None:
    ends = {TopicPartition("g-counts-changelog", number): 0 for number in range(4)}
    joining = AssignableInstance(("lines",), instance("p", WORDS).metadata)
    first = compute({"a": joining}, WORDS, ends=ends)
    assert first.assignments["a"].partitions == lines(0, 1, 2, 3)
    both = {"lines": 4, "g-words": 4}
    then = compute({"a": instance("p", WORDS, target=range(4))}, WORDS, existing=both, ends=ends)
    assert len(then.assignments["a"].partitions) == 8


def test_members_that_cannot_be_read_or_read_other_topics_get_nothing() -> None:
    members = {
        "a": instance("p"),
        "b": AssignableInstance(("lines",), None),
        "c": AssignableInstance(("other",), instance("q").metadata),
    }
    plan = compute(members, existing={"lines": 4, "other": 1})
    assert active(plan, "a") == [0, 1, 2, 3]
    # With the hash, so that a member whose topology was changed knows that it was assigned anew.
    nothing = InstanceTasks(
        metadata=Kip848AssignmentMetadata(topology_hash=hash_of_topology(STATE))
    )
    assert (plan.assignments["b"], plan.assignments["c"]) == (nothing, nothing)
    assert plan.notes == (
        "b is assigned nothing: its metadata cannot be read",
        "c is assigned nothing: it does not subscribe to lines, as this topology does",
    )
    del members["a"]
    assert compute(members).assignments == {"b": nothing, "c": nothing}


def test_without_the_ends_of_changelogs_every_task_stays_and_the_group_looks_again() -> None:
    plan = compute({"a": instance("p", target=range(4)), "b": instance("q")}, ends=None)
    assert (active(plan, "a"), active(plan, "b")) == ([0, 1, 2, 3], [])
    assert plan.is_fallback
    assert plan.notes == (
        "everybody keeps what it has, as the ends of changelogs are unknown: no broker",
    )


def test_a_hash_is_the_same_for_a_topology_in_another_order_and_for_no_other() -> None:
    one, same, other = (
        topology_of(
            [
                {
                    "sources": sources,
                    "changelogs": [{"name": "log", "configs": configs}],
                    "copartition": [sources],
                }
            ]
        )
        for sources, configs in (
            (["a", "b"], {"x": "1", "y": "2"}),
            (["b", "a"], {"y": "2", "x": "1"}),
            (["a", "b"], {"x": "1", "y": "3"}),
        )
    )
    assert hash_of_topology(one) == hash_of_topology(same) != hash_of_topology(other)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sets(st.integers(0, 5)),
            st.dictionaries(st.integers(0, 5), st.integers(RESTORE_FAILED, 1_200)),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 2),
)
def test_every_task_runs_once_and_no_process_has_two_roles_in_a_task(
    members: list[tuple[int, set[int], dict[int, int]]], standbys: int
) -> None:
    instances: dict[str, Any] = {}
    free = set(range(6))
    for number, (process, owns, lags) in enumerate(members):
        owned, free = sorted(owns & free), free - owns
        instances[f"m{number}"] = instance(f"p{process}", target=tuple(owned), lags=lags)
    configs = FEW._replace(num_standby_replicas=standbys)
    plan = compute(instances, existing={"lines": 6}, configs=configs)
    assert sorted(number for member in instances for number in active(plan, member)) == list(
        range(6)
    )
    assert sum(map(len, warmups(plan).values())) <= configs.max_warmup_replicas
    roles: Any = {}
    for member, each in plan.assignments.items():
        process_id = instances[member].metadata.process_id
        metadata = each.metadata
        for role in (metadata.active_tasks, metadata.standby_tasks, metadata.warmup_tasks):
            for number in numbers(role):
                assert roles.setdefault((process_id, number), (member, role)) == (member, role)
        for number in numbers(metadata.warmup_tasks):
            assert all(
                (number, RESTORE_FAILED)
                not in [(lag.partition, lag.lag) for lag in other.metadata.task_lags]
                for other in instances.values()
                if other.metadata.process_id == process_id
            )


@given(st.integers(1, 5), st.integers(1, 8), st.integers(0, 2))
def test_a_group_whose_copies_catch_up_ends_in_equal_shares_and_stays_so(
    processes: int, partitions: int, standbys: int
) -> None:
    names = [f"m{number}" for number in range(processes)]
    members = {
        name: instance(name, target=range(partitions) if name == "m0" else ()) for name in names
    }
    configs = FEW._replace(num_standby_replicas=standbys)
    plans = []
    for _ in range(2 * partitions + 4):
        plans.append(compute(members, existing={"lines": partitions}, configs=configs))
        members = {
            name: instance(
                name, target=tuple(active(plans[-1], name)), lags=copies(plans[-1], name)
            )
            for name in names
        }
    sizes = [len(active(plans[-1], name)) for name in names]
    assert sum(sizes) == partitions
    assert max(sizes) - min(sizes) <= 1
    assert not any(warmups(plans[-1]).values())
    assert plans[-1] == plans[-2]


def copies(plan: ClientSideAssignment, member: str) -> dict[int, int]:
    """The lags of a member whose copies have caught up."""
    metadata = plan.assignments[member].metadata
    return dict.fromkeys(numbers((*metadata.standby_tasks, *metadata.warmup_tasks)), 0)
