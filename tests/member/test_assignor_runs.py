"""The run of an assignor that computes the target of a KIP-848 group: answers and exceptions."""

from collections.abc import Mapping
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.errors import Code, Refused
from apportion.member.assignors.builtin import CooperativeSticky
from apportion.member.assignors.runs import AssignorRun
from tests.member.script_assignors import AskingAssignor, CountingAssignor
from tests.member.script_player import ASSIGNORS, ScriptPlayer
from tests.raising_lines import line_of_raise

MEMBERS = {
    "m": Subscription(("t",), owned=by_topic([("t", 0)]), generation=1),
    "s": Subscription(("t",)),
}


class ExitingAssignor(CountingAssignor):
    """Raises what ends a process that does not catch it."""

    def assign(self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]) -> Any:
        raise SystemExit(3)


class FalseMapping(dict[str, Given]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        raise LookupError("no items")


def gives(*errors: Any) -> CountingAssignor:
    """An assignor that answers with these errors for m and s."""
    pairs = zip("ms", errors, strict=True)
    return CountingAssignor({name: Given(error=error) for name, error in pairs})


RANGE = "it must be a number from -127 to 127"


@pytest.mark.parametrize(
    ("assignor", "why"),
    [
        (gives("x", 0), f"the assignor gives the error 'x' to 'm': {RANGE}"),
        (gives([1], 0), f"the assignor gives the error [1] to 'm': {RANGE}"),
        (gives(None, 0), f"the assignor gives the error None to 'm': {RANGE}"),
        (gives(1.5, 0), f"the assignor gives the error 1.5 to 'm': {RANGE}"),
        (
            CountingAssignor({"m": Given(user_data=b"x" * (2**16 + 1))}),
            "the assignor gives more than 65536 bytes of metadata to one member, or 67108864 to "
            "all",
        ),
        (
            CountingAssignor(ValueError("cannot")),
            "the assignor 'counting' failed: ValueError: cannot "
            f"({line_of_raise(CountingAssignor.assign)})",
        ),
        (
            ExitingAssignor(),
            "the assignor 'counting' failed: SystemExit: 3 "
            f"({line_of_raise(ExitingAssignor.assign)})",
        ),
        (
            CountingAssignor(FalseMapping({"m": Given()})),
            "the assignor 'counting' failed: LookupError: no items "
            f"({line_of_raise(FalseMapping.items)})",
        ),
    ],
)
def test_an_assignor_that_fails_ends_its_run_alone(assignor: CountingAssignor, why: str) -> None:
    with pytest.raises(Refused) as refusal:
        AssignorRun(assignor, {"t": TopicShape(3)}, MEMBERS).proceed()
    assert refusal.value.args == (Code.INVALID_REQUEST, why)


def test_a_long_exception_of_an_assignor_is_cut() -> None:
    with pytest.raises(Refused) as refusal:
        AssignorRun(CountingAssignor(ValueError("x" * 1_000_000)), {}, MEMBERS).proceed()
    assert len(refusal.value.why) < 700


class IncomparableQuery:
    """A question that compares as arrays do."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("one truth for each element")


class IncomparableAssignor(AskingAssignor):
    """Asks such a question, and gives everything to the member that is the answer."""

    question = IncomparableQuery()

    def ask(self, cluster: Mapping[str, TopicShape]) -> Any:
        who = yield self.question
        return {who: Given(by_topic([("t", 0), ("t", 1), ("t", 2)]))}


def computing(assignor: str) -> ScriptPlayer:
    """A member that wants its assignor to be run: request 8."""
    player = ScriptPlayer()
    for step in (f"new consumer {assignor}", "joined T-0"):
        player.play(step)
    player.play("1000 beat member_epoch=1 should_compute_assignment=true")
    player.play("1001 answer 7 group_epoch=2 members=m(T-0)")
    return player


def test_a_query_that_cannot_be_compared_is_answered_as_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ASSIGNORS, "incomparable", IncomparableAssignor)
    player = computing("incomparable")
    (asked,) = player.play("run 8")
    assert asked.startswith("9 query <tests.member.test_assignor_runs.IncomparableQuery object")
    assert player.play("query 9 m")[0].startswith("10 run ")
    assert player.play("run 10") == [
        "11 ConsumerGroupInstallAssignment member_epoch=1 group_epoch=2 members=m(T-0,T-1,T-2)"
    ]


def test_an_installation_that_never_gets_a_response_is_given_up() -> None:
    player = computing("counting")
    actions, sent = player.play("1002 ran 8"), 0
    for now_ms in range(1_102, 60_000, 100):
        installed = [each for each in actions if "InstallAssignment" in each]
        sent += len(installed)
        number, _, rest = (installed or actions or [""])[0].partition(" ")
        if installed:
            step = f"no answer {number} closed"
        elif rest.startswith("ConsumerGroupHeartbeat"):
            step = f"answer {number} member_epoch=1"
        else:
            step = f"found {number}" if rest == "FindCoordinator" else "tick"
        actions = player.play(f"{now_ms} {step}")
    assert sent == 5


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
