"""A Streams member of a KIP-848 group whose topology is changed, event by event."""

from apportion.machine import Note, Tick
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import (
    Adopted,
    Answered,
    MetadataFetched,
    SendToCoordinator,
    Subscribe,
    to_id_parts,
)
from apportion.member.streams.client_side_machine import ChangeTopology
from apportion.streams.metadata.kip848 import Reason
from apportion.streams.topology_parser import topology_of
from tests.member.client_side_streams_messages import (
    assigned,
    joining,
    offers,
    running,
    share,
    tasks,
)
from tests.member.consumer_messages import P0, P1, T, accepted, at, beat


def test_a_changed_topology_asks_for_a_new_assignment_with_its_hash() -> None:
    newer = topology_of([{"sources": ["t"]}])
    member = running(P0)
    assert member.step(ChangeTopology(newer), at(0)) == [
        SendToCoordinator(6, beat(1, **offers({0: 0}, Reason.TOPOLOGY_CHANGED, newer)), 5_000)
    ]


def test_topics_of_the_older_topology_are_left_when_tasks_of_the_newer_are_assigned() -> None:
    newer = topology_of([{"sources": ["more"]}])
    member = running(P0)
    changed = offers({0: 0}, Reason.TOPOLOGY_CHANGED, newer)
    assert member.step(ChangeTopology(newer), at(0)) == [
        SendToCoordinator(6, beat(1, subscribed_topic_names=("more", "t"), **changed), 5_000)
    ]
    assert member.step(Subscribe(("more",)), at(0)) == []
    member.step(Answered(6, assigned(2, P0, said=tasks(0))), at(0))
    assert member.tasks() == share(2, 0)
    assert member.step(Tick(), at(1_000)) == [SendToCoordinator(7, beat(2), 5_000)]
    member.step(Answered(7, assigned(3, said=tasks(topology=newer))), at(1_000))
    assert member.tasks() == share(3)
    narrowed = {"subscribed_topic_names": ("more",), **offers({0: 0}, Reason.NONE, newer)}
    assert member.step(Adopted(1, ()), at(1_000)) == [
        SendToCoordinator(8, beat(3, topic_partitions=(), **narrowed), 5_000)
    ]


def test_a_member_takes_up_tasks_of_the_older_target_while_topologies_differ() -> None:
    member = running(P0, said=tasks(0, 1))
    assert member.tasks() == share(1, 0)
    member.step(ChangeTopology(topology_of([{"sources": ["more"]}])), at(0))
    member.step(Answered(6, assigned(2, P0, P1, said=tasks(0, 1), error=3)), at(0))
    assert member.tasks() == share(2, 0, 1)


def test_a_member_that_is_told_of_tasks_of_another_topology_asks_once_for_its_own() -> None:
    said = tasks(0, topology=topology_of([{"sources": ["t"]}]))
    member = joining()
    member.step(Answered(3, assigned(1, P0, said=said)), at(0))
    assert member.step(MetadataFetched(4, (TopicDescription("t", T, 3),)), at(0)) == [
        Note(
            "warning",
            "this instance goes on with the tasks that it has: the assignment has tasks of a "
            "topology that this instance does not run",
        ),
        SendToCoordinator(
            5,
            beat(1, topic_partitions=to_id_parts((P0,)), **offers({}, Reason.TOPOLOGY_CHANGED)),
            5_000,
        ),
    ]
    assert member.tasks().active == {}
    member.step(Answered(5, accepted(1, unchanged=True)), at(0))
    member.step(Tick(), at(1_000))
    member.step(Answered(6, assigned(2, P0, said=said, error=3)), at(1_000))
    assert member.step(Tick(), at(2_000)) == [SendToCoordinator(7, beat(2), 5_000)]
