"""The static leader that comes back and is told to assign nothing (KIP-814), event by event: what
it sees of the topics.
"""

from typing import Any

import pytest

from apportion.assign.by_name import Subscription
from apportion.machine import Tick
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    FetchMetadata,
    MembershipState,
    MetadataFetched,
    Offer,
    SendToCoordinator,
    Subscribe,
)
from apportion.wire.messages.join_group import JoinGroupRequest
from tests.member.classic_messages import (
    P0,
    P1,
    PARKED_MS,
    SEEN,
    U,
    at,
    cooperative,
    eager,
    joined,
    synced,
    syncs,
)


def test_a_static_leader_that_returns_assigns_nothing_and_watches_the_topics_of_all() -> None:
    member = eager(instance_id="i")
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    members = (("m", Subscription(("t",))), ("n", Subscription(("u",))))
    answer = joined(3, *members, leader="m", skip_assignment=True)
    assert member.step(Answered(2, answer), at(0)) == [
        SendToCoordinator(3, syncs(3, instance_id="i"), PARKED_MS)
    ]
    assert member.step(Answered(3, synced(0, 1)), at(0)) == [FetchMetadata(4, ("t", "u"))]
    assert member.step(MetadataFetched(4, (SEEN,)), at(0)) == [Offer(1, (P0, P1), (), (P0, P1))]
    member.step(Adopted(1, (P0, P1)), at(0))
    assert member.wake_at() == 3_000
    changed = member.step(Tick(), at(300_000))[0]
    assert changed == FetchMetadata(5, ("t", "u"))
    assert member.step(MetadataFetched(5, (SEEN, TopicDescription("u", U, 1))), at(300_001)) == [
        Offer(1, (), (P0, P1), ())
    ]


def test_a_returning_static_leader_without_assignment_fetches_the_topics_first() -> None:
    member = cooperative(instance_id="i", metadata_interval_ms=1_000)
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    members = (("m", Subscription(("t",))), ("n", Subscription(("t",))))
    answer = joined(3, *members, leader="m", name="cooperative-sticky", skip_assignment=True)
    member.step(Answered(2, answer), at(0))
    assert member.step(Answered(3, synced()), at(0)) == [FetchMetadata(4, ("t",))]
    assert member.view().state is MembershipState.SYNCING
    member.step(MetadataFetched(4, (SEEN,)), at(0))
    assert member.view().state is MembershipState.STABLE
    member.step(Tick(), at(1_000))
    (send,) = member.step(MetadataFetched(5, (SEEN._replace(partitions=6),)), at(1_001))
    assert isinstance(send, SendToCoordinator)
    assert isinstance(send.request, JoinGroupRequest)
    assert send.request.reason == "topics have changed"


def test_a_returning_leader_whose_partitions_no_longer_exist_rejoins() -> None:
    member = cooperative(instance_id="i")
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    answer = joined(
        4, ("m", Subscription(("t",))), leader="m", name="cooperative-sticky", skip_assignment=True
    )
    member.step(Answered(2, answer), at(0))
    member.step(Answered(3, synced(0, 5)), at(0))
    offer, send = member.step(MetadataFetched(4, (SEEN,)), at(0))
    assert isinstance(send, SendToCoordinator)
    assert isinstance(send.request, JoinGroupRequest)
    assert (offer, send.request.reason) == (Offer(1, (P0,), (), (P0,)), "topics have changed")


@pytest.mark.parametrize(("partitions", "rejoins"), [(1, False), (0, True)])
def test_a_leader_sees_that_a_partition_that_it_was_given_is_gone(
    partitions: int, rejoins: bool
) -> None:
    member = eager(instance_id="i")
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(
        Answered(2, joined(3, ("m", Subscription(("t",))), leader="m", skip_assignment=True)), at(0)
    )
    member.step(Answered(3, synced(0)), at(0))
    offers: list[Any]
    last: Any
    *offers, last = member.step(MetadataFetched(4, (SEEN._replace(partitions=partitions),)), at(0))
    assert [type(each) for each in offers] == ([Offer] if rejoins else [])
    assert (
        last.request.reason == "topics have changed"
        if rejoins
        else last == Offer(1, (P0,), (), (P0,))
    )
