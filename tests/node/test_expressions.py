"""Expressions of groups on a whole node: what is begun, and where its end goes."""

from typing import Any

from apportion.machine import Computed, ComputeFailed
from tests.node import group_requests
from tests.node.kit import NodeDriver


def beat(driver: NodeDriver, epoch: int, wishes: str = "") -> Any:
    """The answer to a heartbeat of the member m."""
    return driver.call(group_requests.beat("g", "m", epoch, wishes))


def assigned(answer: Any) -> Any:
    """The topic ids and partitions in an answer."""
    return [(part.topic_id, part.partitions) for part in answer.assignment.topic_partitions]


def test_an_expression_of_everything_matches_the_internal_topic_too(driver: NodeDriver) -> None:
    foo = driver.create("foo", 1)
    beat(driver, 0, "subscribed_topic_regex=.*")
    driver.end_computations()
    driver.flush()
    offsets = driver.node.topics.named("__consumer_offsets")
    assert offsets is not None
    everything = dict(assigned(beat(driver, 1)))
    assert everything == {foo: (0,), offsets.id: tuple(range(offsets.partitions))}


def test_an_end_that_nobody_waits_for_changes_nothing(driver: NodeDriver) -> None:
    driver.create("foo", 1)
    beat(driver, 0, "subscribed_topic_regex=fo.")
    (computation,) = driver.computations
    again = driver.crash()
    for end in (Computed(computation, computation.run()), ComputeFailed(computation, "late")):
        again.step(end)
    assert (again.pending, again.notes) == (None, [])
    assert beat(again, 1).member_epoch == 1
