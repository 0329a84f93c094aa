"""How long a KIP-848 member keeps the reasons for which it has asked for an assignment."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.machine import Instant, Tick
from apportion.member.assignors.interface import FollowUp
from apportion.member.consumer.local_assignors import KEPT_MS, LocalAssignors
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Leave,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    to_id_parts,
)
from apportion.member.streams.client_side_machine import ChangeTopology
from apportion.streams.metadata.kip848 import Reason
from apportion.streams.metadata.model import RUNNING
from apportion.streams.topology_parser import topology_of
from apportion.wire.fields import replaced
from tests.member.client_side_streams_messages import answer, offers, running, sums, tasks
from tests.member.computing_messages import CountingAssignor, heard, offer, stable
from tests.member.consumer_messages import P0, P1, accepted, at, beat, full, refused


def asking(epoch: int = 1) -> ConsumerMember:
    """A member whose reason 9 was accepted at 700 (request 6), beside its metadata "t 3".

    epoch: told in that response.
    """
    member = stable(CountingAssignor(reply=FollowUp(0, "it is time", 9, after_ms=700)), P0)
    assert member.step(Tick(), at(700)) == [
        SendToCoordinator(6, beat(1, client_assignors=offer(b"t 3", reason=9)), 5_000)
    ]
    member.step(Answered(6, accepted(epoch, unchanged=True)), at(700))
    return member


def loses(member: ConsumerMember, request_id: int, at_ms: int) -> list[Any]:
    """What the member sends after its heartbeat, with this id, has got no response."""
    member.step(Unanswered(request_id, "closed"), at(at_ms))
    member.step(Tick(), at(at_ms + 100))
    return member.step(CoordinatorFound(request_id + 1), at(at_ms + 100))


def test_a_reason_that_was_accepted_is_sent_again_with_the_next_full_heartbeat() -> None:
    member = asking()
    member.step(Tick(), at(1_700))
    again = full(1, P0, client_assignors=offer(b"t 4", reason=9))
    assert loses(member, 7, 1_700) == [SendToCoordinator(9, again, 5_000)]


def test_a_newer_epoch_may_be_of_a_target_that_knew_nothing_of_a_new_reason() -> None:
    member = asking()
    member.step(Tick(), at(1_700))
    member.step(Answered(7, heard(2)), at(1_700))
    member.step(Tick(), at(2_700))
    again = full(2, P0, client_assignors=offer(b"t 4", reason=9))
    assert loses(member, 8, 2_700) == [SendToCoordinator(10, again, 5_000)]


def test_a_reason_is_forgotten_once_a_newer_epoch_has_followed_and_time_has_passed() -> None:
    member = asking()
    member.step(Tick(), at(1_700))
    member.step(Answered(7, heard(2)), at(1_700))
    member.step(Tick(), at(30_700))
    member.step(Answered(8, heard(2)), at(30_700))
    member.step(Tick(), at(31_700))
    settled = full(2, P0, client_assignors=offer(b"t 4"))
    assert loses(member, 9, 31_700) == [SendToCoordinator(11, settled, 5_000)]


def test_an_offer_that_no_newer_epoch_follows_is_sent_again_each_half_minute() -> None:
    member = asking()
    member.step(Tick(), at(30_700))
    again = beat(1, client_assignors=offer(b"t 3", reason=9))
    assert member.step(Answered(7, heard(1)), at(30_700)) == [SendToCoordinator(8, again, 5_000)]
    assert member.step(Answered(8, heard(1)), at(30_700)) == []


def check_it_is_said_in_time(delays_ms: list[int]) -> None:
    """A reason that no newer epoch follows is said again at the first response after KEPT_MS.

    delays_ms: of the responses. Heartbeats are a second apart, or as far as their responses.
    """
    member: Any = asking()
    now_ms = said_ms = 700
    actions: list[Any] = []
    for delay_ms in delays_ms:
        if not actions:
            now_ms += 1_000
            actions = member.step(Tick(), at(now_ms))
        now_ms += delay_ms
        actions = member.step(Answered(actions[0].request_id, heard(1)), at(now_ms))
        if any(each.request.client_assignors for each in actions):
            said_ms = now_ms
        assert now_ms < said_ms + KEPT_MS


@given(st.lists(st.integers(0, 4_000), max_size=40))
def test_a_reason_that_no_epoch_follows_is_said_again_after_slow_responses(
    delays_ms: list[int],
) -> None:
    check_it_is_said_in_time(delays_ms)


def test_a_reason_that_is_not_repeated_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    record_accepted = LocalAssignors.record_accepted

    def repeats_nothing(self: LocalAssignors, epoch: int, now: Instant) -> None:
        record_accepted(self, epoch, now)
        self._must_repeat = False

    monkeypatch.setattr(LocalAssignors, "record_accepted", repeats_nothing)
    with pytest.raises(AssertionError):
        check_it_is_said_in_time([0] * 32)


def test_a_reason_stands_beside_newer_metadata_until_a_newer_epoch_is_told() -> None:
    member = asking()
    member.step(Tick(), at(1_700))
    member.step(Answered(7, accepted(1, P0, P1)), at(1_700))
    news = beat(1, topic_partitions=to_id_parts((P0, P1)))
    assert member.step(Adopted(1, (P0, P1)), at(1_700)) == [
        SendToCoordinator(8, replaced(news, client_assignors=offer(b"t 4", reason=9)), 5_000)
    ]
    member.step(Answered(8, accepted(2, P0)), at(1_700))
    news = beat(2, topic_partitions=to_id_parts((P0,)))
    assert member.step(Adopted(1, (P0,)), at(1_700)) == [
        SendToCoordinator(9, replaced(news, client_assignors=offer(b"t 5")), 5_000)
    ]


def test_a_reason_outlives_a_lost_membership_and_not_one_that_its_member_has_left() -> None:
    member = asking()
    member.step(Tick(), at(1_700))
    actions = member.step(Answered(7, refused(Code.FENCED_MEMBER_EPOCH)), at(1_700))
    again = full(0, client_assignors=offer(b"t 4", reason=9))
    assert actions[-1] == SendToCoordinator(8, again, 5_000)
    member.step(Answered(8, accepted(3)), at(1_700))
    member.step(Leave(), at(1_700))
    member.step(Answered(9, heard(-1)), at(1_700))
    assert member.step(Subscribe(("t",)), at(1_700)) == [
        SendToCoordinator(10, full(0, client_assignors=offer(b"t 5")), 5_000)
    ]


def test_a_reason_ends_with_its_group_whose_successor_counts_epochs_anew() -> None:
    member = asking(epoch=57)
    member.step(Tick(), at(1_700))
    actions = member.step(Answered(7, refused(Code.UNKNOWN_MEMBER_ID)), at(1_700))
    again = full(0, client_assignors=offer(b"t 4", reason=9))
    assert actions[-1] == SendToCoordinator(8, again, 5_000)
    member.step(Answered(8, heard(1)), at(1_700))
    member.step(Tick(), at(31_700))
    assert member.step(Answered(9, heard(1)), at(31_700)) == []
    settled = full(1, client_assignors=offer(b"t 5"))
    member.step(Tick(), at(32_700))
    assert loses(member, 10, 32_700) == [SendToCoordinator(12, settled, 5_000)]


def test_a_topology_that_changes_again_while_the_first_is_under_way_is_sent_too() -> None:
    newest = topology_of([{"sources": ["t"]}])
    member = running(P0)
    member.step(ChangeTopology(topology_of([{"sources": ["t"], "changelogs": ["other"]}])), at(0))
    assert member.step(ChangeTopology(newest), at(0)) == []
    assert member.step(Answered(6, accepted(1, unchanged=True)), at(0)) == [
        SendToCoordinator(7, beat(1, **offers({0: 0}, Reason.TOPOLOGY_CHANGED, newest)), 5_000)
    ]
    assert member.step(Answered(7, accepted(1, unchanged=True)), at(0)) == []


def test_the_lag_of_a_warm_up_that_has_caught_up_is_sent_again_with_its_reason() -> None:
    member = running(P0, said=tasks(0, warmup_tasks=(1,)))
    member.step(sums({0: RUNNING, 1: 95}), at(10))
    member.step(answer(6, 1), at(20))
    member.step(Answered(7, accepted(1, unchanged=True)), at(20))
    member.step(Tick(), at(1_020))
    again = full(1, P0, **offers({0: 0, 1: 5}, Reason.WARM_UP_READY))
    assert loses(member, 8, 1_020) == [SendToCoordinator(10, again, 5_000)]
