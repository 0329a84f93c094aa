"""Each law that the watch asks can break: something small is broken on purpose, and the law says
so.

The laws of one group are broken in test_laws.py, those of classic groups in test_classic_laws.py,
those that a planted bug breaks in test_found_seeds.py.
"""

import re
from collections.abc import Generator
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from apportion.coord.consumer import fencing, heartbeat_api, targets, timers
from apportion.coord.consumer.heartbeat import HeartbeatResult
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.turn import Turn
from apportion.machine import Instant
from apportion.member.consumer.local_assignors import LocalAssignors
from apportion.member.queries import CommitOffsets, FetchCommitted
from apportion.member.records.fetch_buffer import ConsumerRecord, FetchBuffer
from apportion.node import coordinators
from apportion.node.coordinator_log import stored_records
from apportion.node.flush_gate import FlushGate
from apportion.sim import play as playing
from apportion.sim.actors import record_application, worker
from apportion.sim.actors.requests import request_offsets
from apportion.sim.cluster import SimulatedCluster
from apportion.sim.kernel.scenario import Scenario, draw_scenario
from tests.sim.bug import Swap, violation
from tests.sim.laws import WATCHED_LAWS
from tests.sim.test_classic_laws import SABOTAGE as OF_CLASSIC
from tests.sim.test_found_seeds import FOUND

take = FetchBuffer.take
flushed, arm_session = FlushGate.flushed, timers.arm_session
answer, converge = heartbeat_api.heartbeat_response, playing._converge


def forgets_an_answer(self: Any, mark: int) -> Any:
    settled, answers, lines = flushed(self, mark)
    return settled, answers[1:], lines


def answers_twice(self: Any, mark: int) -> Any:
    settled, answers, lines = flushed(self, mark)
    return settled, [*answers, *answers], lines


def blocks_all(group: ConsumerGroup, member_id: str, unit: int) -> bool:
    return True


def raises(group: ConsumerGroup, member_id: str, unit: int) -> NoReturn:
    raise LookupError(unit)


def writes_beside_the_log(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    arm_session(turn, group, member)
    member.previous_epoch = -1


def tells_the_epoch_before(verdict: HeartbeatResult, interval_ms: int) -> Any:
    result: Any = answer(verdict, interval_ms)
    before = verdict.member.previous_epoch
    result.member_epoch = (
        before if before > 0 and verdict.group.has_converged() else result.member_epoch
    )
    return result


def commits_what_was_before(
    who: record_application.RecordApplication, request: CommitOffsets | FetchCommitted
) -> Generator[Any, Any, Any]:
    if isinstance(request, FetchCommitted):
        return request_offsets(who, request)
    before = {
        partition: max(0, at - who.rng.randint(0, 9)) for partition, at in request.offsets.items()
    }
    return request_offsets(who, replace(request, offsets=before))


def commits_what_is_to_come(
    who: record_application.RecordApplication, request: CommitOffsets | FetchCommitted
) -> Generator[Any, Any, Any]:
    if isinstance(request, FetchCommitted):
        return request_offsets(who, request)
    ahead = {partition: at + 1 for partition, at in request.offsets.items()}
    return request_offsets(who, replace(request, offsets=ahead))


def takes_nothing(self: FetchBuffer, limit: int) -> list[ConsumerRecord]:
    return []


def takes_the_last_record_twice(self: FetchBuffer, limit: int) -> list[ConsumerRecord]:
    taken = take(self, limit)
    return taken + taken[-1:]


def wishes_change_in_the_silence(cluster: SimulatedCluster) -> None:
    converge(cluster)
    cluster.simulation.call_later(1_000_000, cluster.applications[0].subscribe, ())


def assigns_by_itself(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    if targets.is_target_due(turn, group):
        targets.renew_built_in_target(turn, group, "uniform")


def tells_of_nothing(self: LocalAssignors, now: Instant) -> None:
    return None


def all_but_the_last_two(partition: Any) -> list[Any]:
    return [*stored_records(partition)][:-2]


def passes_over_a_record(who: worker.Worker, request: CommitOffsets) -> Generator[Any, Any, Any]:
    """As of a foreign client that has a partition of which the sink has nothing."""
    offsets = {partition: at or 1 for partition, at in request.offsets.items()}
    return request_offsets(who, replace(request, offsets=offsets))


ORDINARY = draw_scenario(0, duration_ms=30_000, workers=1)
COMPUTING = draw_scenario(0, kinds=(), duration_ms=30_000, local_assignor="range")
CRASHING = draw_scenario(17, kinds=("broker-crash",), duration_ms=30_000)
CALM = draw_scenario(1, kinds=(), duration_ms=30_000)  # its workers begin with each log

SABOTAGE: dict[str, tuple[Scenario, Swap, str]] = {
    "an answer is forgotten": (
        ORDINARY,
        (FlushGate, "flushed", forgets_an_answer),
        "ticket-once: .*",
    ),
    "an answer comes twice": (ORDINARY, (FlushGate, "flushed", answers_twice), "ticket-once: .*"),
    "nobody is given anything": (ORDINARY, (fencing, "is_blocked", blocks_all), "converges: .*"),
    "a machine raises": (ORDINARY, (fencing, "is_blocked", raises), "no-defect: .*"),
    "a heartbeat writes beside the log": (
        ORDINARY,
        (timers, "arm_session", writes_beside_the_log),
        "replay-equals-live: .*",
    ),
    "an answer tells the epoch before": (
        ORDINARY,
        (heartbeat_api, "heartbeat_response", tells_the_epoch_before),
        "epochs-never-back: .*",
    ),
    "a consumer commits what was before": (
        ORDINARY,
        (record_application, "request_offsets", commits_what_was_before),
        "offsets-never-back: .*",
    ),
    "a consumer commits what is to come": (
        ORDINARY,
        (record_application, "request_offsets", commits_what_is_to_come),
        "commit-is-delivered: .*",
    ),
    "a consumer delivers nothing": (
        ORDINARY,
        (FetchBuffer, "take", takes_nothing),
        "all-is-read: .*",
    ),
    "a consumer takes a record twice": (
        ORDINARY,
        (FetchBuffer, "take", takes_the_last_record_twice),
        "delivered-in-order: .*",
    ),
    "somebody stirs in the silence": (
        ORDINARY,
        (playing, "_converge", wishes_change_in_the_silence),
        "silent: .*",
    ),
    "the broker assigns all the same": (
        COMPUTING,
        (targets, "renew_target", assigns_by_itself),
        "computed-by-members: .*",
    ),
    "a member does not tell its assignor": (
        COMPUTING,
        (LocalAssignors, "tell_assignment", tells_of_nothing),
        "converges: .*",
    ),
    "a broker starts without its last records": (
        CRASHING,
        (coordinators, "stored_records", all_but_the_last_two),
        r"durable: worker1\.1 was told epoch 4, and now it is at 2\.",
    ),
    "a first commit passes over records": (
        CALM,
        (worker, "ANSWERS", {**worker.ANSWERS, CommitOffsets: passes_over_a_record}),
        r"one-sink: .*commit.*the group's sink ends at 0\.",
    ),
}
"""What is done -> where, what is replaced by what, and the law that says so, in which words."""


@pytest.mark.parametrize("what", SABOTAGE)
def test_a_law_says_what_was_broken_on_purpose(what: str) -> None:
    scenario, swap, sentence = SABOTAGE[what]
    broken = violation(scenario, swap)
    assert re.fullmatch(sentence, f"{broken.law}: {broken.why}"), broken


def test_every_law_of_the_watch_is_seen_broken() -> None:
    said = [sentence for *_, sentence in (*SABOTAGE.values(), *OF_CLASSIC.values())]
    on_purpose = {sentence.partition(": ")[0] for sentence in said}
    seen = on_purpose | {row.law for row in FOUND.values()}
    assert set(WATCHED_LAWS) - seen == set()
