"""What the migration policy and the sizes allow, who comes back as a classic member, and who wants
no time for a rebalance.
"""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.records import consumer_serde
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from tests.coord.classic_shard_driver import ScriptedClient
from tests.coord.mixed_clients import classic, consumer, hands, make_driver, settle
from tests.coord.mixed_shard_driver import SESSION_MS, MixedShardDriver


def join(
    driver: MixedShardDriver,
    member_id: str,
    version: int,
    instance_id: str | None = None,
    topic_names: tuple[str, ...] = ("foo",),
    rebalance_ms: int = -1,
) -> Any:
    """The answer to a JoinGroup, None while it waits."""
    metadata = consumer_serde.encode(ConsumerProtocolSubscription(topics=topic_names), 3)
    client = ScriptedClient("client")
    client.member_id, client.instance_id = member_id, instance_id
    client.rebalance_ms = rebalance_ms
    client.protocols = (("cooperative-sticky", metadata),)
    return driver.taken_or_none(driver.ask(client.joining(), version))


@pytest.mark.parametrize("version", [3, 5, 9])
@pytest.mark.parametrize(
    ("member_id", "instance_id"),
    [("", None), ("ghost", None), ("c", None), ("", "i1"), ("c", "i1"), ("", "i2")],
)
def test_no_classic_client_comes_into_a_consumer_group_where_migration_is_disabled(
    version: int, member_id: str, instance_id: str | None
) -> None:
    driver = make_driver(group_consumer_migration_policy="disabled")
    settle(consumer(driver, "c", instance_id="i1"))
    before = len(driver.log)
    answer = join(driver, member_id, version, instance_id)
    refused = JoinGroupResponse(
        error_code=int(Code.INCONSISTENT_GROUP_PROTOCOL),
        protocol_name=None if version >= 7 else "",
        member_id="",
    )
    assert (answer, len(driver.log), driver.group().type_name) == (refused, before, "consumer")


@pytest.mark.parametrize(
    ("policy", "is_let_in"),
    [("disabled", False), ("upgrade", True), ("downgrade", True), ("bidirectional", True)],
)
def test_a_classic_client_comes_into_a_consumer_group_unless_migration_is_disabled(
    policy: str, is_let_in: bool
) -> None:
    driver = make_driver(group_consumer_migration_policy=policy)
    settle(consumer(driver, "c"))
    assert (join(driver, "", 3).error_code == Code.NONE) == is_let_in


@pytest.mark.parametrize(
    ("policy", "is_let_in"),
    [("disabled", False), ("upgrade", True), ("downgrade", False), ("bidirectional", True)],
)
def test_a_consumer_comes_into_a_classic_group_where_the_policy_has_upgrades(
    policy: str, is_let_in: bool
) -> None:
    driver = make_driver(group_consumer_migration_policy=policy)
    settle(classic(driver, "a"))
    assert (driver.join("c").error_code, driver.group().type_name) == (
        (Code.NONE, "consumer") if is_let_in else (Code.GROUP_ID_NOT_FOUND, "classic")
    )


@pytest.mark.parametrize("member_id", ["", "s"])
@pytest.mark.parametrize(("limit", "type_name"), [(1, "consumer"), (2, "classic"), (3, "classic")])
def test_the_last_consumers_return_makes_a_group_classic_that_is_just_full_then(
    member_id: str, limit: int, type_name: str
) -> None:
    driver = make_driver(group_max_size=limit)
    a, s = classic(driver, "a"), consumer(driver, "s", instance_id="i1")
    settle(a, s)
    owned, epoch = hands(a, s), a.generation
    answer = join(driver, member_id, 9, "i1")
    assert answer is not None
    assert (answer.error_code, answer.generation_id, driver.group().type_name) == (
        Code.NONE,
        epoch,
        type_name,
    )
    a.act()
    assert (a.next, hands(a)) == ("beat", {"a": owned["a"]})


def test_a_rebalance_of_a_group_that_is_just_full_takes_everybody_back() -> None:
    driver = make_driver(group_max_size=2)
    a, s = classic(driver, "a"), consumer(driver, "s", instance_id="i1")
    settle(a, s)
    j = classic(driver, "j", instance_id="i1")
    j.topic_names = ("bar", "foo")
    j.act()
    assert (driver.group().type_name, driver.group().state) == (
        "classic",
        "PreparingRebalance",
    )
    settle(a, j)
    assert sorted(map(len, hands(a, j).values())) == [2, 2]


@pytest.mark.parametrize("version", [5, 9])
@pytest.mark.parametrize("epoch", [None, -2])
def test_the_last_consumer_goes_on_under_its_own_id_as_a_classic_member(
    version: int, epoch: int | None
) -> None:
    driver = make_driver()
    s = consumer(driver, "s", instance_id="i1")
    settle(s)
    if epoch is not None:
        s.leave(epoch)
    answer = join(driver, "s", version, "i1")
    leads = version >= 9  # an older one could not be told to assign nothing
    assert answer is not None
    assert (
        answer.generation_id,
        answer.member_id,
        answer.leader,
        answer.skip_assignment,
        len(answer.members),
    ) == ((2, "s", "s", True, 1) if leads else (2, "s", "", False, 0))
    group = driver.group()
    assert group is not None
    assert (group.type_name, group.state, list(group.live.members)) == (
        "classic",
        "Stable",
        ["s"],
    )
    driver.crash()
    assert (driver.group().type_name, driver.group().state, driver.group().live.leader) == (
        "classic",
        "Stable",
        "s",
    )


def test_the_last_consumer_that_goes_on_with_other_wishes_makes_the_group_rebalance() -> None:
    driver = make_driver()
    a, s = classic(driver, "a"), consumer(driver, "s", instance_id="i1")
    settle(a, s)
    assert join(driver, "s", 9, "i1", topic_names=("bar",)) is None
    assert (driver.group().type_name, driver.group().state) == (
        "classic",
        "PreparingRebalance",
    )


def test_a_dynamic_consumer_that_becomes_classic_does_not_convert_the_group() -> None:
    driver = make_driver()
    settle(consumer(driver, "c"))
    assert join(driver, "c", 9).error_code == Code.NONE
    assert (driver.group().type_name, driver.group().saved.classic_member_count) == ("consumer", 1)


@pytest.mark.parametrize("rebalance_ms", [-1, -7, 0])
def test_a_rebalance_timeout_of_zero_is_over_at_once(rebalance_ms: int) -> None:
    driver = make_driver()
    settle(consumer(driver, "c"))
    assert join(driver, "m", 9, rebalance_ms=rebalance_ms).error_code == Code.NONE
    driver.advance(1)
    assert list(driver.group().saved.members) == ["c"]

    driver = make_driver()
    # an empty group looks for others, if only for a moment
    assert join(driver, "", 3, rebalance_ms=rebalance_ms) is None
    driver.advance(1)
    assert (driver.group().type_name, driver.group().state) == ("classic", "Empty")


def test_version_0_has_its_session_timeout_for_a_rebalance() -> None:
    driver = make_driver()
    settle(consumer(driver, "c"))
    assert join(driver, "", 0).error_code == Code.NONE
    driver.advance(SESSION_MS - 1)
    assert len(driver.group().saved.members) == 2
