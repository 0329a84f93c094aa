"""Computations of a shard that is read again from its log: nobody waits for them any more."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.machine import Computed
from apportion.node.coordinators import Coordinators
from tests.coord.toy_assignor import Toy
from tests.node import group_requests
from tests.node.fault_histories import Fault, begun


def beat(member_id: str, epoch: int) -> Any:
    """A heartbeat, or a join, in the group g."""
    return group_requests.beat("g", member_id, epoch, "subscribed_topic_names=[foo]")


@pytest.fixture
def history() -> Any:
    """A node whose steps may fail, with a topic; its one assignor is the operator's."""
    settings: dict[str, Any] = {
        "group.consumer.assignors": "toy",
        "group.consumer.assignment.interval.ms": 0,
    }
    history = begun(custom_assignors={"toy": Toy()}, **settings)
    history.create("foo", 2)
    return history


def failed_step(history: Any) -> None:
    """A join of another member fails after its shard was stepped."""
    with pytest.MonkeyPatch.context() as patch:
        fault = Fault(patch, (Coordinators, "_perform"), 1, True, RuntimeError("planted"))
        history.faults = (fault,)
        assert history.call(beat("b", 0)).error_code == Code.UNKNOWN_SERVER_ERROR
        history.faults = ()


def failed_flush(history: Any) -> None:
    """A join of another member never reaches the disk."""
    ticket = history.ask(beat("b", 0))
    history.fail_flush()
    assert history.answers[ticket].error_code == Code.COORDINATOR_NOT_AVAILABLE
    history.sleep(2_000)
    history.flush()


@pytest.mark.parametrize("undo", [failed_step, failed_flush])
def test_a_computation_of_a_shard_that_was_undone_is_abandoned(history: Any, undo: Any) -> None:
    assert history.call(beat("a", 0)).error_code == Code.NONE
    (late,) = history.computations
    history.computations = []
    undo(history)
    history.step(Computed(late, late.run()))
    history.flush()
    assert history.abandoned == [late]
    assert history.call(beat("a", 1)).member_epoch == 1
    history.end_computations()
    history.flush()
    assert history.call(beat("a", 1)).member_epoch == 2


def test_a_computation_that_a_failed_step_has_begun_is_not_run(history: Any) -> None:
    history.call(beat("a", 0))
    history.end_computations()
    history.flush()
    history.call(beat("a", 1))
    failed_step(history)
    assert (history.computations, history.abandoned) == ([], [])
    assert history.call(beat("b", 0)).error_code == Code.NONE
    assert len(history.computations) == 1
