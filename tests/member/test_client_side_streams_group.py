"""Streams members of KIP-848 groups, with a real coordinator between them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.member.membership import Leave
from apportion.member.streams.client_side_machine import ChangeTopology, WarmUpFailed
from apportion.member.streams.machine import ShutDownApplication
from apportion.streams.metadata.model import TaskId
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from tests.member.simulated_client_side_group import SimulatedClientSideGroup
from tests.member.simulated_group import Actor

ALL = [f"{part}_{number}" for part in range(2) for number in range(4)]
NAMES = "abcd"
CHANGELOG = "g-counts-changelog"


def active(group: SimulatedClientSideGroup) -> dict[str, list[str]]:
    return {name: roles[0] for name, roles in group.given().items()}


def copies(group: SimulatedClientSideGroup, name: str) -> list[TaskId]:
    share = group.actors[name].machine.tasks()
    return [*share.standby, *share.warmup]


def with_state(group: SimulatedClientSideGroup, end: int = 100) -> None:
    group.ends = {TopicPartition(CHANGELOG, number): end for number in range(4)}


def test_a_lone_member_makes_the_internal_topics_and_has_every_task() -> None:
    group = SimulatedClientSideGroup()
    group.starts("a")
    group.settle()
    assert group.given() == {"a": (ALL, [])}
    assert group.sizes == {"lines": 4, "g-words": 4, CHANGELOG: 4}


def test_a_task_is_used_by_nobody_while_its_owner_uses_it() -> None:
    group = SimulatedClientSideGroup()
    group.starts("a")
    group.settle()
    second = group.starts("b")
    group.passes(5_000, quick=[second])
    assert active(group)["b"] == []
    group.settle()
    assert sorted(active(group)["a"] + active(group)["b"]) == ALL


def installing(group: SimulatedClientSideGroup) -> str | None:
    """The name of the member whose target is on its way to the coordinator."""
    for actor, what, _ in group.mail:
        computing = actor.computing
        if what == "ask" and computing is not None:
            request = computing.request
            if isinstance(request, ConsumerGroupInstallAssignmentRequest):
                return actor.name
    return None


def test_a_member_that_crashes_before_it_installs_is_followed_by_another() -> None:
    group = SimulatedClientSideGroup()
    group.starts("a")
    group.settle()
    group.starts("b")
    while (chosen := installing(group)) is None:
        if group.mail:
            group.deliver(0)
        else:
            group.wait(250)
    group.mail = [each for each in group.mail if each[0].name != chosen]
    del group.actors[chosen]
    group.settle()
    assert list(active(group).values()) == [ALL]


def test_a_static_instance_that_is_started_again_has_its_tasks() -> None:
    group = SimulatedClientSideGroup()
    first = group.starts("a", instance_id="one")
    group.starts("b")
    group.settle()
    before = active(group)
    group.tell(first, Leave(for_good=False))
    group.passes(1_000)
    group.starts("a", instance_id="one")
    group.passes(5_000)
    assert active(group) == before


def test_an_instance_that_asks_for_it_ends_all_and_all_leave() -> None:
    group = SimulatedClientSideGroup()
    first, second = group.starts("a"), group.starts("b")
    group.settle()
    group.tell(second, ShutDownApplication())
    group.passes(5_000)
    why = "INVALID_REQUEST: an instance has asked all instances to shut down"
    assert (first.failed, second.failed) == (why, why)
    assert group.current() == ()


def test_a_shutdown_outlives_the_crash_of_the_coordinator_and_of_the_chosen() -> None:
    group = SimulatedClientSideGroup()
    first, second, third = (group.starts(name) for name in "abc")
    group.settle()
    group.tell(second, ShutDownApplication())
    group.deliver_to(second)
    group.crash()
    group.mail = [each for each in group.mail if each[0] is not first]
    del group.actors["a"]
    group.passes(30_000)
    assert second.failed == third.failed is not None
    assert second.failed is not None
    assert second.failed.endswith("an instance has asked all instances to shut down")


def test_a_topology_that_all_instances_have_changed_is_assigned() -> None:
    newer = topology_of([{"sources": ["lines"]}])
    group = SimulatedClientSideGroup()
    first, second = group.starts("a"), group.starts("b")
    group.settle()
    before = active(group)
    group.tell(first, ChangeTopology(newer))
    group.passes(3_000)
    assert active(group) == before
    group.topology = newer
    group.tell(second, ChangeTopology(newer))
    group.settle()
    assert sorted(active(group)["a"] + active(group)["b"]) == ALL[:4]


def test_a_changed_topology_brings_its_new_source_topic_and_moves_no_other_task() -> None:
    group = SimulatedClientSideGroup(topology_of([{"sources": ["lines"]}]), lines=4, more=4)
    first, second = group.starts("a"), group.starts("b")
    group.settle()
    before = active(group)
    group.topology = newer = topology_of([{"sources": ["lines"]}, {"sources": ["more"]}])
    group.tell(first, ChangeTopology(newer))
    group.passes(3_000)
    assert active(group) == before
    group.tell(second, ChangeTopology(newer))
    group.settle()
    kept = {
        name: [task for task in tasks if task[0] == "0"] for name, tasks in active(group).items()
    }
    assert kept == before
    assert sorted(active(group)["a"] + active(group)["b"]) == ALL
    assert not [note for note in group.notes if "is assigned nothing" in note]


def test_a_topology_that_all_change_at_once_ends_nobody() -> None:
    group = SimulatedClientSideGroup(topology_of([{"sources": ["lines"]}]), lines=4, more=4)
    every = group.starts("a"), group.starts("b")
    group.settle()
    group.topology = newer = topology_of([{"sources": ["lines"]}, {"sources": ["more"]}])
    for each in every:
        group.tell(each, ChangeTopology(newer))
    group.settle()
    assert sorted(active(group)["a"] + active(group)["b"]) == ALL


def test_a_topology_that_changes_soon_after_another_reason_stops_nobody() -> None:
    group = SimulatedClientSideGroup()
    first = group.starts("a")
    group.starts("b")
    group.settle()
    before = active(group)
    group.tell(first, WarmUpFailed((TaskId(0, 0),)))
    group.deliver_to(first)
    group.wait(300)
    group.tell(first, ChangeTopology(topology_of([{"sources": ["lines"]}])))
    for _ in range(20):
        group.passes(500)
        assert active(group) == before


def test_a_changed_topology_outlives_a_crash_of_the_coordinator_that_has_accepted_it() -> None:
    newer = topology_of([{"sources": ["lines"]}])
    group = SimulatedClientSideGroup()
    first, second = group.starts("a"), group.starts("b")
    group.settle()
    group.tell(first, ChangeTopology(newer))
    group.passes(3_000)
    group.tell(second, WarmUpFailed((TaskId(0, 0),)))
    group.run(second, adopts=True)
    group.wait(300)
    group.tell(second, ChangeTopology(newer))
    group.run(second, adopts=True)
    group.crash()
    group.topology = newer
    group.passes(40_000)
    assert sorted(active(group)["a"] + active(group)["b"]) == ALL[:4]


TWO_PARTS = topology_of([{"sources": ["lines"]}, {"sources": ["more"]}])
ONE_PART = topology_of([{"sources": ["lines", "more"]}])
TASKS_OF_TWO_PARTS = ["0_0", "0_1", "1_0", "1_1"]


def sharing_with_a_second(events: int) -> tuple[SimulatedClientSideGroup, Actor, Actor]:
    """A group so many events after a second instance has started: its target may be on its way."""
    group = SimulatedClientSideGroup(TWO_PARTS, lines=2, more=2)
    first = group.starts("a")
    group.settle()
    second = group.starts("b")
    for _ in range(events):
        if group.mail:
            group.deliver(0)
            for each in group.alive():
                group.adopts(each)
        else:
            group.wait(250)
    return group, first, second


@pytest.mark.parametrize("events", range(1, 25, 3))
def test_no_task_stops_if_the_topology_changes_while_partitions_move(events: int) -> None:
    group, first, second = sharing_with_a_second(events)
    group.tell(first, ChangeTopology(ONE_PART))
    group.passes(10_000)
    assert sorted(active(group)["a"] + active(group)["b"]) == TASKS_OF_TWO_PARTS
    group.topology = ONE_PART
    group.tell(second, ChangeTopology(ONE_PART))
    group.passes(10_000)
    assert sorted(active(group)["a"] + active(group)["b"]) == ["0_0", "0_1"]


@pytest.mark.parametrize("events", range(1, 25, 3))
def test_no_task_stops_if_another_topology_starts_while_partitions_move(
    events: int,
) -> None:
    group, _, _ = sharing_with_a_second(events)
    group.starts("c", topology=ONE_PART)
    group.passes(10_000)
    assert sorted(active(group)["a"] + active(group)["b"]) == TASKS_OF_TWO_PARTS
    assert active(group)["c"] == []


def test_static_instances_that_are_started_again_with_another_topology_get_its_tasks() -> None:
    group = SimulatedClientSideGroup(TWO_PARTS, lines=2, more=2)
    for name in "ab":
        group.starts(name, instance_id=name)
    group.settle()
    group.topology = ONE_PART
    for name in "ab":
        group.tell(group.actors[name], Leave(for_good=False))
        group.passes(1_000)
        group.starts(name, instance_id=name)
        group.passes(5_000)
    assert sorted(active(group)["a"] + active(group)["b"]) == ["0_0", "0_1"]


def test_a_warm_up_that_failed_leaves_the_task_where_it_is() -> None:
    group = SimulatedClientSideGroup()
    group.starts("a")
    group.settle()
    with_state(group)
    second = group.starts("b")
    group.settle()
    failed = copies(group, "b")
    assert len(failed) == 2
    group.tell(second, WarmUpFailed(tuple(failed)))
    group.settle()
    group.passes(2_000)
    assert copies(group, "b") == []
    assert set(map(str, failed)) <= set(active(group)["a"])


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["start", "leave", "adopt", "restore", "fail"]), st.sampled_from(NAMES)
        ),
        st.tuples(st.sampled_from(["deliver", "lose"]), st.integers(0, 100)),
        st.tuples(st.just("wait"), st.sampled_from([0, 100, 1_000, 12_000])),
        st.tuples(st.sampled_from(["crash", "foreign"]), st.none()),
    ),
    max_size=80,
)


def play(group: SimulatedClientSideGroup, operation: str, which: Any) -> None:
    actor = group.actors.get(which) if isinstance(which, str) else None
    match operation:
        case "start" if actor is None or actor.left is not None:
            # Two of them are static members, whose partitions wait for them.
            group.starts(which, instance_id=which if which in "cd" else None)
        case "leave" if actor is not None:
            group.leaves(actor)
        case "adopt" if actor is not None:
            group.adopts(actor)
        case "restore" if actor is not None:
            group.has[which] = dict.fromkeys(copies(group, which), 100)
        case "fail" if actor is not None:
            group.tell(actor, WarmUpFailed(tuple(copies(group, which)[:1])))
        case "deliver" if group.mail:
            group.deliver(which)
        case "lose" if group.mail:
            group.lose(which)
        case "wait":
            group.wait(which)
        case "crash":
            group.crash()
        case "foreign":
            foreign = group.actors.get("foreign")
            if foreign is None or foreign.left is not None:
                # Without the assignor: the broker assigns as long as it is there.
                group.joins("foreign", topics=group.topology.source_topics)
            else:
                group.leaves(foreign)


JOINING = topology_of(
    [
        {"sources": ["lines", "more"], "repartition_sinks": ["g-words"]},
        {"repartition_sources": ["g-words"], "changelogs": [CHANGELOG]},
    ]
)
READ = {
    TaskId(part, number): tuple(TopicPartition(topic, number) for topic in topics)
    for part, topics in enumerate((("lines", "more"), ("g-words",)))
    for number in range(4)
}


@given(OPERATIONS)
def test_every_task_runs_once_when_a_group_has_come_to_rest(
    operations: list[tuple[str, Any]],
) -> None:
    group = SimulatedClientSideGroup(JOINING, lines=4, more=4)
    with_state(group)
    for operation, which in operations:
        play(group, operation, which)
        for member in group.instances().values():
            for task, read in member.tasks().active.items():
                assert read == READ[task]
    if (foreign := group.actors.pop("foreign", None)) is not None and foreign.left is None:
        group.leaves(foreign)
    if group.alive():
        group.settle()
        assert sorted(task for tasks in active(group).values() for task in tasks) == ALL
