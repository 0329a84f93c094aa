"""The link of a member to its coordinator, and the deadline of its owner's polls."""

from apportion.machine import Instant
from apportion.member.coordinator_link import CoordinatorLink, PollDeadline
from apportion.member.membership import CoordinatorFound, Unanswered
from apportion.member.settings import MemberSettings
from apportion.wire.messages.heartbeat import HeartbeatRequest


def link() -> CoordinatorLink:
    return CoordinatorLink(MemberSettings(group_id="g", backoff_ms=100))


def test_an_answer_to_an_earlier_request_answers_nothing() -> None:
    late, lookup = link(), link()
    late.send(HeartbeatRequest(), 1_000, now_ms=0, interval_ms=3_000)
    sent = late.send(HeartbeatRequest(), 1_000, now_ms=0, interval_ms=3_000)
    assert late.take_answered(Unanswered(1, "late")) is None
    assert late.in_flight is sent
    assert late.take_answered(Unanswered(2, "cut")) is sent
    assert late.take_answered(Unanswered(2, "twice")) is None
    found = lookup.find_coordinator()
    assert lookup.take_answered(CoordinatorFound(found.request_id)) is found


def test_a_request_that_skips_the_interval_waits_for_the_backoff_all_the_same() -> None:
    sender = link()
    sender.send(HeartbeatRequest(), 1_000, now_ms=50, interval_ms=3_000)
    assert (sender.sent_at_ms, sender.heartbeat_at_ms) == (50, 3_050)
    assert sender.due_at(sends_at_once=False) == 3_050
    assert sender.due_at(sends_at_once=True) == 0
    sender.backoff.record_failure(Instant(1_000, 1_000))
    assert sender.due_at(sends_at_once=True) == 1_100
    assert sender.due_at(sends_at_once=False) == 3_050


def test_an_owner_has_the_whole_interval_after_each_poll() -> None:
    deadline = PollDeadline(300)
    assert deadline.at_ms is None
    deadline.restart(1_000)
    assert [deadline.is_over(at_ms) for at_ms in (1_299, 1_300)] == [False, True]
    deadline.restart(1_299)
    assert not deadline.is_over(1_300)
    deadline.stop()
    assert not deadline.is_over(9_999)


def test_an_owner_without_a_limit_never_has_a_deadline() -> None:
    deadline = PollDeadline(None)
    deadline.restart(0)
    assert deadline.at_ms is None
