"""A KIP-848 member that computes its target: the requests for it beside the heartbeats."""

import pytest

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.membership import (
    Adopted,
    Answered,
    AssignorRan,
    CoordinatorFound,
    FindCoordinator,
    Leave,
    RunAssignor,
    SendToCoordinator,
    Unanswered,
    to_id_parts,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from tests.member.computing_messages import (
    CountingAssignor,
    chosen,
    computes,
    group_member,
    heard,
    installs,
    offer,
    prepare,
    prepared,
    refused_computation,
    refused_install,
    stable,
)
from tests.member.consumer_messages import P0, P1, accepted, at, beat, full, refused


def test_heartbeats_go_on_while_the_assignor_runs() -> None:
    member, _ = computes(CountingAssignor())
    assert member.step(Tick(), at(2_000)) == [SendToCoordinator(9, beat(1), 5_000)]
    member.step(Answered(9, heard(2)), at(2_001))
    assert member.step(AssignorRan(8, {}), at(2_002)) == [
        SendToCoordinator(10, installs(2, 2, ("m", ())), 30_000)
    ]


def test_an_acknowledgement_goes_before_what_was_computed() -> None:
    member, _ = computes(CountingAssignor())
    member.step(Tick(), at(2_000))
    member.step(Answered(9, accepted(1, P0, P1)), at(2_001))
    assert member.step(Adopted(1, (P0, P1)), at(2_002)) == [
        SendToCoordinator(
            10,
            beat(1, topic_partitions=to_id_parts((P0, P1)), client_assignors=offer(b"t 3")),
            5_000,
        )
    ]
    assert member.step(AssignorRan(8, {}), at(2_003)) == []
    assert member.step(Answered(10, heard(2)), at(2_004)) == [
        SendToCoordinator(11, installs(2, 2, ("m", ())), 30_000)
    ]


def test_a_request_without_a_response_is_sent_again() -> None:
    member, _ = computes(CountingAssignor())
    member.step(AssignorRan(8, {}), at(1_002))
    assert member.step(Unanswered(9, "closed"), at(1_003)) == [
        Note("warning", "no answer for member m: closed")
    ]
    assert member.step(Tick(), at(1_103)) == [FindCoordinator(10, "g")]
    assert member.step(CoordinatorFound(10), at(1_103)) == [
        SendToCoordinator(11, full(1, P0, client_assignors=offer(b"t 3")), 5_000)
    ]
    assert member.step(Answered(11, heard(2)), at(1_104)) == [
        SendToCoordinator(12, installs(2, 2, ("m", ())), 30_000)
    ]


def test_a_request_that_never_gets_a_response_is_given_up() -> None:
    member, _ = computes(CountingAssignor())
    actions = member.step(AssignorRan(8, {}), at(1_002))
    now_ms, sent = 1_002, 0
    while now_ms < 60_000:
        now_ms += 100
        requests = [action for action in actions if isinstance(action, SendToCoordinator)]
        installed = [
            each.request_id
            for each in requests
            if isinstance(each.request, ConsumerGroupInstallAssignmentRequest)
        ]
        sent += len(installed)
        if installed:
            actions = member.step(Unanswered(installed[0], "closed"), at(now_ms))
        elif requests:
            actions = member.step(Answered(requests[0].request_id, heard(1)), at(now_ms))
        elif actions and isinstance(actions[0], FindCoordinator):
            actions = member.step(CoordinatorFound(actions[0].request_id), at(now_ms))
        else:
            actions = member.step(Tick(), at(now_ms))
    assert sent == 5


@pytest.mark.parametrize("is_installing", [False, True])
def test_heartbeats_go_on_while_the_coordinator_takes_long(is_installing: bool) -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, chosen(1)), at(1_000))
    if is_installing:
        member.step(Answered(7, prepared(group_member("m", 0), epoch=2)), at(1_001))
        member.step(AssignorRan(8, {}), at(1_002))
    first = 10 if is_installing else 8
    assert member.step(Tick(), at(1_999)) == []
    assert member.step(Tick(), at(2_000)) == [SendToCoordinator(first, beat(1), 5_000)]
    member.step(Answered(first, heard(1)), at(2_001))
    assert member.step(Tick(), at(3_000)) == [SendToCoordinator(first + 1, beat(1), 5_000)]


def test_a_heartbeat_that_overtakes_prepare_does_not_repeat_it() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, chosen(1)), at(1_000))
    member.step(Tick(), at(2_000))
    assert member.step(Answered(8, chosen(1)), at(2_001)) == []
    (run,) = member.step(Answered(7, prepared(group_member("m", 0), epoch=2)), at(2_002))
    assert isinstance(run, RunAssignor)


def test_a_late_answer_of_an_older_coordinator_ends_no_search_for_the_newer() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, chosen(1)), at(1_000))
    member.step(Tick(), at(2_000))
    member.step(Answered(8, refused(Code.NOT_COORDINATOR)), at(2_001))
    member.step(CoordinatorFound(9), at(2_001))
    assert member.step(Answered(10, refused(Code.NOT_COORDINATOR)), at(2_001)) == []
    loading = refused_computation(Code.COORDINATOR_LOAD_IN_PROGRESS)
    assert member.step(Answered(7, loading), at(2_001)) == []
    assert member.step(Tick(), at(2_301)) == [FindCoordinator(11, "g")]


def test_an_installation_that_the_coordinator_asks_to_repeat_begins_anew() -> None:
    member, _ = computes(CountingAssignor())
    member.step(AssignorRan(8, {}), at(1_002))
    member.step(Tick(), at(2_000))
    assert member.step(Answered(10, chosen(1)), at(2_001)) == [
        SendToCoordinator(11, prepare(1), 30_000)
    ]
    assert member.step(Answered(9, ConsumerGroupInstallAssignmentResponse()), at(2_002)) == []


def test_a_computed_target_waits_for_the_heartbeat_after_a_lost_response() -> None:
    member, _ = computes(CountingAssignor())
    assert member.step(Tick(), at(2_001)) == [SendToCoordinator(9, beat(1), 5_000)]
    assert member.step(AssignorRan(8, {}), at(2_002)) == []
    member.step(Unanswered(9, "lost"), at(2_003))
    assert member.step(Tick(), at(2_103)) == [FindCoordinator(10, "g")]
    assert member.step(CoordinatorFound(10), at(2_104)) == [
        SendToCoordinator(11, full(1, P0, client_assignors=offer(b"t 3")), 5_000)
    ]
    assert member.step(Answered(11, accepted(2, P0)), at(2_105)) == [
        SendToCoordinator(12, installs(2, 2, ("m", ())), 30_000)
    ]


def test_a_target_that_was_installed_already_was_not_late() -> None:
    member, _ = computes(CountingAssignor())
    member.step(AssignorRan(8, {}), at(3_501))
    # The coordinator has taken it; its response is lost.
    member.step(Unanswered(9, "lost"), at(3_502))
    member.step(Tick(), at(3_602))
    member.step(CoordinatorFound(10), at(3_602))
    assert member.step(Answered(11, accepted(2, P0)), at(3_603)) == [
        SendToCoordinator(12, installs(2, 2, ("m", ())), 30_000)
    ]
    response = refused_install(Code.UNKNOWN_MEMBER_ID, "Member m is not chosen.")
    assert member.step(Answered(12, response), at(3_604)) == [
        Note("info", "ConsumerGroupInstallAssignment of member m: Member m is not chosen.")
    ]


def test_no_response_to_a_computation_changes_a_member_that_leaves() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, chosen(1)), at(1_000))
    assert member.step(Leave(), at(1_001)) == [SendToCoordinator(8, beat(-1), 5_000)]
    assert member.step(Answered(7, prepared(group_member("m", 0), epoch=2)), at(1_002)) == []
