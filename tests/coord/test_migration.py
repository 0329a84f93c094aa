"""Groups that change their protocol while members work in them: what is written, who is refused,
and who may use what meanwhile.
"""

import pytest

from apportion.coord.records import Append
from apportion.errors import Code
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coord.consumer_client import REBALANCE_MS
from tests.coord.mixed_clients import classic, consumer, hands, make_driver, settle
from tests.coord.mixed_shard_driver import SESSION_MS, ClassicClient, MixedShardDriver
from tests.coord.shard_driver import topics


@pytest.fixture
def driver() -> MixedShardDriver:
    return make_driver()


def kinds(driver: MixedShardDriver) -> list[tuple[str, bool]]:
    """The keys of the records that the last step wrote, in their order; they are in one append."""
    (append,) = (action for action in driver.actions if isinstance(action, Append))
    return [
        (
            type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key"),
            record.value is not None,
        )
        for record in append.one_by_one()
    ]


def test_the_first_consumer_makes_a_classic_group_a_consumer_group_in_one_append(
    driver: MixedShardDriver,
) -> None:
    a, b, c = classic(driver, "a"), classic(driver, "b", is_eager=True), consumer(driver, "c")
    settle(a, b)
    generation = driver.group().live.generation
    c.act()
    old = [
        ("GroupMetadata", False),
        *[("MemberMetadata", True)] * 2,
        ("Metadata", True),
        *[("TargetAssignmentMember", True)] * 2,
        ("TargetAssignmentMetadata", True),
        *[("CurrentMemberAssignment", True)] * 2,
    ]
    assert kinds(driver)[: len(old)] == old
    assert (driver.group().type_name, driver.group().saved.epoch, c.epoch) == (
        "consumer",
        generation + 1,
        generation + 1,
    )
    members = {
        member.metadata.client_id: (member.epoch, member.is_classic)
        for member in driver.group().saved.members.values()
    }
    assert members == {
        "a": (generation, True),
        "b": (generation, True),
        "c": (generation + 1, False),
    }
    settle(a, b, c)
    assert sorted(map(len, hands(a, b, c).values())) == [1, 1, 2]


def test_when_the_last_consumer_goes_the_group_is_classic_again_in_one_append(
    driver: MixedShardDriver,
) -> None:
    a, c = classic(driver, "a"), consumer(driver, "c")
    settle(a, c)
    epoch = driver.group().saved.epoch
    c.leave()
    assert kinds(driver) == [
        *[("CurrentMemberAssignment", False)] * 2,
        *[("TargetAssignmentMember", False)] * 2,
        ("TargetAssignmentMetadata", False),
        *[("MemberMetadata", False)] * 2,
        ("Metadata", False),
        ("GroupMetadata", True),
    ]
    group = driver.group()
    assert group is not None
    assert (group.type_name, group.state, group.live.generation) == (
        "classic",
        "PreparingRebalance",
        epoch,
    )
    settle(a)
    assert (hands(a), a.generation) == ({"a": [0, 1, 2, 3]}, epoch + 1)


def test_a_group_that_is_classic_again_knows_every_assignor_of_its_members(
    driver: MixedShardDriver,
) -> None:
    a, c = classic(driver, "a", is_eager=True), consumer(driver, "c")
    settle(a, c)
    c.leave()
    (member,) = driver.group().live.members.values()
    assert [name for name, _ in member.protocols] == ["cooperative-sticky", "range"]


@pytest.mark.parametrize("silent_ms", [45_000])
def test_a_group_is_classic_again_when_its_last_consumer_falls_silent(
    driver: MixedShardDriver, silent_ms: int
) -> None:
    a, c = classic(driver, "a"), consumer(driver, "c")
    settle(a, c)
    for _ in range(silent_ms // 5_000 + 1):
        driver.advance(5_000)
        a.act()
    settle(a)
    assert (driver.group().type_name, hands(a)) == ("classic", {"a": [0, 1, 2, 3]})


def test_an_administrator_sends_the_last_consumers_away_in_a_batch(
    driver: MixedShardDriver,
) -> None:
    a, c, d = classic(driver, "a"), consumer(driver, "c"), consumer(driver, "d", instance_id="i1")
    settle(a, c, d)
    named = (
        MemberIdentity(member_id="c"),
        MemberIdentity(group_instance_id="i1"),
        MemberIdentity(member_id="x"),
    )
    answer = driver.send(LeaveGroupRequest(group_id="g", members=named), 5)
    assert [member.error_code for member in answer.members] == [
        Code.NONE,
        Code.NONE,
        Code.UNKNOWN_MEMBER_ID,
    ]
    assert driver.group().type_name == "classic"
    settle(a)
    assert hands(a) == {"a": [0, 1, 2, 3]}


def test_a_group_that_became_classic_rebalances_also_after_a_crash(
    driver: MixedShardDriver,
) -> None:
    a, c = classic(driver, "a"), consumer(driver, "c")
    settle(a, c)
    c.leave()
    driver.crash()
    assert driver.group().state == "PreparingRebalance"
    settle(a)
    assert hands(a) == {"a": [0, 1, 2, 3]}


def test_a_group_with_too_many_members_stays_classic_and_a_full_one_too() -> None:
    for limit, code in ((1, Code.GROUP_ID_NOT_FOUND), (2, Code.GROUP_MAX_SIZE_REACHED)):
        driver = make_driver(group_consumer_max_size=limit)
        a, b = classic(driver, "a"), classic(driver, "b")
        settle(a, b)
        assert (driver.join("c").error_code, driver.group().type_name) == (code, "classic")


def test_partitions_revoked_from_a_member_that_has_not_synced_are_not_assigned(
    driver: MixedShardDriver,
) -> None:
    """Kafka 4.3.1 gives it to the joiner at once."""
    a, b, c = classic(driver, "a"), classic(driver, "b"), consumer(driver, "c")
    settle(a)
    b.act()
    b.act()
    a.act()  # hears that it has to join
    a.act()
    a.listen()
    assert a.leads
    # brings the assignment that takes two partitions from itself, and hears nothing
    a.act(is_lost=True)
    assert hands(a, b, c) == {"a": [0, 1, 2, 3], "b": [], "c": []}
    for _ in range(3):
        c.act()
        hands(a, b, c)
    settle(c, b, a)
    assert sorted(map(len, hands(a, b, c).values())) == [1, 1, 2]


def test_a_group_that_goes_back_and_forth_gives_nobody_what_another_has(
    driver: MixedShardDriver,
) -> None:
    """Kafka 4.3.1 saves the target in a downgrade, and takes it for the truth in the next
    upgrade.
    """
    a, b, c, d = (
        classic(driver, "a"),
        classic(driver, "b"),
        consumer(driver, "c"),
        consumer(driver, "d"),
    )
    settle(a)
    c.act()
    b.act()
    b.act()
    assert hands(a, b, c, d) == {"a": [0, 1, 2, 3], "b": [], "c": [], "d": []}
    c.leave()
    assert driver.group().type_name == "classic"
    d.act()
    assert driver.group().type_name == "consumer"
    for _ in range(4):
        b.act()
        d.act()
        hands(a, b, d)
    settle(d, b, a)
    assert sorted(map(len, hands(a, b, d).values())) == [1, 1, 2]


def test_only_what_moves_is_ever_without_an_owner(driver: MixedShardDriver) -> None:
    a, b, c = classic(driver, "a"), classic(driver, "b"), consumer(driver, "c")
    settle(a, b)
    before = a.owned | b.owned
    unowned = set()
    for _ in range(8):
        for client in (c, a, b):
            client.act()
            unowned |= before - a.owned - b.owned - c.owned
    assert (unowned, len(c.owned)) == (c.owned, 1)
    unowned, left = set(), set(c.owned)
    c.leave()
    for _ in range(8):
        for client in (a, b):
            client.act()
            unowned |= before - a.owned - b.owned
    assert (unowned, len(a.owned | b.owned)) == (left, 4)


def test_a_static_member_comes_back_in_the_classic_protocol_and_nobody_notices(
    driver: MixedShardDriver,
) -> None:
    a, s = classic(driver, "a"), consumer(driver, "s", instance_id="i1")
    settle(a, s)
    owned, generation = dict(hands(a, s)), a.generation
    s.leave(-2)
    j = classic(driver, "j", instance_id="i1")
    j.act()
    assert (driver.group().type_name, driver.group().state, j.generation) == (
        "classic",
        "Stable",
        generation,
    )
    j.act()
    a.act()
    assert (hands(a, j), a.next) == ({"a": owned["a"], "j": owned["s"]}, "beat")


@pytest.mark.parametrize("topic_names", [("foo",), ("bar", "foo")])
def test_a_static_member_that_comes_back_with_news_makes_the_group_rebalance(
    driver: MixedShardDriver, topic_names: tuple[str, ...]
) -> None:
    a, s = classic(driver, "a"), consumer(driver, "s", instance_id="i1")
    settle(a, s)
    # KAFKA-20273: its coming makes the others' assignment stale; so do other wishes
    k = classic(driver, "k")
    if topic_names == ("foo",):
        k.act()
        k.act()
    s.leave(-2)
    j = ClassicClient(driver, "j", topic_names, "i1")
    j.act()
    assert (driver.group().type_name, driver.group().state) == (
        "classic",
        "PreparingRebalance",
    )
    settle(a, j, *([k] if topic_names == ("foo",) else []))
    assert sorted(index for some in hands(a, j, k).values() for index in some) == [0, 1, 2, 3]
    assert len(j.owned) < 3


def test_a_static_member_that_comes_back_before_it_revoked_makes_the_group_rebalance(
    driver: MixedShardDriver,
) -> None:
    s = consumer(driver, "s", instance_id="i1")
    settle(s)
    a = classic(driver, "a")
    a.act()
    a.act()
    assert hands(a, s) == {"a": [], "s": [0, 1, 2, 3]}
    s.leave(-2)
    j = classic(driver, "j", instance_id="i1")
    j.act()
    assert (driver.group().type_name, driver.group().state) == ("classic", "PreparingRebalance")
    settle(a, j)
    assert sorted(map(len, hands(a, j).values())) == [2, 2]


def test_without_a_policy_to_downgrade_the_group_stays_a_consumer_group() -> None:
    driver = make_driver(group_consumer_migration_policy="upgrade")
    a, c = classic(driver, "a"), consumer(driver, "c")
    settle(a, c)
    c.leave()
    settle(a)
    assert (driver.group().type_name, hands(a)) == ("consumer", {"a": [0, 1, 2, 3]})


@pytest.mark.parametrize("policy", ["disabled", "bidirectional"])
def test_a_group_without_members_becomes_the_other_kind_whatever_the_policy(policy: str) -> None:
    driver = make_driver(group_consumer_migration_policy=policy)
    for _ in range(2):
        a, c = classic(driver, "a"), consumer(driver, "c")
        settle(a)
        a.leave()
        settle(c)
        assert (driver.group().type_name, hands(c)) == ("consumer", {"c": [0, 1, 2, 3]})
        c.leave()


def test_a_group_whose_only_member_left_while_it_joined_is_upgraded_as_an_empty_one(
    driver: MixedShardDriver,
) -> None:
    a, c = classic(driver, "a"), consumer(driver, "c")
    settle(a)
    b = classic(driver, "b")
    b.act()  # has an id, for which the group waits
    a.act()
    a.leave()
    assert (driver.group().state, driver.group().live.members) == ("PreparingRebalance", {})
    c.act()
    assert hands(c) == {"c": [0, 1, 2, 3]}


def test_an_upgrade_answers_parked_requests_with_rebalance_in_progress(
    driver: MixedShardDriver,
) -> None:
    a, b, c = classic(driver, "a"), classic(driver, "b"), consumer(driver, "c")
    settle(a)
    b.act()
    b.act()
    is_waiting = b.waits is not None
    c.act()
    b.listen()
    assert is_waiting
    assert (b.waits, b.next) == (None, "join")
    settle(a, b, c)
    assert sorted(map(len, hands(a, b, c).values())) == [1, 1, 2]


def test_a_classic_newcomer_hears_of_its_id_before_its_words_are_read(
    driver: MixedShardDriver,
) -> None:
    settle(consumer(driver, "c"))
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0"),),
    )
    assert (driver.send(request, 9).error_code, driver.send(request, 3).error_code) == (
        Code.MEMBER_ID_REQUIRED,
        Code.INCONSISTENT_GROUP_PROTOCOL,
    )


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_a_sync_of_version_5_names_its_protocol(driver: MixedShardDriver, missing: str) -> None:
    settle(consumer(driver, "c"), old := classic(driver, "a"))
    request = old.syncing()
    setattr(request, missing, None)
    assert driver.send(request, 5).error_code == Code.INCONSISTENT_GROUP_PROTOCOL


def test_a_static_member_comes_back_in_the_consumer_protocol_and_nobody_notices(
    driver: MixedShardDriver,
) -> None:
    a, s = classic(driver, "a"), classic(driver, "s", instance_id="i1")
    settle(a, s)
    owned, generation = dict(hands(a, s)), a.generation
    s.lose()
    c = consumer(driver, "c", instance_id="i1")
    c.act()
    a.act()
    assert (driver.group().type_name, c.epoch, a.next) == ("consumer", generation, "beat")
    assert hands(a, c) == {"a": owned["a"], "c": owned["s"]}


def test_an_upgrade_assigns_partitions_that_had_no_owner(
    driver: MixedShardDriver,
) -> None:
    a, s = classic(driver, "a"), classic(driver, "s", instance_id="i1")
    settle(a, s)
    driver.change_topics(topics(foo=6))
    s.lose()
    c = consumer(driver, "c", instance_id="i1")
    c.act()
    settle(a, c)
    assert sorted(map(len, hands(a, c).values())) == [3, 3]
