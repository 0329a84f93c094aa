"""The link of a member to its coordinator, and the deadline of its owner's polls."""

from apportion.machine import Instant
from apportion.member.coordinator_link import Backoff, CoordinatorLink, PollDeadline
from apportion.member.settings import MemberSettings
from apportion.member.step import Step
from apportion.wire.messages.heartbeat import HeartbeatRequest


def link() -> CoordinatorLink:
    return CoordinatorLink(MemberSettings(group_id="g", backoff_ms=100), interval_ms=3_000)


def at(ms: int) -> Instant:
    return Instant(ms, ms)


def test_an_answer_to_an_earlier_request_answers_nothing() -> None:
    late, lookup = link(), link()
    late.send(HeartbeatRequest(), at(0))
    sent = late.send(HeartbeatRequest(), at(0))
    assert late.take_answered(1) is None
    assert late.in_flight is sent
    assert late.take_answered(2) is sent
    assert late.take_answered(2) is None
    found = lookup.find_coordinator()
    assert lookup.take_answered(found.request_id) is found


def test_a_request_that_skips_the_interval_waits_for_the_backoff_all_the_same() -> None:
    sender = link()
    sender.send(HeartbeatRequest(), at(50))
    assert (sender.api, sender.heartbeat_at_ms) == ("Heartbeat", 3_050)
    assert sender.due_at(sends_at_once=True) is None
    sender.take_answered(1)
    assert sender.due_at(sends_at_once=False) == 3_050
    assert sender.due_at(sends_at_once=True) == 0
    sender.backoff.record_failure(at(1_000))
    assert sender.due_at(sends_at_once=True) == 1_100
    assert sender.due_at(sends_at_once=False) == 3_050


def test_a_retry_waits_for_the_backoff_alone_and_an_interruption_for_nothing() -> None:
    sender = link()
    sender.send(HeartbeatRequest(), at(50))
    sender.interrupt(at(60))
    assert sender.due_at(sends_at_once=False) == 60
    sender.retry(at(60))
    assert sender.due_at(sends_at_once=False) == 160
    sender.retry(at(60))
    assert sender.due_at(sends_at_once=False) == 260


def test_the_limit_of_waiting_counts_from_the_first_error_in_a_row() -> None:
    backoff = Backoff(100, 1_000, limit_ms=500)
    assert backoff.may_keep_waiting(at(0))
    backoff.record_waiting(at(1_000))
    backoff.record_waiting(at(1_400))
    assert [backoff.may_keep_waiting(at(ms)) for ms in (1_499, 1_500)] == [True, False]
    backoff.record_success()
    assert backoff.may_keep_waiting(at(9_000))


def test_the_interval_that_a_coordinator_sets_counts_from_the_last_request() -> None:
    sender = link()
    sender.send(HeartbeatRequest(), at(50))
    sender.set_interval(5_000)
    assert sender.heartbeat_at_ms == 5_050
    sender.restart_interval(at(70))
    assert sender.heartbeat_at_ms == 5_070


def test_a_member_may_be_removed_without_contact_or_while_it_only_rebalances() -> None:
    member = CoordinatorLink(MemberSettings(group_id="g", rebalance_timeout_ms=5_000))
    member.send(HeartbeatRequest(), at(100))
    member.record_accepted(at(110))
    assert member.accepted_ms == 110
    asked = [member.may_have_been_removed(at(ms), 1_000) for ms in (1_100, 1_101)]
    assert asked == [False, True]
    member.send(HeartbeatRequest(), at(5_000))
    member.record_accepted(at(5_010), is_settled=False)
    asked = [member.may_have_been_removed(at(ms), 1_000) for ms in (5_100, 5_101)]
    assert asked == [False, True]


def test_an_owner_has_the_whole_interval_after_each_poll() -> None:
    deadline = PollDeadline(300)
    assert deadline.at_ms is None
    deadline.restart(at(1_000))
    assert [Step(at(ms)).is_due(deadline.at_ms) for ms in (1_299, 1_300)] == [False, True]
    deadline.restart(at(1_299))
    assert not Step(at(1_300)).is_due(deadline.at_ms)
    deadline.stop()
    assert not Step(at(9_999)).is_due(deadline.at_ms)


def test_an_owner_without_a_limit_never_has_a_deadline() -> None:
    deadline = PollDeadline(None)
    deadline.restart(at(0))
    assert deadline.at_ms is None
