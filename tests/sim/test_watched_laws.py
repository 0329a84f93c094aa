"""Each law that the watch asks can break: something small is broken on purpose, and the law says
so.

The laws of one group are broken in test_laws.py, those of classic groups in test_classic_laws.py,
those that a planted bug breaks in test_found_seeds.py.
"""

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
from apportion.node.flush_gate import FlushGate
from apportion.sim import play as playing
from apportion.sim.actors import record_application, worker
from apportion.sim.actors.requests import request_offsets
from apportion.sim.cluster import SimulatedCluster
from apportion.sim.kernel.scenario import draw_scenario
from apportion.sim.play import play
from tests.sim.laws import WATCHED_LAWS
from tests.sim.test_classic_laws import SABOTAGE as OF_CLASSIC
from tests.sim.test_found_seeds import FOUND

take = FetchBuffer.take
flushed, arm_session = FlushGate.flushed, timers.arm_session
answer, converge = heartbeat_api.heartbeat_response, playing._converge


def forgets_an_answer(self: Any, mark: int) -> Any:
    settled, answers = flushed(self, mark)
    return settled, answers[1:]


def answers_twice(self: Any, mark: int) -> Any:
    settled, answers = flushed(self, mark)
    return settled, [*answers, *answers]


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


SABOTAGE = {  # what is done -> what is replaced, by what, and the law that says so
    "an answer is forgotten": (FlushGate, "flushed", forgets_an_answer, "ticket-once"),
    "an answer comes twice": (FlushGate, "flushed", answers_twice, "ticket-once"),
    "nobody is given anything": (fencing, "is_blocked", blocks_all, "converges"),
    "a machine raises": (fencing, "is_blocked", raises, "no-defect"),
    "a heartbeat writes beside the log": (
        timers,
        "arm_session",
        writes_beside_the_log,
        "replay-equals-live",
    ),
    "an answer tells the epoch before": (
        heartbeat_api,
        "heartbeat_response",
        tells_the_epoch_before,
        "epochs-never-back",
    ),
    "a consumer commits what was before": (
        record_application,
        "request_offsets",
        commits_what_was_before,
        "offsets-never-back",
    ),
    "a consumer commits what is to come": (
        record_application,
        "request_offsets",
        commits_what_is_to_come,
        "commit-is-delivered",
    ),
    "a consumer delivers nothing": (FetchBuffer, "take", takes_nothing, "all-is-read"),
    "a consumer takes a record twice": (
        FetchBuffer,
        "take",
        takes_the_last_record_twice,
        "delivered-in-order",
    ),
    "somebody stirs in the silence": (playing, "_converge", wishes_change_in_the_silence, "silent"),
}


@pytest.mark.parametrize("what", SABOTAGE)
def test_a_law_says_what_was_broken_on_purpose(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, name, faulty, law = SABOTAGE[what]
    scenario = draw_scenario(0, duration_ms=30_000, workers=1)
    assert play(scenario).broken is None
    monkeypatch.setattr(target, name, faulty)
    broken = play(scenario).broken
    assert broken is not None, broken
    assert broken.law == law, broken


def assigns_by_itself(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    if targets.is_target_due(turn, group):
        targets.renew_built_in_target(turn, group, "uniform")


def tells_of_nothing(self: LocalAssignors, now: Instant) -> None:
    return None


OF_LOCAL_ASSIGNORS = {  # what is done -> what is replaced, by what, and the law that says so
    "the broker assigns all the same": (
        targets,
        "renew_target",
        assigns_by_itself,
        "computed-by-members",
    ),
    "a member does not tell its assignor": (
        LocalAssignors,
        "tell_assignment",
        tells_of_nothing,
        "converges",
    ),
}


@pytest.mark.parametrize("what", OF_LOCAL_ASSIGNORS)
def test_a_law_says_what_was_broken_where_members_compute(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, name, faulty, law = OF_LOCAL_ASSIGNORS[what]
    scenario = draw_scenario(0, kinds=(), duration_ms=30_000, local_assignor="range")
    assert play(scenario).broken is None
    monkeypatch.setattr(target, name, faulty)
    broken = play(scenario).broken
    assert broken is not None, broken
    assert broken.law == law, broken


def test_a_broker_that_starts_without_its_last_records_has_forgotten_what_it_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = draw_scenario(0, kinds=("broker-crash",), duration_ms=30_000)
    assert play(scenario).broken is None
    stored = coordinators.stored_records
    monkeypatch.setattr(
        coordinators, "stored_records", lambda partition: list(stored(partition))[:-2]
    )
    broken = play(scenario).broken
    assert broken is not None, broken
    assert (broken.law, broken.why) == (
        "durable",
        "worker1.1 was told epoch 4, and now it is at 2.",
    ), broken


def test_a_first_commit_that_passes_over_records_does_not_say_where_the_sink_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a foreign client that has a partition of which the sink has nothing. The workers of
    this seed begin with each log.
    """
    scenario = draw_scenario(1, kinds=(), duration_ms=30_000)
    assert play(scenario).broken is None
    monkeypatch.setitem(
        worker.ANSWERS,
        CommitOffsets,
        lambda who, request: request_offsets(
            who,
            replace(
                request,
                offsets={partition: at or 1 for partition, at in request.offsets.items()},
            ),
        ),
    )
    broken = play(scenario).broken
    assert broken is not None, broken
    assert broken.law == "one-sink", broken
    assert "commit" in broken.why, broken
    assert broken.why.endswith("the group's sink ends at 0.")


def test_every_law_of_the_watch_is_seen_broken() -> None:
    on_purpose = {law for *_, law in (SABOTAGE | OF_LOCAL_ASSIGNORS).values()} | {
        law for *_, law, _ in OF_CLASSIC.values()
    }
    seen = on_purpose | {row.law for row in FOUND.values()}
    assert set(WATCHED_LAWS) - seen == set()
