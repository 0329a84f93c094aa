"""A KIP-848 member that computes its group's target assignment, event by event."""

from collections.abc import Generator, Mapping
from typing import Any, cast

import pytest

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Note, Tick
from apportion.member.assignors.builtin import CooperativeSticky
from apportion.member.assignors.runs import AssignorRun, checked_user_data
from apportion.member.membership import (
    Answered,
    AssignorRan,
    Leave,
    Offer,
    QueryAnswered,
    QueryCluster,
    RunAssignor,
    SendToCoordinator,
    Unanswered,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentResponse,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    AssignableMember,
    AssignorMetadata,
)
from tests.member.computing_messages import (
    CountingAssignor,
    chosen,
    computes,
    group_member,
    heard,
    installs,
    prepare,
    prepared,
    refused_computation,
    refused_install,
    runs,
    stable,
)
from tests.member.consumer_messages import P0, T, at, beat, joined, refused
from tests.raising_lines import line_of_raise

ALL = Given(by_topic([("t", 0), ("t", 1), ("t", 2)]))
OWNS_0 = Subscription(("t",), owned=by_topic([("t", 0)]), generation=1)


def test_a_chosen_member_prepares_runs_its_assignor_and_installs() -> None:
    assignor = CountingAssignor({"m": ALL})
    member, run = computes(assignor)
    assert run == runs(8, assignor, {"m": OWNS_0})
    assert run.perform() == AssignorRan(8, {"m": ALL})
    assert member.step(AssignorRan(8, {"m": ALL}), at(1_002)) == [
        SendToCoordinator(9, installs(1, 2, ("m", (0, 1, 2))), 30_000)
    ]
    assert member.step(Answered(9, ConsumerGroupInstallAssignmentResponse()), at(1_003)) == [
        SendToCoordinator(10, beat(1), 5_000)
    ]


def test_an_assignor_is_told_all_that_the_coordinator_says_of_a_member() -> None:
    assignor = CountingAssignor()
    stranger = AssignableMember(
        member_id="s",
        member_epoch=2,
        instance_id="i",
        rack_id="r",
        subscribed_topic_ids=(T, b"U" * 16),
        assignor=AssignorMetadata(version=3, reason=4, metadata=b"five"),
    )
    _, run = computes(assignor, group_member("m", 0), stranger)
    assert run == runs(
        8,
        assignor,
        {
            "m": OWNS_0,
            "s": Subscription(("t",), b"five", rack_id="r", instance_id="i", version=3, reason=4),
        },
    )


def test_an_error_of_the_assignor_is_installed_for_all() -> None:
    member, _ = computes(CountingAssignor(), group_member("m", 0), group_member("s"))
    assert member.step(AssignorRan(8, {"s": Given(error=5)}), at(1_002)) == [
        SendToCoordinator(9, installs(1, 2, ("m", ()), ("s", ()), error=5), 30_000)
    ]


@pytest.mark.parametrize(
    ("errors", "why"),
    [
        ((5, 6), "gives the errors 5 and 6: all members are told the same"),
        ((128, 128), "gives the error 128 to 'm': it must be a number from -127 to 127"),
        ((0, -200), "gives the error -200 to 's': it must be a number from -127 to 127"),
        (("x", 0), "gives the error 'x' to 'm': it must be a number from -127 to 127"),
        (([1], 0), "gives the error [1] to 'm': it must be a number from -127 to 127"),
        ((None, 0), "gives the error None to 'm': it must be a number from -127 to 127"),
        ((1.5, 0), "gives the error 1.5 to 'm': it must be a number from -127 to 127"),
    ],
)
def test_an_error_that_cannot_be_told_to_all_is_installed_for_nobody(errors: Any, why: str) -> None:
    given = {name: Given(error=error) for name, error in zip("ms", errors, strict=True)}
    members = group_member("m", 0), group_member("s")
    member, run = computes(CountingAssignor(given), *members)
    assert member.step(run.perform(), at(1_002)) == [not_computed(f"the assignor {why}")]


def test_metadata_that_the_coordinator_refuses_are_not_installed() -> None:
    given = {"m": Given(user_data=b"x" * (2**16 + 1))}
    member, run = computes(CountingAssignor(given))
    assert member.step(run.perform(), at(1_002)) == [
        not_computed(
            "the assignor gives more than 65536 bytes of metadata to one member, or 67108864 to all"
        )
    ]


def not_computed(why: str) -> Note:
    return Note(
        "error",
        f"member m has not computed the group's target: {why}; the older one stays, and the "
        "coordinator asks another member",
    )


def test_nothing_is_installed_of_an_assignor_that_raises() -> None:
    member, run = computes(CountingAssignor(ValueError("cannot")))
    outcome = run.perform()
    assert type(outcome.outcome) is Refused
    assert member.step(outcome, at(1_002)) == [
        not_computed(
            "the assignor 'counting' failed: ValueError: cannot "
            f"({line_of_raise(CountingAssignor.assign)})"
        )
    ]
    assert member.step(Tick(), at(2_000)) == [SendToCoordinator(9, beat(1), 5_000)]


class ExitingAssignor(CountingAssignor):
    """Raises what ends a process that does not catch it."""

    def assign(self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]) -> Any:
        raise SystemExit(3)


def test_an_assignor_that_ends_the_process_ends_its_run_alone() -> None:
    member, run = computes(ExitingAssignor())
    assert member.step(run.perform(), at(1_002)) == [
        not_computed(
            "the assignor 'counting' failed: SystemExit: 3 "
            f"({line_of_raise(ExitingAssignor.assign)})"
        )
    ]


class FalseMapping(dict[str, Given]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        raise LookupError("no items")


def test_an_answer_that_cannot_be_read_ends_its_run_alone() -> None:
    member, run = computes(CountingAssignor(FalseMapping({"m": Given()})))
    assert member.step(run.perform(), at(1_002)) == [
        not_computed(
            "the assignor 'counting' failed: LookupError: no items "
            f"({line_of_raise(FalseMapping.items)})"
        )
    ]


def test_a_long_exception_of_an_assignor_is_cut() -> None:
    member, run = computes(CountingAssignor(ValueError("x" * 1_000_000)))
    (note,) = member.step(run.perform(), at(1_002))
    assert isinstance(note, Note)
    assert len(note.text) < 800


def test_user_data_that_are_no_bytes_are_cut() -> None:
    with pytest.raises(Refused) as refusal:
        checked_user_data(CountingAssignor(), cast("Any", lambda: "x" * 1_000_000))
    assert len(refusal.value.why) < 200


def test_nothing_is_installed_of_an_answer_that_is_no_assignment() -> None:
    member, run = computes(CountingAssignor({"s": ALL}))
    assert member.step(run.perform(), at(1_002)) == [
        not_computed(
            "the assignor gives partition 0 of 't' to 's', which is no member of the group"
        )
    ]


def test_a_stale_target_is_computed_anew_when_the_coordinator_says_so() -> None:
    member, _ = computes(CountingAssignor())
    member.step(AssignorRan(8, {}), at(1_002))
    response = refused_install(Code.STALE_MEMBER_EPOCH, "the group is at epoch 3")
    assert member.step(Answered(9, response), at(1_003)) == [
        Note("info", "ConsumerGroupInstallAssignment of member m: the group is at epoch 3"),
        SendToCoordinator(10, beat(1), 5_000),
    ]
    assert member.step(Answered(10, chosen(1)), at(1_004)) == [
        SendToCoordinator(11, prepare(1), 30_000)
    ]


TOO_LATE = (
    "was too late with the group's target: its assignor took 2.5 s. Make it faster, or raise the "
    "broker's apportion.assignor.timeout.ms; the member's max.poll.interval.ms limits it, too"
)


def test_a_member_that_another_has_replaced_says_how_long_its_assignor_took() -> None:
    member, _ = computes(CountingAssignor())
    member.step(AssignorRan(8, {}), at(3_501))
    response = refused_install(Code.UNKNOWN_MEMBER_ID, "Member m is not chosen.")
    assert member.step(Answered(9, response), at(3_502)) == [
        Note(
            "warning",
            "ConsumerGroupInstallAssignment of member m: Member m is not chosen. It " + TOO_LATE,
        )
    ]


def test_a_member_that_is_refused_at_once_was_not_late() -> None:
    member, _ = computes(CountingAssignor())
    member.step(AssignorRan(8, {}), at(1_002))
    response = refused_install(Code.UNKNOWN_MEMBER_ID, "Member m is not chosen.")
    assert member.step(Answered(9, response), at(1_003)) == [
        Note("info", "ConsumerGroupInstallAssignment of member m: Member m is not chosen.")
    ]


def test_a_member_that_was_chosen_again_meanwhile_says_how_long_its_assignor_took() -> None:
    member, _ = computes(CountingAssignor())
    member.step(Tick(), at(2_000))
    member.step(Answered(9, chosen(1)), at(2_001))
    assert member.step(AssignorRan(8, {}), at(3_501))[0] == Note("warning", "member m " + TOO_LATE)


def test_a_refused_target_is_an_error_in_the_log() -> None:
    member, _ = computes(CountingAssignor())
    member.step(AssignorRan(8, {}), at(1_002))
    response = refused_install(Code.INVALID_REQUEST, "partition 0 twice")
    assert member.step(Answered(9, response), at(1_003)) == [
        Note("error", "ConsumerGroupInstallAssignment of member m: partition 0 twice")
    ]


def test_a_member_that_is_chosen_no_more_keeps_its_membership() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, chosen(1)), at(1_000))
    response = refused_computation(Code.UNKNOWN_MEMBER_ID, "another member computes")
    assert member.step(Answered(7, response), at(1_001)) == [
        Note("info", "ConsumerGroupPrepareAssignment of member m: another member computes")
    ]
    assert member.step(Leave(), at(1_002)) == [SendToCoordinator(8, beat(-1), 5_000)]


def test_a_member_that_is_chosen_again_begins_anew_once_its_assignor_has_ended() -> None:
    member, _ = computes(CountingAssignor())
    member.step(Tick(), at(2_000))
    assert member.step(Answered(9, chosen(1)), at(2_001)) == [
        Note(
            "warning",
            "member m cannot compute the group's target: its assignor still runs from the last "
            "time",
        )
    ]
    assert member.step(AssignorRan(8, {}), at(2_002)) == [
        Note("warning", "member m " + TOO_LATE.replace("2.5", "1.0"))
    ]
    member.step(Tick(), at(3_000))
    assert member.step(Answered(10, chosen(1)), at(3_001)) == [
        SendToCoordinator(11, prepare(1), 30_000)
    ]


def test_a_computation_ends_with_the_membership() -> None:
    member, _ = computes(CountingAssignor())
    member.step(Tick(), at(2_000))
    member.step(Answered(9, refused(Code.FENCED_MEMBER_EPOCH)), at(2_001))
    assert member.step(AssignorRan(8, {}), at(2_002)) == []
    assert member.step(Answered(10, heard(2)), at(2_003)) == [Offer(2, (), (), ())]
    member.step(Tick(), at(3_003))
    assert member.step(Answered(11, chosen(2)), at(3_004)) == [
        SendToCoordinator(12, prepare(2), 30_000)
    ]


def test_a_choice_means_nothing_to_a_member_without_assignors() -> None:
    member = joined(P0)
    member.step(Tick(), at(1_000))
    assert member.step(Answered(4, chosen(1)), at(1_000)) == []


def test_an_assignor_that_the_member_does_not_have_is_not_run() -> None:
    member = stable(CountingAssignor(), P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, chosen(1)), at(1_000))
    assert member.step(Answered(7, prepared(group_member("m", 0), name="other")), at(1_001)) == []
    assert member.step(Tick(), at(2_000)) == [SendToCoordinator(9, beat(1), 5_000)]


class QueryingAssignor(CountingAssignor):
    """Gives everything to the member that the cluster names; where nobody names one, to m."""

    question: Any = "who?"

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Generator[Any, Any, dict[str, Given]]:
        try:
            who = yield self.question
        except Unanswerable:
            who = "m"
        return {who: ALL}


def test_a_query_that_was_given_up_neither_delays_the_next_nor_answers_it() -> None:
    assignor = QueryingAssignor()
    member, run = computes(assignor)
    assert member.step(run.perform(), at(1_002)) == [QueryCluster(9, "who?")]
    member.step(Tick(), at(2_000))
    assert member.step(Answered(10, chosen(1)), at(2_001)) == [
        SendToCoordinator(11, prepare(1), 30_000)
    ]
    state = prepared(group_member("m", 0), epoch=3, name=assignor.name)
    (again,) = member.step(Answered(11, state), at(2_002))
    assert isinstance(again, RunAssignor)
    assert member.step(again.perform(), at(2_003)) == [QueryCluster(13, "who?")]
    assert member.step(QueryAnswered(9, "s"), at(2_004)) == []


def test_an_assignors_query_is_answered_by_the_cluster() -> None:
    member, run = computes(QueryingAssignor(), group_member("m", 0), group_member("s"))
    assert member.step(run.perform(), at(1_002)) == [QueryCluster(9, "who?")]
    (resumed,) = member.step(QueryAnswered(9, "s"), at(1_003))
    assert isinstance(resumed, RunAssignor)
    assert member.step(resumed.perform(), at(1_004)) == [
        SendToCoordinator(11, installs(1, 2, ("m", ()), ("s", (0, 1, 2))), 30_000)
    ]


class Incomparable:
    """A question that compares as arrays do."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("one truth for each element")


def test_a_query_that_cannot_be_compared_is_answered_as_any_other() -> None:
    assignor = QueryingAssignor()
    assignor.question = Incomparable()
    member, run = computes(assignor)
    (asked,) = member.step(run.perform(), at(1_002))
    assert isinstance(asked, QueryCluster)
    assert asked.query is assignor.question
    (resumed,) = member.step(QueryAnswered(9, "m"), at(1_003))
    assert resumed.perform() == AssignorRan(10, {"m": ALL})


def test_a_query_without_an_answer_is_thrown_into_the_assignor() -> None:
    member, run = computes(QueryingAssignor())
    member.step(run.perform(), at(1_002))
    warning, resumed = member.step(Unanswered(9, "no broker"), at(1_003))
    assert warning == Note("warning", "member m cannot look up what its assignor needs: no broker")
    assert resumed.perform() == AssignorRan(10, {"m": ALL})


def test_a_cooperative_assignor_is_asked_again_until_it_leaves_nothing_out() -> None:
    members = {
        "a": Subscription(("t",), owned=by_topic([("t", 0), ("t", 1)]), generation=3),
        "b": Subscription(("t",)),
    }
    run = AssignorRun(CooperativeSticky(), {"t": TopicShape(2)}, members)
    assert run.proceed() == {
        "a": Given(by_topic([("t", 0)])),
        "b": Given(by_topic([("t", 1)])),
    }
