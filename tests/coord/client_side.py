"""Members that offer client-side assignors, and the two requests of the one that computes."""

from collections.abc import Mapping
from typing import Any

from apportion.wire.messages.consumer_group_heartbeat import ClientAssignor
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)
from tests.coord.shard_driver import ShardDriver, topic_id

EVERYTHING = {"foo": [0, 1, 2]}


def offer(name: str = "lag", **changes: Any) -> ClientAssignor:
    """An assignor that a member offers, in version 0 and without metadata."""
    return ClientAssignor(**({"name": name} | changes))


def join(driver: ShardDriver, member_id: str, *assignors: ClientAssignor, **facts: Any) -> Any:
    """The answer to a member that joins with these client-side assignors, or with `lag`."""
    return driver.join(member_id, client_assignors=assignors or (offer(),), **facts)


def prepare(driver: ShardDriver, member_id: str, epoch: int, group_id: str = "g") -> Any:
    """The answer to ConsumerGroupPrepareAssignment."""
    return driver.send(
        ConsumerGroupPrepareAssignmentRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch
        ),
        version=0,
    )


def installed(
    member_id: str, by_topic: Mapping[str, list[int]], metadata: bytes = b"", version: int = 0
) -> InstalledMember:
    """The target of a member; `by_topic` is {"foo": [0, 1]}."""
    return InstalledMember(
        member_id=member_id,
        topic_partitions=tuple(
            InstalledPartitions(topic_id=topic_id(name), partitions=tuple(numbers))
            for name, numbers in by_topic.items()
        ),
        metadata_version=version,
        metadata=metadata,
    )


def install(
    driver: ShardDriver,
    member_id: str,
    epochs: tuple[int, int],
    targets: Mapping[str, Mapping[str, list[int]]] | list[InstalledMember],
    **facts: Any,
) -> Any:
    """The answer to ConsumerGroupInstallAssignment; epochs: the member's and the group's."""
    members = (
        targets
        if isinstance(targets, list)
        else [installed(each, by_topic) for each, by_topic in targets.items()]
    )
    return driver.send(
        ConsumerGroupInstallAssignmentRequest(
            **{"group_id": "g"} | facts,
            member_id=member_id,
            member_epoch=epochs[0],
            group_epoch=epochs[1],
            members=tuple(members),
        ),
        version=0,
    )


def with_one(driver: ShardDriver) -> ShardDriver:
    """The same driver, where "a" is alone at epoch 2 and has all of foo by its own assignor."""
    join(driver, "a")
    prepare(driver, "a", 1)
    assert install(driver, "a", (1, 2), {"a": {"foo": [0, 1, 2]}}).error_code == 0
    assert driver.beat("a", 1).member_epoch == 2
    return driver


def group_of(driver: ShardDriver) -> Any:
    """The group of these tests."""
    return driver.shard.ledger.groups["g"]


def computes(driver: ShardDriver, member_id: str, epoch: int) -> bool:
    """Whether a member's next heartbeat tells it to compute the target."""
    answer = driver.beat(member_id, epoch)
    assert answer.error_code == 0
    return answer.should_compute_assignment


def with_two(driver: ShardDriver) -> ShardDriver:
    """The same driver, where "a" has all of foo, and "b" has joined and computes."""
    assert join(with_one(driver), "b").should_compute_assignment
    return driver
