"""Steady heartbeats are answered without a unit of work, as with one."""

import random
from typing import Any

import pytest

from apportion.coord.consumer import heartbeat_api
from apportion.coord.shard import Shard
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Arrived, Caller, Gone, Instant, Ticket
from apportion.node.coordinators import Coordinators
from apportion.node.settings import BrokerSettings
from apportion.security.acls import AclOperation
from apportion.sim.checks.saved import saved_state
from apportion.topics import Topics
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.node import kit
from tests.node.group_requests import beat, commit
from tests.node.guarded import GROUP, TOPIC, as_bob, guarded, let, may
from tests.node.kit import NodeDriver

READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE


def settled(driver: NodeDriver, group_id: str = "g", member_id: str = "m") -> int:
    """The epoch of the one member of a new group, which has its target."""
    answer = driver.call(beat(group_id, member_id, 0))
    assert answer.error_code == Code.NONE
    epoch: int = answer.member_epoch
    return epoch


def played(driver: NodeDriver, seed: int) -> list[Any]:
    """The answers to a random history of a few members, and when the node wants to be woken."""
    rng = random.Random(seed)
    driver.create("t", 6)
    epochs: dict[tuple[str, str], int] = {}
    seen: list[Any] = []
    for step in range(600):
        if rng.random() < 0.15:
            # At times so long that sessions end.
            driver.sleep(rng.choice([20, 300, 5_000, 40_000]))
        member = rng.choice("gh"), rng.choice("abc")
        asked: list[tuple[tuple[str, str], int]] = []
        match rng.randrange(20):
            case 0:
                driver.sleep(1_100)  # a refused flush may have delayed the next one
                driver.create(f"t-{step}", 1)
            case 1 if driver.pending:
                driver.fail_flush()
            case 2:
                driver.ask(commit(member[0], step), 9)
            case 3 if driver.pending:
                driver.flush_once()
            case 4:
                driver.step(Gone((Ticket(rng.randint(1, step + 1)),)))
        with driver.together():
            for _ in range(rng.randint(1, 4)):
                other = rng.choice([member, (rng.choice("gh"), rng.choice("abc"))])
                epoch = epochs.get(other, 0)
                if rng.random() < 0.05:
                    epoch = -1
                asked.append((other, driver.ask(beat(*other, epoch))))
        if rng.random() < 0.8:
            driver.flush()
        driver.end_computations()
        for who, ticket in asked:
            answer = driver.answers.get(ticket)
            seen.append((who, answer))
            if answer is not None:
                epochs[who] = max(answer.member_epoch, 0) if answer.error_code == 0 else 0
        seen.append((driver.node.wake_at(), driver.node.heartbeats.bookings))
    return [*seen, *(saved_state(shard.ledger) for _, shard in driver.node.shards())]


@pytest.mark.parametrize("seed", range(12))
def test_a_history_is_the_same_with_and_without_units_of_work(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    found = 0
    answer = Shard.steady_response_or_none

    def counted(*arguments: Any) -> Any:
        nonlocal found
        body = answer(*arguments)
        found += body is not None
        return body

    monkeypatch.setattr(Shard, "steady_response_or_none", counted)
    without_units = played(kit.NodeDriver(), seed)
    assert found > 20
    monkeypatch.setattr(Coordinators, "steady_response_or_none", lambda *_: None)
    assert played(kit.NodeDriver(), seed) == without_units


def test_a_steady_heartbeat_is_no_step_of_its_shard(
    driver: NodeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.create("t", 3)
    epoch = settled(driver)
    monkeypatch.setattr(Shard, "step", None)
    assert driver.call(beat("g", "m", epoch)).error_code == Code.NONE


def test_a_steady_heartbeat_passes_the_gate_of_a_broker_with_acls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = guarded(may(READ, GROUP, "g"), may(DESCRIBE, TOPIC, "t"))
    driver.create("t", 3)
    driver.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)))
    epoch = as_bob(driver, beat("g", "m", 0)).member_epoch
    monkeypatch.setattr(Shard, "step", None)
    assert as_bob(driver, beat("g", "m", epoch)).error_code == Code.NONE
    let(driver)
    assert as_bob(driver, beat("g", "m", epoch)).error_code == Code.GROUP_AUTHORIZATION_FAILED


def test_a_steady_heartbeat_waits_for_what_its_shard_has_written(driver: NodeDriver) -> None:
    driver.create("t", 3)
    epoch = settled(driver)
    driver.ask(commit("g", 7, "m", epoch), 9)
    ticket = driver.ask(beat("g", "m", epoch))
    assert ticket not in driver.answers
    driver.flush()
    assert driver.answers[ticket].error_code == Code.NONE


def test_a_session_lasts_from_the_last_steady_heartbeat(driver: NodeDriver) -> None:
    driver.create("t", 3)
    epoch = settled(driver)
    for _ in range(3):
        driver.sleep(30_000)
        assert driver.call(beat("g", "m", epoch)).error_code == Code.NONE
    driver.sleep(46_000)
    assert driver.call(beat("g", "m", epoch)).error_code == Code.UNKNOWN_MEMBER_ID


def test_a_defect_in_a_steady_heartbeat_fails_it_alone(
    driver: NodeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.create("t", 3)
    epochs = {name: settled(driver, name) for name in ("g", "h", "i")}
    answer = Shard.steady_response_or_none

    def planted(shard: Shard, arrived: Any, now: Any) -> Any:
        if arrived.request.group_id == "h":
            raise RuntimeError("planted")
        return answer(shard, arrived, now)

    monkeypatch.setattr(Shard, "steady_response_or_none", planted)
    tickets: list[int] = []
    with pytest.raises(RuntimeError) as failed, driver.together():
        tickets += [driver.ask(beat(name, "m", epoch)) for name, epoch in epochs.items()]
    driver._take(driver.node.give_up(None, failed.value, driver.now))
    driver.sleep(10)
    assert [driver.answers[ticket].error_code for ticket in tickets] == [
        Code.NONE,
        Code.UNKNOWN_SERVER_ERROR,
        Code.NONE,
    ]


def test_a_shard_whose_steady_heartbeat_failed_is_loaded_again(driver: NodeDriver) -> None:
    driver.create("t", 3)
    epoch = settled(driver)
    [(_, damaged)] = driver.node.shards()
    live: Any = damaged.ledger.groups["g"].live
    live.counts = None
    with pytest.raises(AttributeError) as failed:
        driver.ask(beat("g", "m", epoch))
    driver._take(driver.node.give_up(None, failed.value, driver.now))
    [(_, loaded)] = driver.node.shards()
    assert loaded is not damaged
    assert driver.call(beat("g", "m", epoch)).error_code == Code.NONE


def test_a_heartbeat_before_the_log_is_read_takes_a_step_which_refuses_it() -> None:
    shard = Shard(BrokerSettings().group, Topics())
    arrived = Arrived(Ticket(1), beat("g", "m", 1), 1, Caller("", ""), bytes(16))
    assert shard.steady_response_or_none(arrived, Instant(0, 0)) is None
    reply: Any
    (reply,) = shard.step(arrived, Instant(0, 0))
    assert reply.body.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS


def test_a_steady_heartbeat_that_emits_something_is_a_defect(
    driver: NodeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.create("t", 3)
    epoch = settled(driver)

    def noting(turn: Turn, _arrived: Arrived) -> None:
        turn.note("info", "planted")

    monkeypatch.setattr(heartbeat_api, "steady_response_or_none", noting)
    with pytest.raises(AssertionError, match="has emitted something"):
        driver.ask(beat("g", "m", epoch))
