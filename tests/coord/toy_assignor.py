"""A custom assignor that answers as a test says, and a shard that has it."""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.assign.by_name import ClusterTopics, Given, Subscription, TopicShape, by_topic
from tests.coord.shard_driver import ShardDriver, settings_with, topic_id

Members = Mapping[str, Subscription]


def all_to_first(cluster: ClusterTopics, members: Members) -> dict[str, Given]:
    """Everything to the first member."""
    first = next(iter(members), None)
    pairs = [(name, each) for name, shape in cluster.items() for each in range(shape.partitions)]
    return {} if first is None else {first: Given(by_topic(pairs))}


def first_to_all(_cluster: ClusterTopics, members: Members) -> dict[str, Given]:
    """The first partition of foo to everybody."""
    return {member: Given(by_topic([("foo", 0)])) for member in members}


def first_to_first(_cluster: ClusterTopics, members: Members) -> dict[str, Given]:
    """The first partition of foo to the first member, and the others to nobody."""
    return {member: Given(by_topic([("foo", 0)])) for member in list(members)[:1]}


def raises(_cluster: ClusterTopics, _members: Members) -> Any:
    """Nothing, as it raises."""
    raise ValueError("no")


ANSWERS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (all_to_first, first_to_all, first_to_first, raises)
}


class Toy:
    """An assignor that answers as a test says; it keeps what it was asked."""

    name = "toy"

    def __init__(self, answer: Callable[..., Any] = all_to_first) -> None:
        self.answer = answer
        self.asked: list[tuple[dict[str, TopicShape], dict[str, Subscription]]] = []

    def assign(self, cluster: ClusterTopics, members: Members) -> Any:
        self.asked.append((dict(cluster), dict(members)))
        return self.answer(cluster, members)


def with_toy(toy: Toy, **changes: Any) -> ShardDriver:
    """A shard whose first assignor is the toy."""
    facts = {"group_consumer_assignors": ("toy", "uniform"), "custom_assignors": {"toy": toy}}
    return ShardDriver(settings_with(**facts, **changes))


def assigned(answer: Any) -> Any:
    """{topic id: partitions} of a response, or None without an assignment."""
    if answer.assignment is None:
        return None
    return {part.topic_id: part.partitions for part in answer.assignment.topic_partitions}


def beat_to_target(driver: ShardDriver, member_id: str, epoch: int) -> tuple[int, Any]:
    """The epoch and the partitions of a member after its heartbeat."""
    answer = driver.beat(member_id, epoch)
    assert answer.error_code == 0
    return answer.member_epoch, assigned(answer)


FOO = topic_id("foo")
