"""A Streams member of a KIP-848 group whose topology is changed, event by event."""

from apportion.machine import Tick
from apportion.member.membership import Adopted, Answered, SendToCoordinator, Subscribe
from apportion.member.streams.client_side_machine import ChangeTopology
from apportion.streams.metadata.kip848 import Reason
from apportion.streams.topology_parser import topology_of
from tests.member.client_side_streams_messages import assigned, offers, running, tasks
from tests.member.consumer_messages import P0, at, beat


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
    assert member.step(Tick(), at(1_000)) == [SendToCoordinator(7, beat(2), 5_000)]
    member.step(Answered(7, assigned(3, said=tasks())), at(1_000))
    narrowed = {"subscribed_topic_names": ("more",), **offers({0: 0}, Reason.NONE, newer)}
    assert member.step(Adopted(1, ()), at(1_000)) == [
        SendToCoordinator(8, beat(3, topic_partitions=(), **narrowed), 5_000)
    ]
