"""Racks of replicas, where the topics say them: in targets, in the hash of KIP-1101, and for custom
assignors. A real broker of the package has none.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from apportion.assign.by_name import ClusterTopics, Given, Subscription, TopicShape
from apportion.topics import Topic, Topics
from tests.coord.shard_driver import ShardDriver, topic_id
from tests.coord.toy_assignor import Toy, all_to_first, with_toy


def foo(*racks: str) -> list[Topic]:
    """A topic with one partition in each of the racks."""
    return [Topic("foo", topic_id("foo"), len(racks), tuple((rack,) for rack in racks))]


def targets(driver: ShardDriver) -> dict[str, list[int]]:
    """The partitions that each member is to have."""
    members: Any = driver.shard.ledger.groups["g"].saved
    return {name: member.target.tolist() for name, member in members.members.items()}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_go_to_members_in_the_rack_of_their_replicas(assignor: str) -> None:
    driver = ShardDriver(known=Topics(foo("east", "west", "east", "west")))
    driver.join("a", rack_id="west", server_assignor=assignor)
    driver.join("b", rack_id="east", server_assignor=assignor)
    assert targets(driver) == {"a": [1, 3], "b": [0, 2]}


def test_members_without_racks_get_what_they_got_before() -> None:
    driver, plain = (
        ShardDriver(known=Topics(known))
        for known in (foo("e", "w", "e", "w"), [Topic("foo", topic_id("foo"), 4)])
    )
    for each in (driver, plain):
        each.join("a")
        each.join("b")
    assert targets(driver) == targets(plain) == {"a": [0, 1], "b": [2, 3]}


def test_a_member_whose_rack_has_changed_gets_partitions_that_are_near() -> None:
    driver = ShardDriver(known=Topics(foo("east", "west", "east", "west")))
    driver.join("a", rack_id="west")
    driver.join("b", rack_id="east")
    driver.beat("a", 2, rack_id="east")
    driver.beat("b", 3, rack_id="west")
    assert targets(driver) == {"a": [0, 2], "b": [1, 3]}


def test_replicas_in_other_racks_bump_the_epoch_and_the_same_ones_do_not() -> None:
    driver = ShardDriver(known=Topics(foo("east", "west")))
    driver.join("a", rack_id="west")
    driver.change_topics([*foo("east", "west"), Topic("other", topic_id("other"), 1)])
    assert driver.beat("a", 2).member_epoch == 2
    driver.change_topics(foo("west", "west"))
    assert driver.beat("a", 2).member_epoch == 3
    driver.crash()
    assert driver.beat("a", 3).member_epoch == 3


def test_a_custom_assignor_is_told_the_racks_of_replicas() -> None:
    seen = []

    def remembers(cluster: ClusterTopics, members: Mapping[str, Subscription]) -> dict[str, Given]:
        seen.append(dict(cluster))
        return all_to_first(cluster, members)

    driver = with_toy(Toy(remembers))
    driver.change_topics(foo("east", "west"))
    driver.join("a", rack_id="west")
    driver.end_computations()
    assert seen == [{"foo": TopicShape(2, (("east",), ("west",)))}]
