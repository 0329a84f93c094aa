"""What a classic member does when joining goes on for longer than it should, and what it says in a
join.
"""

from dataclasses import replace

import pytest

from apportion.assign.by_name import TopicParts
from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.classic.requests import ClassicSettings, join_request
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Leave,
    Lost,
    SendToCoordinator,
    Subscribe,
)
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.member.classic_messages import (
    P0,
    PARKED_MS,
    at,
    cooperative,
    eager,
    hears_of_a_rebalance,
    in_group,
    joined,
    joins,
    syncs,
)


def id_required(member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=Code.MEMBER_ID_REQUIRED, member_id=member_id)


def test_a_broker_that_never_has_enough_of_ids_is_asked_more_and_more_seldom() -> None:
    member = eager()
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    assert member.step(Answered(2, id_required("m")), at(0)) == [
        SendToCoordinator(3, joins("m"), PARKED_MS)
    ]
    assert (member.step(Answered(3, id_required("n")), at(0)), member.wake_at()) == ([], 100)
    assert member.step(Tick(), at(100)) == [SendToCoordinator(4, joins("n"), PARKED_MS)]
    assert (member.step(Answered(4, id_required("o")), at(100)), member.wake_at()) == ([], 300)


def test_a_static_member_that_leaves_for_good_gives_up_its_place() -> None:
    member = in_group(eager(instance_id="i"), 0)
    who = MemberIdentity(member_id="m", group_instance_id="i", reason="the consumer leaves")
    (send,) = member.step(Leave(for_good=True), at(10))
    assert isinstance(send, SendToCoordinator)
    assert send.request == LeaveGroupRequest(group_id="g", members=(who,))


def test_a_static_member_that_missed_a_generation_owns_nothing() -> None:
    member = in_group(cooperative(instance_id="i"), 0, name="cooperative-sticky")
    hears_of_a_rebalance(member)
    joined_late = joined(3, name="cooperative-sticky")
    # The assignor's user data has the generation of its last assignment.
    claiming_nothing = joins(
        name="cooperative-sticky", instance_id="i", user_data=(1).to_bytes(4, "big")
    )
    assert member.step(Answered(7, joined_late), at(20_000)) == [
        Note("warning", "member m lost its place in generation 1: ILLEGAL_GENERATION"),
        Lost(1, (P0,)),
        SendToCoordinator(8, claiming_nothing, PARKED_MS),
    ]
    assert (member.view().incarnation, member.view().owned) == (2, ())


@pytest.mark.parametrize(("instance_id", "generation"), [("i", 2), (None, 3)])
def test_a_member_that_missed_no_generation_or_is_dynamic_keeps_its_partitions(
    instance_id: str | None, generation: int
) -> None:
    member = in_group(cooperative(instance_id=instance_id), 0, name="cooperative-sticky")
    hears_of_a_rebalance(member)
    joined_late = joined(generation, name="cooperative-sticky")
    request = syncs(generation, name="cooperative-sticky", instance_id=instance_id)
    assert member.step(Answered(7, joined_late), at(20_000)) == [
        SendToCoordinator(8, request, PARKED_MS)
    ]
    assert (member.view().incarnation, member.view().owned) == (1, (P0,))


def test_a_static_member_that_claims_nothing_enters_any_later_generation() -> None:
    member = in_group(eager(instance_id="i"), 0)
    hears_of_a_rebalance(member)
    member.step(Adopted(1, ()), at(3_000))
    assert member.step(Answered(7, joined(3)), at(20_000)) == [
        SendToCoordinator(8, syncs(3, instance_id="i"), PARKED_MS)
    ]
    assert member.view().incarnation == 1


def test_a_long_reason_for_joining_is_cut() -> None:
    mine, owned = ClassicSettings("g"), (TopicParts("t", (0,)),)
    assert (
        join_request(mine, "m", ("t",), owned=owned, owned_generation=1, reason="x" * 256).reason
        == "x" * 255
    )
    assert (
        join_request(mine, "m", ("t",), owned=owned, owned_generation=1, reason=None).reason is None
    )


def test_a_classic_member_has_kafkas_defaults() -> None:
    settings = ClassicSettings("g")
    assert [assignor.name for assignor in settings.assignors] == ["range", "cooperative-sticky"]
    assert replace(settings, assignors=()) == ClassicSettings(
        group_id="g",
        assignors=(),
        instance_id=None,
        rack_id=None,
        session_timeout_ms=45_000,
        heartbeat_interval_ms=3_000,
        rebalance_timeout_ms=300_000,
        poll_limit_ms=None,
        metadata_interval_ms=300_000,
        response_timeout_ms=5_000,
        backoff_ms=100,
        backoff_limit_ms=1_000,
        wait_limit_ms=120_000,
    )
