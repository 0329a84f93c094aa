"""Which groups are upgraded, and what of their members' bytes is believed."""

from collections.abc import Sequence
from typing import Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from tests.coord.classic_shard_driver import ScriptedClient
from tests.coord.mixed_clients import classic, consumer, make_driver, settle
from tests.coord.mixed_shard_driver import MixedShardDriver
from tests.coord.shard_driver import topic_id


@pytest.fixture
def driver() -> MixedShardDriver:
    return make_driver()


def join_as(
    driver: MixedShardDriver,
    name: str,
    protocols: Sequence[tuple[str, bytes | None]] = (("range", None),),
    protocol_type: str = "consumer",
) -> JoinGroupResponse:
    """A member that joined, synced `assignment`, and says no more."""
    subscription = consumer_serde.encode(ConsumerProtocolSubscription(topics=("foo",)))
    client = ScriptedClient(name)
    client.protocol_type = protocol_type
    client.protocols = tuple((each, metadata or subscription) for each, metadata in protocols)
    ticket = driver.ask(client.joining(), 3)
    driver.advance(0)
    result: JoinGroupResponse = driver.taken_or_none(ticket)
    return result


def sync_as(driver: MixedShardDriver, joined: JoinGroupResponse, assignment: bytes) -> None:
    given = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment),)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=given,
    )
    assert driver.send(request, 4).error_code == Code.NONE


def subscription_of(user_data: bytes | None) -> bytes:
    return consumer_serde.encode(ConsumerProtocolSubscription(topics=("foo",), user_data=user_data))


def given(user_data: bytes | None = None, *indexes: int) -> bytes:
    parts = (ConsumerProtocolTopicPartition(topic="foo", partitions=indexes or (0,)),)
    return consumer_serde.encode(
        ConsumerProtocolAssignment(assigned_partitions=parts, user_data=user_data)
    )


@pytest.mark.parametrize(
    ("settings", "protocols", "protocol_type", "assignment", "why"),
    [
        (
            {"group_consumer_migration_policy": "disabled"},
            [("range", None)],
            "consumer",
            given(),
            "policy is disabled",
        ),
        (
            {"group_consumer_migration_policy": "downgrade"},
            [("range", None)],
            "consumer",
            given(),
            "policy is downgrade",
        ),
        ({}, [("range", None)], "connect", given(), "is connect, not consumer"),
        ({}, [("range", b"\0")], "consumer", given(), "malformed"),
        ({}, [("range", None)], "consumer", b"\0", "malformed"),
        ({}, [("mine", None)], "consumer", given(b"x"), "custom assignor mine"),
    ],
)
def test_a_group_that_cannot_be_upgraded_stays_as_it_is(
    settings: dict[str, str],
    protocols: list[tuple[str, bytes | None]],
    protocol_type: str,
    assignment: bytes,
    why: str,
) -> None:
    driver = make_driver(**settings)
    sync_as(driver, join_as(driver, "a", protocols, protocol_type), assignment)
    before = len(driver.log)
    answer: Any = driver.join("c")
    assert (answer.error_code, why in answer.error_message) == (Code.GROUP_ID_NOT_FOUND, True), (
        answer
    )
    assert (len(driver.log), driver.group().state) == (before, "Stable")
    assert driver.join("c").error_code == Code.GROUP_ID_NOT_FOUND
    (note,) = driver.notes  # once, however often a client asks
    assert note.startswith("group g stays a classic group, and a consumer cannot join it: ")
    assert why in note


@pytest.mark.parametrize(
    ("name", "wrote", "user_data"),
    [
        ("sticky", b"x", b"x"),
        ("cooperative-sticky", b"x", b"x"),
        ("mine", None, None),
        ("mine", None, b""),
        ("mine", b"x", None),  # as with Kafka, where only a leader's stop it
    ],
)
def test_user_data_that_nobody_needs_do_not_stop_an_upgrade(
    driver: MixedShardDriver, name: str, wrote: bytes | None, user_data: bytes | None
) -> None:
    sync_as(
        driver, join_as(driver, "a", [(name, subscription_of(wrote))]), given(user_data, 0, 1, 2, 3)
    )
    answer = driver.join("c")
    assert (answer.error_code, driver.group().type_name) == (Code.NONE, "consumer")


def test_a_group_whose_members_say_too_much_for_one_append_stays_what_it_is(
    driver: MixedShardDriver,
) -> None:
    much = consumer_serde.encode(
        ConsumerProtocolSubscription(topics=("foo",), user_data=bytes(1 << 24))
    )
    several = [(f"p{number}", much) for number in range(5)]
    sync_as(driver, join_as(driver, "a", several), given())
    assert driver.join("c").error_code == Code.GROUP_ID_NOT_FOUND
    assert "more than" in driver.notes.pop()

    driver = make_driver()
    c = consumer(driver, "c")
    c.act()
    join_as(driver, "a", several[:3])
    c.leave()
    assert driver.group().type_name == "consumer"


def test_an_assignment_of_nonsense_is_left_out_and_a_double_one_stops_the_upgrade(
    driver: MixedShardDriver,
) -> None:
    parts = (
        ConsumerProtocolTopicPartition(topic="gone", partitions=(0,)),
        ConsumerProtocolTopicPartition(topic="foo", partitions=(0, 0, -1, 2**31 - 1)),
    )
    joined = join_as(driver, "a")
    sync_as(
        driver, joined, consumer_serde.encode(ConsumerProtocolAssignment(assigned_partitions=parts))
    )
    assert driver.join("c").error_code == Code.NONE
    held = driver.group().saved.owners.owned(driver.group().saved.units)
    assert held == {
        (topic_id("foo"), 0): joined.member_id,
        (topic_id("foo"), 1): "c",
        (topic_id("foo"), 3): "c",
    }

    driver = make_driver()
    a, b = classic(driver, "a"), classic(driver, "b")
    settle(a, b)
    for client in (a, b):
        client.next = "join"
        client.act()
    leader = next(client for client in (a, b) if client.leads)
    leader.listen()
    leader.made = {member_id: given(None, 0, 1) for member_id in driver.group().live.members}
    leader.act()
    answer: Any = driver.join("c")
    assert (answer.error_code, "one partition" in answer.error_message) == (
        Code.UNKNOWN_SERVER_ERROR,
        True,
    )


def test_an_upgrade_with_an_unsubscribed_assignment_bumps_the_epoch(
    driver: MixedShardDriver,
) -> None:
    nothing = consumer_serde.encode(ConsumerProtocolSubscription(topics=()))
    joined = join_as(driver, "a", [("range", nothing)])
    sync_as(driver, joined, given(None, 0, 1, 2, 3))
    assert driver.join("c", ()).member_epoch == joined.generation_id + 1
    assert driver.group().saved.members[joined.member_id].target.tolist() == []
