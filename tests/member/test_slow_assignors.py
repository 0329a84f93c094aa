"""A member whose assignor takes long says so in its log, and when it has an answer after all."""

from collections.abc import Generator, Mapping
from typing import Any

from apportion.assign.by_name import Given, Subscription, TopicShape
from apportion.errors import Code, Refused
from apportion.machine import Note, Tick
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.membership import (
    Answered,
    AssignorRan,
    Leave,
    QueryAnswered,
    RunAssignor,
)
from tests.member.computing_messages import CountingAssignor, computes, heard
from tests.member.consumer_messages import at

SLOW = Note(
    "warning",
    "member m computes the group's target, and its assignor has not answered for 5 s: the older "
    "target stays meanwhile, and the coordinator asks another member once the broker's "
    "apportion.assignor.timeout.ms is over",
)


def beats_until(member: ConsumerMember, limit_ms: int) -> list[Note]:
    """Answer a heartbeat a second, from request 9 on, until then; return what the log says."""
    noted: list[Note] = []
    for request_id, second in enumerate(range(2, limit_ms // 1000 + 1), 9):
        for actions in (
            member.step(Tick(), at(second * 1_000)),
            member.step(Answered(request_id, heard(1)), at(second * 1_000)),
        ):
            noted += [each for each in actions if isinstance(each, Note)]
    return noted


def test_a_log_line_says_that_an_assignor_takes_long_and_one_that_it_has_answered() -> None:
    member, _ = computes(CountingAssignor())
    assert beats_until(member, 6_000) == []
    assert member.wake_at() == 6_001
    assert member.step(Tick(), at(6_001)) == [SLOW]
    assert member.wake_at() == 7_000
    answer = member.step(AssignorRan(8, {}), at(8_501))
    assert answer[0] == Note(
        "warning", "member m has heard from its assignor after all, after 7.5 s"
    )


def test_an_assignor_that_takes_long_for_nobody_is_only_said_to_have_answered() -> None:
    member, _ = computes(CountingAssignor())
    member.step(Tick(), at(6_001))
    member.step(Leave(), at(6_002))
    assert member.step(AssignorRan(8, {}), at(6_101)) == [
        Note("warning", "member m has heard from its assignor after all, after 5.1 s")
    ]
    member, _ = computes(CountingAssignor())
    member.step(Leave(), at(6_002))
    assert SLOW not in member.step(Tick(), at(9_000))


def test_an_assignor_that_fails_after_long_is_only_said_to_have_failed() -> None:
    member, _ = computes(CountingAssignor())
    member.step(Tick(), at(6_001))
    failed = member.step(AssignorRan(8, Refused(Code.INVALID_REQUEST, "no")), at(6_101))
    assert [each.level for each in failed if isinstance(each, Note)] == ["error"]


class QueryingAssignor(CountingAssignor):
    """Asks the cluster before it gives nothing to anybody."""

    def assign(
        self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Generator[Any, Any, dict[str, Given]]:
        yield "who?"
        return {}


def test_each_call_of_an_assignor_with_queries_may_take_as_long() -> None:
    member, run = computes(QueryingAssignor())
    member.step(run.perform(), at(4_000))
    (resumed,) = member.step(QueryAnswered(9, "m"), at(5_000))
    assert isinstance(resumed, RunAssignor)
    assert SLOW not in member.step(Tick(), at(9_999))
    assert SLOW in member.step(Tick(), at(10_000))
