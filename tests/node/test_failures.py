"""Bystanders of what breaks off are told to ask again, if anything; and what fails whenever it is
tried keeps nobody waiting.
"""

from typing import Any

import pytest

from apportion.coord.placement import shard_of
from apportion.coord.shard import Shard
from apportion.coord.shard_events import TopicsChanged
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Gone, Instant, Tick, Ticket
from apportion.node.coordinators import Coordinators
from apportion.node.handlers.fetch import FetchResult
from tests.node.fault_histories import (
    Fault,
    LastingFault,
    begun,
    commit,
    fetch,
    join,
    make,
    produce,
)

DELAY_MS = 60_000
SHARDS = {"group.initial.rebalance.delay.ms": DELAY_MS, "offsets.topic.num.partitions": 5}
PLANTED = RuntimeError("planted")


@pytest.fixture
def history() -> Any:
    """A broker with a topic, whose classic groups wait long for more members."""
    life = begun(**SHARDS)
    life.create("t", 1)
    life.call(*commit(life, "first", "t"))
    return life


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Shard]:
    """The shards that were told of a closed connection, and did not fail."""
    shards, whole = [], Shard.step

    def step(shard: Shard, event: Any, now: Instant) -> Any:
        if type(event) is Gone:
            shards.append(shard)
        return whole(shard, event, now)

    monkeypatch.setattr(Shard, "step", step)
    return shards


def joining(history: Any, *groups: str) -> dict[str, int]:
    """A ticket for each group: of a member that waits in its JoinGroup."""
    tickets = {group: history.ask(*join(history, group)) for group in groups}
    history.flush()
    assert not set(tickets.values()) & set(history.answers)
    return tickets


def apart(count: int) -> list[str]:
    """Names of so many groups, each of another shard."""
    names = {shard_of(f"g{number}", 5): f"g{number}" for number in range(50)}
    return [names[shard] for shard in sorted(names)][:count]


def codes(history: Any, tickets: dict[str, int]) -> dict[str, int]:
    """The code of each group that was answered."""
    return {
        group: history.answers[ticket].error_code
        for group, ticket in tickets.items()
        if ticket in history.answers
    }


def test_requests_parked_in_the_shard_of_a_failed_one_get_a_retriable_error(history: Any) -> None:
    group = apart(1)[0]
    neighbour = next(f"n{at}" for at in range(99) if shard_of(f"n{at}", 5) == shard_of(group, 5))
    tickets = joining(history, group)
    with pytest.MonkeyPatch.context() as patch:
        history.faults = [Fault(patch, (Turn, "emit"), 1, True, PLANTED)]
        answer = history.call(*commit(history, neighbour, "t"))
    assert answer.topics[0].partitions[0].error_code == Code.UNKNOWN_SERVER_ERROR
    assert codes(history, tickets) == {group: Code.COORDINATOR_NOT_AVAILABLE}


def test_requests_answered_by_a_step_that_fails_get_a_retriable_error(history: Any) -> None:
    tickets = joining(history, *apart(2))
    with pytest.MonkeyPatch.context() as patch:
        history.faults = [Fault(patch, (Coordinators, "tick"), 1, True, PLANTED)]
        history.sleep(DELAY_MS)
        history.flush()
    assert sorted(codes(history, tickets).values()) == [Code.NONE, Code.COORDINATOR_NOT_AVAILABLE]


@pytest.mark.parametrize(
    "target", [(Coordinators, "update"), (Shard, "step")], ids=["tell", "step"]
)
def test_one_shard_that_fails_to_hear_of_topics_harms_no_other(
    history: Any, target: tuple[type[Any], str]
) -> None:
    tickets = joining(history, *apart(3))
    with pytest.MonkeyPatch.context() as patch:
        history.faults = [Fault(patch, target, 2, False, PLANTED)]
        ticket = history.ask(*make(history, "v"))
        history.sleep(10)
        history.flush()
    assert history.answers[ticket].topics[0].error_code == Code.NONE
    assert sorted(codes(history, tickets).values()) == (
        [] if target[0] is Coordinators else [Code.COORDINATOR_NOT_AVAILABLE]
    )
    assert all(shard.topics is history.node.topics for _, shard in history.node.shards())


def test_a_shard_that_fails_on_a_closed_connection_does_not_harm_the_other_shards(
    history: Any, told: list[Shard]
) -> None:
    tickets = joining(history, *apart(3))
    with pytest.MonkeyPatch.context() as patch:
        history.faults = [Fault(patch, (Shard, "step"), 1, False, PLANTED)]
        history.step(Gone(tuple(Ticket(ticket) for ticket in tickets.values())))
        history.sleep(10)
    assert len(told) == len(list(history.node.shards())) - 1
    assert len(codes(history, tickets)) <= 1


def test_only_the_shard_of_a_closed_connection_is_told(history: Any, told: list[Shard]) -> None:
    tickets = joining(history, *apart(3))
    for ticket in (*tickets.values(), max(tickets.values()) + 1):
        history.step(Gone((Ticket(ticket),)))
    assert len(told) == len(set(map(id, told))) == 3


LASTING = {
    "tell": (Coordinators, "update", 400),
    "told": (Shard, "step", 400),
    "ticked": (Coordinators, "tick", 400),
}


@pytest.mark.parametrize("where", LASTING)
def test_a_permanent_failure_is_left_alone_and_other_requests_are_served(
    history: Any, where: str
) -> None:
    owner, name, most_times = LASTING[where]
    lasting_ms = 120_000
    joining(history, *apart(2))
    with pytest.MonkeyPatch.context() as patch:
        if where == "told":
            whole = Shard.step
            fault = LastingFault(
                patch, (Shard, "step"), history, history.now_ms + lasting_ms, PLANTED
            )
            broken = Shard.step
            patch.setattr(
                Shard,
                "step",
                lambda shard, event, now: (
                    broken if type(event) in (TopicsChanged, Tick) else whole
                )(shard, event, now),
            )
        else:
            fault = LastingFault(
                patch, (owner, name), history, history.now_ms + lasting_ms, PLANTED
            )
        history.faults = [fault]
        ticket = history.ask(*make(history, "v"))
        for second in range(lasting_ms // 1000):
            if second % 10 == 0:
                asked = history.ask(*produce(history, "t", (0,)))
            history.sleep(1_000)
            history.flush()
            assert asked in history.answers
        assert history.answers[ticket].topics[0].error_code == Code.NONE
        assert 0 < fault.times <= most_times
        assert len([note for note in history.notes if note.level == "error"]) <= 4
        history.sleep(10_000)
        history.flush()
        history.faults = ()
    assert all(shard.topics is history.node.topics for _, shard in history.node.shards())
    assert (
        sum("more steps failed at" in note.text for note in history.notes) >= 1 or fault.times == 1
    )


def test_a_request_that_fails_again_and_again_delays_none_that_came_with_it(
    history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = LastingFault(monkeypatch, (FetchResult, "__init__"), history, DELAY_MS, PLANTED)
    history.faults = [fault]
    for times in range(1, 8):
        with history.together():
            commits = [history.send(*commit(history, "first", "t")) for _ in range(2)]
            fetched = history.send(*fetch(history, "t", (0,)))
            commits.append(history.send(*commit(history, "first", "t")))
        history.sleep(1)
        history.flush()
        assert fault.times == times
        assert history.answers[fetched].error_code == Code.UNKNOWN_SERVER_ERROR
        assert history.answers.keys() >= set(commits)
