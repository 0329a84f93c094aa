"""Members of a Kafka Streams group, with a real coordinator between them."""

from collections.abc import Generator, Mapping
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicShape
from apportion.member.assignors.interface import Assignor, FollowUp, MemberFailure, Rebalance
from apportion.member.membership import MembershipState
from apportion.member.streams.machine import ShutDownApplication
from apportion.streams.metadata.codec import decode_assignment
from apportion.streams.metadata.model import AssignorError, TaskId
from apportion.topics import TopicPartition
from tests.member.simulated_streams_group import SimulatedStreamsGroup

HALF = [TaskId(1, 0), TaskId(1, 1)]
ALL = [f"{part}_{number}" for part in range(2) for number in range(4)]


def tasks_of(group: SimulatedStreamsGroup, role: int = 0) -> dict[str, list[str]]:
    return {name: roles[role] for name, roles in group.given().items()}


def versions(group: SimulatedStreamsGroup) -> dict[str, int]:
    return {name: actor.machine.tasks().used for name, actor in group.actors.items()}


def test_a_lone_member_makes_the_internal_topics_and_has_every_task() -> None:
    group = SimulatedStreamsGroup()
    group.starts("a")
    group.settle()
    assert group.given() == {"a": (ALL, [])}
    assert group.sizes == {"lines": 4, "g-words": 4, "g-counts-changelog": 4}


def test_a_newcomer_gets_its_share_once_others_have_let_go_of_it() -> None:
    group = SimulatedStreamsGroup()
    group.starts("a")
    group.settle()
    group.starts("b")
    group.settle()
    tasks = tasks_of(group)
    assert sorted(tasks["a"] + tasks["b"]) == ALL
    assert len(tasks["a"]) == len(tasks["b"]) == 4


def test_a_task_is_given_to_nobody_while_its_owner_uses_it() -> None:
    group = SimulatedStreamsGroup()
    first = group.starts("a")
    group.settle()
    second = group.starts("b")
    group.passes(5_000, quick=[second])
    assert group.given()["b"] == ([], [])
    assert first.view.state is MembershipState.RECONCILING
    group.settle()
    assert sorted(tasks_of(group)["a"] + tasks_of(group)["b"]) == ALL


def test_missing_source_topics_end_every_member_with_the_same_sentence() -> None:
    group = SimulatedStreamsGroup(other=1)
    actor = group.starts("a")
    group.passes(1_000)
    assert actor.failed == (
        "UNKNOWN_TOPIC_OR_PARTITION: source topics are missing: lines; create them, and start again"
    )
    assert group.notes == [
        "nobody gets anything: source topics are missing: lines; create them, and start again"
    ]


def test_one_that_asks_for_it_ends_all_instances() -> None:
    group = SimulatedStreamsGroup()
    first, second = group.starts("a"), group.starts("b")
    group.settle()
    group.tell(second, ShutDownApplication())
    group.passes(10_000)
    assert {first.failed, second.failed} == {
        "INVALID_REQUEST: an instance has asked all instances to shut down"
    }


def test_a_removed_member_requests_the_application_shutdown_when_it_has_rejoined() -> None:
    group = SimulatedStreamsGroup()
    first, second = group.starts("a"), group.starts("b")
    group.settle()
    group.puts_out(second)
    group.tell(second, ShutDownApplication())
    group.passes(20_000)
    assert {first.failed, second.failed} == {
        "INVALID_REQUEST: an instance has asked all instances to shut down"
    }


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_one_that_was_put_out_does_not_say_to_run_what_others_run_now(
    instance_id: str | None,
) -> None:
    group = SimulatedStreamsGroup()
    every = dict.fromkeys([TaskId(1, number) for number in range(4)], 1_000_000)
    group.ends = {TopicPartition("g-counts-changelog", number): 1_000_000 for number in range(4)}
    group.has = {"a": every, "b": every}
    first, second = group.starts("a", instance_id=instance_id), group.starts("b")
    group.settle()
    assert [
        len([task for task in tasks if task.startswith("1_")]) for tasks in tasks_of(group).values()
    ] == [2, 2]
    group.has = {}
    group.puts_out(first)
    for _ in range(80):
        group.run(second, adopts=True)
        group.wait(250)
    assert tasks_of(group)["b"] == ALL
    group.settle()
    assert sorted(tasks_of(group)["a"] + tasks_of(group)["b"]) == ALL
    assert [task for task in tasks_of(group)["a"] if task.startswith("1_")] == []


def test_a_member_that_is_removed_before_its_owner_revokes_still_shuts_down() -> None:
    group = SimulatedStreamsGroup()
    first, second = group.starts("a"), group.starts("b")
    group.settle()
    group.tell(first, ShutDownApplication())
    group.passes(5_000, quick=[first])
    assert (first.failed, second.failed) == (
        "INVALID_REQUEST: an instance has asked all instances to shut down",
        None,
    )
    group.puts_out(second)
    group.passes(10_000, quick=[])
    assert second.failed == first.failed


def test_without_the_ends_of_changelogs_everybody_keeps_what_it_has() -> None:
    group = SimulatedStreamsGroup()
    group.ends = None
    group.starts("a")
    group.settle()
    group.starts("b")
    group.settle()
    assert tasks_of(group) == {"a": ALL, "b": []}
    assert (
        "everybody keeps what it has, as the ends of changelogs are unknown: no broker"
        in group.notes
    )


def test_members_of_before_probing_and_the_newest_by_upgrade_from_are_one_group() -> None:
    group = SimulatedStreamsGroup()
    group.starts("old", release="1.1")
    group.starts("new", release="3.9", upgrade_from="1.1")
    group.settle()
    assert versions(group) == {"old": 2, "new": 2}
    assert sorted(tasks_of(group)["old"] + tasks_of(group)["new"]) == ALL


def test_a_newer_member_encodes_the_old_version_until_the_last_old_member_left() -> None:
    group = SimulatedStreamsGroup()
    old = group.starts("old")
    group.settle()
    new: Any = group.starts("new", release="future")
    group.settle()
    assert versions(group) == {"old": 11, "new": 11}
    assert (new.machine.used_version, new.machine.rejoins_with_newer_version) == (11, False)
    group.leaves(old)
    group.wait(1_000)
    group.settle()
    assert new.machine.used_version == 12
    assert new.machine.tasks().used == 12


def test_as_in_kip_268_the_last_rebalance_is_the_leaders_when_it_was_bounced_last() -> None:
    group = SimulatedStreamsGroup()
    leader = group.starts("leader", release="2.0")
    group.settle()
    group.starts("other", release="post-2.0")
    group.settle()
    assert versions(group) == {"leader": 3, "other": 3}
    group.leaves(leader)
    group.starts("leader", release="post-2.0")
    group.settle()
    assert versions(group) == {"leader": 12, "other": 12}


class Broken(Assignor):
    """Votes as a Streams member does, and says what none can read."""

    name = "stream"
    rebalances = (Rebalance.COOPERATIVE,)

    def user_data(self, topics: tuple[str, ...]) -> Any:
        return b"\0\0\0\x0b\0\0"

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> dict[str, Given] | Generator[Any, Any, dict[str, Given]]:
        return {}

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        self.given = given
        return None


def test_a_broken_member_gets_nothing_and_the_others_go_on() -> None:
    group: Any = SimulatedStreamsGroup()
    group.starts("a")
    group.settle()
    broken: Any = Broken()
    group.joins("b", broken, topics=("lines", "g-words"))
    group.settle()
    assert group.actors["a"].machine.tasks().active.keys() == {
        TaskId(part, number) for part in range(2) for number in range(4)
    }
    info: Any = decode_assignment(broken.given.user_data)
    assert (broken.given.partitions, info.error) == (
        (),
        AssignorError.ASSIGNMENT_ERROR,
    )
    assert any("is assigned nothing: StreamsSubscription" in note for note in group.notes)


@pytest.mark.parametrize(
    ("sums", "gets"), [({}, []), (dict.fromkeys(HALF, 1_000_000), ["1_0", "1_1"])]
)
def test_a_member_with_a_tasks_state_may_run_it_at_once(
    sums: dict[TaskId, int], gets: list[str]
) -> None:
    group = SimulatedStreamsGroup()
    group.starts("a")
    group.settle()
    group.ends = {TopicPartition("g-counts-changelog", number): 1_000_000 for number in range(4)}
    group.has["b"] = sums
    group.starts("b")
    group.settle()
    given = tasks_of(group)
    assert sorted(given["a"] + given["b"]) == ALL
    assert [task for task in given["b"] if task.startswith("1_")] == gets
