"""Which tasks a Streams leader gives to each consumer, and which it withholds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.streams.consumer_assignments import ConsumerAssignment
from apportion.streams.leader import GroupAssignment
from apportion.streams.metadata.model import RUNNING, AssignmentInfo, AssignorError, TaskId
from apportion.streams.task_assignment.client_metadata import ConsumerMetadata
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition
from tests.streams.leader_runs import LINES, STATE, lead, lines, subscription, tasks

RESTORING = dict.fromkeys(tasks(0, 1, 2, 3), 3)
ENDS = {TopicPartition("g-changelog", number): 1_000_000 for number in range(4)}


def test_a_lone_member_is_told_the_task_of_each_of_its_partitions() -> None:
    assert lead(LINES, {"a": subscription("a")}) == GroupAssignment(
        {"a": ConsumerAssignment(lines(0, 1, 2, 3), AssignmentInfo(11, 11, tasks(0, 1, 2, 3)))}
    )


def test_a_task_with_two_sources_is_named_for_each_of_its_partitions() -> None:
    both = topology_of([{"sources": ["lines", "other"]}])
    plan = lead(both, {"a": subscription("a")}, existing={"lines": 2, "other": 1})
    assert plan.assignments["a"] == ConsumerAssignment(
        (*lines(0, 1), TopicPartition("other", 0)),
        AssignmentInfo(11, 11, (TaskId(0, 0), TaskId(0, 1), TaskId(0, 0))),
    )


def test_a_task_that_another_member_owns_is_withheld_until_an_immediate_rejoin() -> None:
    plan = lead(LINES, {"a": subscription("a", owned=(0, 1, 2, 3)), "b": subscription("b")})
    assert len(plan.assignments["a"].partitions) == 2
    assert plan.assignments["b"] == ConsumerAssignment(
        (), AssignmentInfo(11, 11, next_rebalance_ms=0)
    )
    assert plan.assignments["a"].info.next_rebalance_ms is None


def test_eager_members_own_nothing_so_that_nothing_is_withheld() -> None:
    plan = lead(LINES, {"a": subscription("a", version=2), "b": subscription("b", version=2)})
    assert sorted(
        partition for share in plan.assignments.values() for partition in share.partitions
    ) == list(lines(0, 1, 2, 3))
    assert {share.info.used for share in plan.assignments.values()} == {2}


def test_the_state_of_what_is_withheld_is_kept_as_a_standby() -> None:
    ends = {TopicPartition("g-changelog", number): 100 for number in range(4)}
    subscriptions = {
        "a": subscription("a", owned=(0, 1, 2, 3)),
        "b": subscription("b", sums={TaskId(0, number): 100 for number in range(4)}),
    }
    plan = lead(STATE, subscriptions, ends=ends)
    assert set(plan.assignments["b"].info.standby) == set(tasks(0, 1, 2, 3)) - set(
        plan.assignments["a"].info.active
    )
    assert plan.assignments["b"].info.next_rebalance_ms == 0


def test_sticky_leaves_a_task_with_who_restores_it_though_another_has_more_of_it() -> None:
    subscriptions = {
        "a": subscription("a", owned=(0, 1), sums=dict.fromkeys(tasks(2, 3), 900_000)),
        "b": subscription("b", owned=(2, 3), sums=dict.fromkeys(tasks(0, 1), 900_000)),
    }
    plan = lead(STATE, subscriptions, ends=ENDS, settings={"assignor": "sticky"})
    assert {name: share.info.active for name, share in plan.assignments.items()} == {
        "a": tasks(0, 1),
        "b": tasks(2, 3),
    }


def test_two_that_cannot_be_read_and_claim_the_same_keep_nobody_busy() -> None:
    plan = lead(
        LINES,
        {
            "a": subscription("a"),
            "b": ConsumerMetadata(None, lines(0)),
            "c": ConsumerMetadata(None, lines(0)),
        },
    )
    assert plan.assignments["a"] == ConsumerAssignment(
        lines(1, 2, 3), AssignmentInfo(11, 11, tasks(1, 2, 3))
    )


@pytest.mark.parametrize("sums", [{}, RESTORING])
def test_a_thread_is_no_standby_of_a_task_that_its_process_restores(
    sums: dict[TaskId, int],
) -> None:
    subscriptions = {
        "a1": subscription("p", owned=range(4), sums=sums),
        "a2": subscription("p", sums=RESTORING),
    }
    plan = lead(STATE, subscriptions, ends=ENDS, member="a1")
    assert {
        name: (len(share.info.active), share.info.standby)
        for name, share in plan.assignments.items()
    } == {
        "a1": (2, {}),
        "a2": (0, {}),
    }


def test_a_thread_keeps_what_it_was_given_and_has_said_nothing_of() -> None:
    subscriptions = {
        "a1": subscription("p"),
        "a2": subscription("p", owned=(0, 1)),
        "b": subscription("b", owned=(2, 3)),
    }
    plan = lead(
        STATE,
        subscriptions,
        ends=ENDS,
        member="a1",
        settings={"configs": AssignmentConfigs(acceptable_recovery_lag=2**62)},
    )
    kept = {
        name: set(share.info.active) & set(tasks(0, 1)) for name, share in plan.assignments.items()
    }
    assert kept["a2"]
    assert not kept["b"]


def test_members_of_2_4_and_2_5_keep_what_they_own_until_others_have_caught_up() -> None:
    subscriptions = {"a": subscription("a", version=6, owned=range(4)), "b": subscription("b")}
    plan = lead(STATE, subscriptions, ends=ENDS)
    assert {
        name: (len(share.info.active), len(share.info.standby))
        for name, share in plan.assignments.items()
    } == {
        "a": (4, 0),
        "b": (0, 2),
    }


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sets(st.integers(0, 5)),
            st.dictionaries(st.integers(0, 5), st.integers(-3, 200)),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 2),
)
def test_for_any_claims_no_task_is_assigned_twice_in_two_roles_or_while_owned(
    members: list[tuple[int, set[int], dict[int, int]]], standbys: int
) -> None:
    subscriptions: dict[str, Any] = {}
    free = set(range(6))
    for number, (process, owns, sums) in enumerate(members):
        owned, free = sorted(owns & free), free - owns
        subscriptions[f"m{number}"] = subscription(
            f"p{process}", owned=owned, sums={TaskId(0, task): sum_ for task, sum_ in sums.items()}
        )
    ends = {TopicPartition("g-changelog", number): 100 for number in range(6)}
    plan = lead(
        STATE,
        subscriptions,
        existing={"lines": 6},
        ends=ends,
        member="m0",
        settings={
            "configs": AssignmentConfigs(num_standby_replicas=standbys, acceptable_recovery_lag=10)
        },
    )
    given_to = {}
    roles: Any = {}
    for member, share in plan.assignments.items():
        process = subscriptions[member].info.process_id
        for task in {*share.info.active, *share.info.standby}:
            assert roles.setdefault((process, task), member) == member
        assert not set(share.info.active) & set(share.info.standby)
        for partition in share.partitions:
            assert partition not in given_to
            given_to[partition] = member
        assert len(share.partitions) == len(share.info.active)
    for member, consumer in subscriptions.items():
        for partition in consumer.owned_partitions:
            assert given_to.get(partition, member) == member
    withheld = [partition for partition in lines(*range(6)) if partition not in given_to]
    assert bool(withheld) == any(
        share.info.next_rebalance_ms == 0 for share in plan.assignments.values()
    )
    for process in {consumer.info.process_id for consumer in subscriptions.values()}:
        shared = [
            task
            for member, consumer in subscriptions.items()
            if consumer.info.process_id == process
            for task in (
                *dict.fromkeys(plan.assignments[member].info.active),
                *plan.assignments[member].info.standby,
            )
        ]
        assert len(shared) == len(set(shared))


def test_an_unreadable_member_gets_nothing_and_its_tasks_are_withheld() -> None:
    plan = lead(LINES, {"a": subscription("a"), "b": ConsumerMetadata(None, lines(0, 1))})
    assert plan.assignments["b"] == ConsumerAssignment(
        (), AssignmentInfo(11, 11, error=AssignorError.ASSIGNMENT_ERROR)
    )
    assert plan.assignments["a"] == ConsumerAssignment(
        lines(2, 3), AssignmentInfo(11, 11, tasks(2, 3))
    )  # b comes by itself when it has let go
    assert lead(LINES, {"b": ConsumerMetadata(None)}).assignments == {"b": plan.assignments["b"]}


@pytest.mark.parametrize("sums", [{}, RESTORING, dict.fromkeys(RESTORING, RUNNING)])
def test_without_end_offsets_members_keep_their_tasks_however_much_is_restored(
    sums: dict[TaskId, int],
) -> None:
    plan = lead(
        STATE,
        {
            "a": subscription("a", owned=range(4), sums=sums),
            "b": subscription("b", sums=dict.fromkeys(RESTORING, 9)),
        },
    )
    assert {name: share.info.active for name, share in plan.assignments.items()} == {
        "a": tasks(0, 1, 2, 3),
        "b": (),
    }
