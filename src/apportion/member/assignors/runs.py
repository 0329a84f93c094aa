"""The run of a client-side assignor: its calls, its queries, and what it may raise.

An assignor is often the user's code, so whatever it raises becomes one sentence (`Refused`). One
that has to ask the cluster first is a generator, and is paused between its queries.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeVar

from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.assign.checks import (
    are_numbers,
    check_given,
    check_metadata_sizes,
    invalid_assignment,
)
from apportion.errors import Code, Refused, Unanswerable, with_foreign_line
from apportion.member.assignors.checks import partitions_of
from apportion.member.assignors.interface import Assignor, FollowUp, MemberFailure, Rebalance
from apportion.readable import foreign_text, shortened
from apportion.rules import RunningRule

T = TypeVar("T")
MAX_INT8 = 2**7 - 1
LATEST_MS = 2**42
"""The latest time of a follow-up, in the year 2109: a thread cannot wait for any longer time."""
MOST_CHARACTERS = 500
"""How long a log line may quote an assignor's exception."""
MOST_ROUNDS = 3
"""How often a cooperative assignor is asked again; Kafka's needs one round more than the first."""


@dataclass(frozen=True, slots=True)
class PausedAssignor:
    """An assignor's generator, paused at a query, which the cluster has to answer."""

    assignor: Assignor
    running: RunningRule[dict[str, Given]]

    @property
    def query(self) -> Any:
        """The query that the assignor waits for."""
        return self.running.query

    def resume(self, answer: Any) -> "AssignorOutcome":
        """Send the cluster's answer to the assignor's query, or throw an error into the assignor.

        answer: Unanswerable if the query cannot be answered now, Refused if it never can.
        Raises Refused as `call_assignor` does.
        """
        is_error = isinstance(answer, Unanswerable | Refused)
        proceed = self.running.fail if is_error else self.running.resume
        call_assignor(self.assignor, lambda: proceed(answer))
        return self.outcome()

    def outcome(self) -> "AssignorOutcome":
        """Return the answer of an assignor that has ended; itself before."""
        return self.running.result if self.running.is_finished else self


AssignorOutcome = Mapping[str, Given] | PausedAssignor
"""An assignor's answer, which nobody has checked yet, or the assignor that has a query first."""


def run_assignor(
    assignor: Assignor, cluster: ClusterTopics, members: Mapping[str, Subscription]
) -> AssignorOutcome:
    """Run an assignor to its answer, or to its first query. Raises Refused for what it raises."""
    answer = call_assignor(assignor, lambda: assignor.assign(cluster, members))
    if isinstance(answer, Generator):
        running = call_assignor(assignor, lambda: RunningRule(answer))
        return PausedAssignor(assignor, running).outcome()
    return answer


@dataclass(frozen=True, slots=True)
class AssignorRun:
    """The computation of a KIP-848 group's target by an assignor, on a thread beside its member.

    A cooperative assignor of classic groups leaves out partitions that another member still owns.
    A coordinator of KIP-848 takes care of that itself and wants the whole target. So such an
    assignor is asked again, as if the owners had given up what it left out, until it leaves nothing
    out.

    paused: the assignor at the query whose answer is `answer`; None to begin. rounds: how often it
    was asked again.
    """

    assignor: Assignor
    cluster: ClusterTopics
    members: Mapping[str, Subscription]
    paused: PausedAssignor | None = None
    answer: Any = None
    rounds: int = 0

    @property
    def query(self) -> Any:
        """The query that the assignor waits for; None if it has none."""
        return None if self.paused is None else self.paused.query

    def proceed(self) -> "Mapping[str, Given] | AssignorRun":
        """Run the assignor on; return its answer, which is checked, or the run at its next query.

        Raises Refused if the assignor fails, or its answer is no assignment.
        """
        if self.paused is None:
            # Read-only: the answer is checked by the same values.
            views = MappingProxyType(self.cluster), MappingProxyType(self.members)
            outcome = run_assignor(self.assignor, *views)
        else:
            outcome = self.paused.resume(self.answer)
        if isinstance(outcome, PausedAssignor):
            return replace(self, paused=outcome, answer=None)
        # Reading the answer runs foreign code, too: it is done here, and what was checked is kept.
        answer: Mapping[str, Given] = outcome
        answer = call_assignor(self.assignor, lambda: self._checked(answer))
        if self._has_to_repeat(answer):
            return self._next_round(answer).proceed()
        return answer

    def _checked(self, answer: Mapping[str, Given]) -> Mapping[str, Given]:
        """Return an assignor's answer as a value of our own. Raises Refused for a wrong one."""
        answer = dict(answer.items()) if isinstance(answer, Mapping) else answer
        check_given(self.cluster, self.members, answer)
        check_error(answer)
        check_metadata_sizes([len(each.user_data or b"") for each in answer.values()])
        return answer

    def _has_to_repeat(self, given: Mapping[str, Given]) -> bool:
        return (
            Rebalance.COOPERATIVE in self.assignor.rebalances
            and self.rounds < MOST_ROUNDS
            and has_pending_revocation(self.members, given)
        )

    def _next_round(self, given: Mapping[str, Given]) -> "AssignorRun":
        """Return the same run in a group that has followed `given`."""
        members = {
            member_id: replace(member, owned=given.get(member_id, Given()).partitions)
            for member_id, member in self.members.items()
        }
        return AssignorRun(self.assignor, self.cluster, members, rounds=self.rounds + 1)


def check_error(given: Mapping[str, Given]) -> None:
    """Raise Refused unless all members can be told the error of an assignor's answer.

    It is one number for all of them, in one byte; 0 for none.
    """
    # One after the other: what is no number may not be comparable, or hashable, either.
    told: int = 0
    for member, each in given.items():
        if not is_byte(each.error):
            raise invalid_assignment(
                f"gives the error {foreign_text(each.error):.80} to {member!r}: it must be "
                f"a number from {-MAX_INT8} to {MAX_INT8}"
            )
        if told and each.error not in (0, told):
            raise invalid_assignment(
                f"gives the errors {told} and {each.error}: all members are told the same"
            )
        told = told or each.error


def is_byte(number: Any) -> bool:
    """Return whether this is a whole number that a field of one byte carries, but for -128."""
    return are_numbers((number,)) and abs(number) <= MAX_INT8


def has_pending_revocation(members: Mapping[str, Subscription], given: Mapping[str, Given]) -> bool:
    """Return whether a partition that a member owns is assigned to no member (KIP-429).

    A cooperative assignor leaves it out until its owner has revoked it and rejoined.
    """
    assigned = {pair: None for own in given.values() for pair in partitions_of(own.partitions)}
    return any(
        pair not in assigned for member in members.values() for pair in partitions_of(member.owned)
    )


def checked_user_data(assignor: Assignor, encode: Callable[[], bytes | None]) -> bytes | None:
    """Return the user data that an assignor encodes for its member.

    Raises Refused if the assignor fails or returns no bytes.
    """
    data = call_assignor(assignor, encode)
    if data is not None and not isinstance(data, bytes):
        raise Refused(
            Code.INVALID_REQUEST,
            f"the assignor {assignor.name!r} gives {foreign_text(data):.80} as user data, which "
            "are no bytes",
        )
    return data


def checked_reply(
    assignor: Assignor, take: Callable[[], FollowUp | MemberFailure | None]
) -> FollowUp | MemberFailure | None:
    """Return the reply of an assignor that takes its member's assignment.

    Raises Refused if the assignor fails, or replies what its member cannot follow.
    """
    # Reading the reply runs foreign code, too.
    return call_assignor(assignor, lambda: _checked_reply(assignor, take()))


def _checked_reply(assignor: Assignor, reply: Any) -> FollowUp | MemberFailure | None:
    match reply:
        case FollowUp(at_ms, str(), _, after_ms) if is_time(at_ms) and is_time(after_ms):
            return reply._replace(at_ms=bounded_time(at_ms), after_ms=bounded_time(after_ms))
        case FollowUp():
            must = "at_ms and after_ms must be numbers, of ms, and why a sentence"
            raise refused_reply(assignor, reply, must)
        case MemberFailure(code, str()) if is_error_code(code):
            return reply._replace(code=Code.of(code))
        case MemberFailure():
            must = "code must be an error of apportion.errors.Code, and why a sentence"
            raise refused_reply(assignor, reply, must)
        case None:
            return None
    # A class in place of its object, too, whose wish nobody would hear of.
    raise refused_reply(assignor, reply, "it must be None, a FollowUp or a MemberFailure")


def is_time(time_ms: Any) -> bool:
    """Return whether this is a number of milliseconds."""
    is_number = isinstance(time_ms, Real) and not isinstance(time_ms, bool)
    # NaN is neither; `isnan` would fail for a long integer.
    return is_number and (time_ms < 0 or time_ms >= 0)


def bounded_time(time_ms: Any) -> int:
    """Return a number of milliseconds as one for which a thread can wait."""
    return int(max(0, min(time_ms, LATEST_MS)))


def is_error_code(code: Any) -> bool:
    """Return whether this is the number of a Kafka error, which Code.NONE is not."""
    return are_numbers((code,)) and code != Code.NONE and Code.of(code) == code


def refused_reply(assignor: Assignor, reply: Any, must: str) -> Refused:
    """Return the refusal of a reply of `on_assignment`. must: how it has to be."""
    return Refused(
        Code.INVALID_REQUEST,
        f"the assignor {assignor.name!r} replies {foreign_text(reply):.80} to its assignment: "
        f"{must}",
    )


def call_assignor(assignor: Assignor, call: Callable[[], T]) -> T:
    """Call a method of an assignor; raise Refused for any exception.

    The assignor may be the user's code. So it may also end the process, or a task, that it runs in.
    """
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise assignor_failure(assignor, error) from error


def assignor_failure(assignor: Assignor, error: BaseException) -> Refused:
    """Return an assignor's exception as Refused."""
    if isinstance(error, Refused):
        return error
    what = shortened(foreign_text(error, str), MOST_CHARACTERS)
    why = f"the assignor {assignor.name!r} failed: {type(error).__name__}: {what}"
    # Retrying would call the same code with the same input; the application has to hear of it.
    return Refused(Code.INVALID_REQUEST, with_foreign_line(why, error))
