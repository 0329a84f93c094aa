"""Client-side assignors: what members may offer, and on what a group agrees."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.coord.consumer.client_assignors import (
    MAX_ASSIGNORS,
    MAX_METADATA_BYTES,
    AgreedAssignor,
    agreed_or_none,
)
from apportion.coord.consumer.target_results import MOST_AT_ONCE
from apportion.errors import Code
from apportion.topics import Topic
from apportion.wire.codec import write
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ClientAssignor,
    ConsumerGroupHeartbeatResponse,
)
from tests.coord.client_side import (
    group_of,
    install,
    installed,
    join,
    offer,
    prepare,
    with_one,
)
from tests.coord.mixed_clients import classic, make_driver, settle
from tests.coord.shard_driver import (
    ShardDriver,
    state_of,
)
from tests.coord.toy_assignor import FOO, Toy, with_toy


def agreement(driver: ShardDriver) -> tuple[str, int] | None:
    """The assignor and the version of the group."""
    agreed: tuple[str, int] | None = group_of(driver).saved.client_assignor
    return agreed


# what a member may offer

WRONG: dict[str, tuple[tuple[ClientAssignor, ...], str]] = {
    "no name": ((offer(" "),), "The name of a client assignor is empty."),
    "a long name": (
        (offer("x" * 250),),
        "The name of a client assignor may have 249 characters, not more.",
    ),
    "a name twice": ((offer(), offer("b"), offer()), "Client assignor lag is offered twice."),
    "minimum above maximum": (
        (offer(minimum_version=2, maximum_version=1, version=1),),
        "Client assignor lag has minimum version 2 above its maximum 1.",
    ),
    "version above": (
        (offer(minimum_version=1, maximum_version=2, version=3),),
        "Client assignor lag has metadata of version 3, which is not in 1 to 2.",
    ),
    "version below": (
        (offer(minimum_version=1, maximum_version=2, version=0),),
        "Client assignor lag has metadata of version 0, which is not in 1 to 2.",
    ),
    "the version of classic members": (
        (offer(minimum_version=-1, version=-1),),
        "Client assignor lag has metadata of version -1, which is not in 0 to 0.",
    ),
    "too many": (
        tuple(offer(str(number)) for number in range(MAX_ASSIGNORS + 1)),
        "A member may offer 16 client assignors, not more.",
    ),
    "too much metadata": (
        (offer("a", metadata=bytes(MAX_METADATA_BYTES)), offer("b", metadata=b"1")),
        "The metadata of a member's client assignors may have 65536 bytes, not more.",
    ),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_a_wrong_offer_is_refused_before_anything_is_written(what: str) -> None:
    driver = with_one(ShardDriver())
    assignors, why = WRONG[what]
    before, written = state_of(driver.shard), len(driver.log)
    for answer in (
        driver.join("b", client_assignors=assignors),
        driver.beat("a", 2, client_assignors=assignors),
    ):
        assert (answer.error_code, answer.error_message) == (Code.INVALID_REQUEST, why)
    assert (state_of(driver.shard), len(driver.log)) == (before, written)


def test_the_largest_offer_is_accepted() -> None:
    driver = ShardDriver()
    most = [offer(str(number)) for number in range(MAX_ASSIGNORS - 1)]
    largest = offer("last", minimum_version=-1, metadata=bytes(MAX_METADATA_BYTES))
    assert join(driver, "a", *most, largest).error_code == 0
    assert agreement(driver) == ("0", 0)


# on what a group agrees


@pytest.mark.parametrize(
    ("offers", "agreed"),
    [
        ({}, None),
        ({(("a", 0, 1),): 2}, ("a", 1)),
        ({(("a", 0, 1),): 1}, None),  # one of the two offers none
        ({(("a", 0, 3),): 1, (("a", 1, 2),): 1}, ("a", 2)),
        ({(("a", 0, 1),): 1, (("a", 2, 3),): 1}, None),
        ({(("a", 0, 0),): 1, (("b", 0, 0),): 1}, None),
        ({(("a", 0, 0), ("b", 0, 0)): 1, (("b", 0, 0),): 1}, ("b", 0)),
        # Equal votes: the first name.
        ({(("b", 0, 0), ("a", 0, 0)): 1, (("a", 0, 0), ("b", 0, 0)): 1}, ("a", 0)),
        # The first of its list is not common to all, so the second has the vote.
        ({(("c", 0, 0), ("b", 0, 0), ("a", 0, 0)): 1, (("b", 0, 0), ("a", 0, 0)): 1}, ("b", 0)),
        # All have both, and no common version of "a".
        ({(("a", 0, 0), ("b", 0, 0)): 1, (("a", 1, 1), ("b", 0, 5)): 1}, ("b", 0)),
    ],
)
def test_members_agree_on_what_all_offer(
    offers: dict[Any, int], agreed: tuple[str, int] | None
) -> None:
    assert agreed_or_none(offers, 2) == agreed


def test_the_assignor_with_most_votes_is_used() -> None:
    offers: Any = {(("a", 0, 0), ("b", 0, 0)): 1, (("b", 0, 0), ("a", 0, 0)): 2}
    assert agreed_or_none(offers, 3) == AgreedAssignor("b", 0)


RANGES = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted)
OFFERS = st.dictionaries(st.sampled_from("abc"), RANGES, min_size=1).map(
    lambda each: tuple((name, lowest, highest) for name, (lowest, highest) in each.items())
)


@given(st.dictionaries(OFFERS, st.integers(1, 3), min_size=1))
def test_an_agreement_is_in_every_offer_and_there_is_one_if_it_could_be(
    offers: dict[Any, int],
) -> None:
    possible = [
        (name, version)
        for name in "abc"
        for version in range(4)
        if all(
            any(each == name and low <= version <= high for each, low, high in one)
            for one in offers
        )
    ]
    agreed = agreed_or_none(offers, sum(offers.values()))
    assert (agreed in possible) if possible else agreed is None
    if agreed is not None:
        assert agreed.version == max(version for name, version in possible if name == agreed.name)


def test_a_member_that_offers_none_gets_no_field_that_kafka_has_not() -> None:
    driver = with_one(ShardDriver())
    driver.change_topics([Topic("foo", FOO, 4)])
    assert driver.beat("a", 2).should_compute_assignment
    prepare(driver, "a", 2)
    install(driver, "a", (2, 3), [installed("a", {"foo": [0]}, b"mine")], error=1)
    joined = driver.join("java")
    for answer in (joined, driver.beat("java", joined.member_epoch, **FULL)):
        given: Any = answer.assignment
        plain = ConsumerGroupHeartbeatResponse(
            member_id="java",
            member_epoch=4,
            heartbeat_interval_ms=answer.heartbeat_interval_ms,
            assignment=Assignment(topic_partitions=given.topic_partitions),
        )
        assert write(answer, 1) == write(plain, 1)


FULL: dict[str, Any] = {
    "rebalance_timeout_ms": 30_000,
    "subscribed_topic_names": ("foo",),
    "owned": {},
}


def test_a_computation_of_a_member_ends_though_the_broker_cannot_begin_its_own_yet() -> None:
    driver = with_toy(Toy(), apportion_assignor_timeout_ms=1_000)
    assert join(driver, "a").should_compute_assignment
    for number in range(MOST_AT_ONCE):
        driver.join("busy", group_id=f"g{number}")
    driver.join("java")
    assert len(driver.computations) == MOST_AT_ONCE
    driver.advance(1_000)
    assert [note for note in driver.notes if note.startswith("group g: ")] == []


def test_a_group_is_described_with_the_assignor_on_which_it_agrees() -> None:
    driver = with_one(ShardDriver())
    names = []
    for _ in range(2):
        (group,) = driver.send(ConsumerGroupDescribeRequest(group_ids=("g",))).groups
        names.append(group.assignor_name)
        driver.join("java")
    assert names == ["lag", "uniform"]


def test_a_classic_member_makes_the_broker_assign() -> None:
    driver = make_driver()
    driver.join("a", group_id="g", client_assignors=(offer(),))
    assert agreement(driver) == ("lag", 0)
    settle(classic(driver, "old"))
    assert agreement(driver) is None


def test_a_target_that_a_classic_heartbeat_begins_ends_that_of_a_member() -> None:
    driver = make_driver(
        group_consumer_assignors=("toy", "uniform"),
        custom_assignors={"toy": Toy()},
        group_consumer_assignment_interval_ms=1_000,
    )
    with_one(driver)
    driver.advance(1_000)
    assert join(driver, "b").should_compute_assignment
    prepare(driver, "b", 2)
    old = classic(driver, "old")
    settle(old)
    driver.advance(1_000)
    settle(old)
    assert driver.computations
    driver.end_computations()
    computed = group_of(driver).saved.assignment_epoch
    old.leave()
    assert agreement(driver) == ("lag", 0)
    assert install(driver, "b", (2, 3), {"b": {"foo": [0]}}).error_code == Code.UNKNOWN_MEMBER_ID
    assert group_of(driver).saved.assignment_epoch == computed


# who may join


# what is kept
