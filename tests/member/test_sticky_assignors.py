"""`sticky` and `cooperative-sticky` by name: whom they believe, and the bugs of Kafka's own that
must not come back.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape
from apportion.member.assignors.builtin import CooperativeSticky, Sticky
from apportion.member.assignors.checks import check_cooperative
from apportion.wire.records.consumer_protocol import ConsumerProtocolTopicPartition
from apportion.wire.records.consumer_serde import encode_cooperative, encode_sticky


def shares(
    assignor: CooperativeSticky | Sticky, partitions: int, members: dict[str, Subscription]
) -> dict[str, tuple[int, ...]]:
    """What each member gets of topic t."""
    given = assignor.assign({"t": TopicShape(partitions)}, members)
    return {member: dict(share.partitions).get("t", ()) for member, share in given.items()}


def telling(generation: int, *partitions: int) -> Subscription:
    """A member of `sticky` that was given these partitions of t in that generation."""
    return Subscription(
        ("t",),
        encode_sticky(
            (ConsumerProtocolTopicPartition(topic="t", partitions=partitions),), generation
        ),
    )


def owning(generation: int, *partitions: int, user_data: bytes | None = None) -> Subscription:
    """A member of `cooperative-sticky` that says to own these partitions of t."""
    return Subscription(("t",), user_data, (TopicParts("t", partitions),), generation)


def only_of_the_highest_generation(members: dict[str, Subscription]) -> dict[str, Subscription]:
    """The members as an old leader heard them: a lower generation than the highest counts for
    nothing.
    """
    highest = max(subscription.generation for subscription in members.values())
    return {
        name: subscription
        if subscription.generation == highest
        else Subscription(subscription.topics)
        for name, subscription in members.items()
    }


def as_if_the_last_were_right(members: dict[str, Subscription]) -> dict[str, Subscription]:
    """The members as a leader hears them that does not look at generations: of two claims the later
    one counts.
    """
    later: dict[int, str] = {
        partition: name
        for name, subscription in members.items()
        for partition in dict(subscription.owned)["t"]
    }
    return {
        name: owning(
            subscription.generation,
            *(partition for partition in dict(subscription.owned)["t"] if later[partition] == name),
        )
        for name, subscription in members.items()
    }


def given_too_early(
    given: dict[str, tuple[int, ...]], members: dict[str, Subscription]
) -> list[tuple[int, str, str]]:
    """(partition, its new owner, who still uses it): the other's claim is as young as the owner's
    own, or the owner has none.
    """
    return [
        (partition, owner, other)
        for owner, partitions in given.items()
        for partition in partitions
        for other, subscription in members.items()
        if other != owner and partition in dict(subscription.owned)["t"]
        if partition not in dict(members[owner].owned)["t"]
        or subscription.generation >= members[owner].generation
    ]


def test_sticky_keeps_what_user_data_tell() -> None:
    members = {"a": telling(3, 1, 3), "b": telling(3, 0, 2), "c": Subscription(("t",))}
    assert shares(Sticky(), 4, members) == {"a": (1, 3), "b": (0,), "c": (2,)}


def test_sticky_does_not_believe_owned_partitions() -> None:
    assert shares(Sticky(), 2, {"a": owning(3, 1), "b": owning(3, 0)}) == {"a": (0,), "b": (1,)}


def test_user_data_without_a_generation_yield_to_those_with_one() -> None:
    old = Subscription(
        ("t",),
        encode_sticky((ConsumerProtocolTopicPartition(topic="t", partitions=(0, 1)),), 9)[:-4],
    )
    assert shares(Sticky(), 4, {"a": old, "b": telling(0, 1, 2)}) == {"a": (0, 3), "b": (1, 2)}


def test_a_member_that_returns_with_an_old_assignment_takes_nothing_from_others() -> None:
    # the example of KIP-341
    members = {"a": telling(1, 0, 1, 2), "b": telling(3, 0, 1), "c": telling(3, 2, 3)}
    assert shares(Sticky(), 6, members) == {"a": (4, 5), "b": (0, 1), "c": (2, 3)}


def test_a_subscription_without_a_generation_is_believed_by_its_user_data() -> None:
    members = {"a": owning(-1, 0, 1, user_data=encode_cooperative(5)), "b": owning(4, 1, 2)}
    assert shares(CooperativeSticky(), 3, members) == {"a": (0, 1), "b": (2,)}
    members = {"a": owning(4, 0, 1, user_data=encode_cooperative(5)), "b": owning(5, 1, 2)}
    assert shares(CooperativeSticky(), 3, members) == {"a": (0,), "b": (1, 2)}


@pytest.mark.parametrize("user_data", [None, b"", b"\0\0\1", encode_cooperative(-9)])
def test_owned_partitions_without_a_generation_count_if_no_other_member_claims_them(
    user_data: bytes | None,
) -> None:
    members = {"a": owning(-1, 1, 2, user_data=user_data), "b": owning(0, 2, 3)}
    assert shares(CooperativeSticky(), 4, members) == {"a": (0, 1), "b": (2, 3)}


def test_kafka_12984_what_two_claim_in_one_generation_stays_with_nobody() -> None:
    members = {"a": owning(4, 0, 1, 2), "b": owning(4, 2, 3), "c": owning(4)}
    given = shares(CooperativeSticky(), 6, members)
    assert given == {"a": (0, 1), "b": (3,), "c": (4, 5)}
    assert given_too_early(given, members) == []
    assert given_too_early(
        shares(CooperativeSticky(), 6, as_if_the_last_were_right(members)), members
    ) == [(2, "b", "a")]
    next_round = {"a": owning(5, 0, 1), "b": owning(5, 3), "c": owning(5, 4, 5)}
    assert shares(CooperativeSticky(), 6, next_round) == {"a": (0, 1), "b": (2, 3), "c": (4, 5)}


def test_kafka_13406_the_claim_of_a_member_that_missed_generations_is_waited_for() -> None:
    members = {"a": owning(6, 0, 1, 2), "b": owning(4, 3, 4, 5), "c": owning(6)}
    given = shares(CooperativeSticky(), 6, members)
    assert given == {"a": (0, 1), "b": (3, 4), "c": ()}
    assert given_too_early(given, members) == []
    forgetful = shares(CooperativeSticky(), 6, only_of_the_highest_generation(members))
    assert given_too_early(forgetful, members) == [(3, "c", "b"), (5, "c", "b")]
    next_round = {"a": owning(7, 0, 1), "b": owning(7, 3, 4), "c": owning(7)}
    assert shares(CooperativeSticky(), 6, next_round) == {"a": (0, 1), "b": (3, 4), "c": (2, 5)}


def test_a_higher_generation_takes_over_and_the_old_owner_must_let_go() -> None:
    members = {"a": owning(5, 0, 1), "b": owning(4, 1, 2)}
    assert shares(CooperativeSticky(), 3, members) == {"a": (0, 1), "b": (2,)}


def test_generations_from_the_future_and_claims_to_what_does_not_exist_do_no_harm() -> None:
    liar = Subscription(
        ("t",), None, (TopicParts("t", (0, 0, 1, 7, -1)), TopicParts("gone", (0,))), 2**31 - 1
    )
    given = shares(CooperativeSticky(), 4, {"a": owning(3, 0, 1), "b": owning(3, 2, 3), "z": liar})
    assert given == {"a": (), "b": (2, 3), "z": (0,)}


@pytest.mark.parametrize("number", [-(2**31), -1, 2, 3, 2**31 - 1])
def test_a_claim_beyond_a_topic_is_no_claim_to_its_neighbour(number: int) -> None:
    cluster = {"t": TopicShape(2), "u": TopicShape(2)}
    claims = (TopicParts("t", (number,)), TopicParts("u", (number,)))
    members = {
        "a": Subscription(("t", "u"), generation=1),
        "b": Subscription(("t", "u"), owned=claims, generation=1),
    }
    unclaimed = {name: replace(subscription, owned=()) for name, subscription in members.items()}
    assert CooperativeSticky().assign(cluster, members) == CooperativeSticky().assign(
        cluster, unclaimed
    )


SUBSCRIPTION = st.builds(
    owning, st.integers(-1, 4), st.integers(0, 7), st.integers(0, 7), st.integers(0, 7)
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from("abcde"), SUBSCRIPTION, min_size=1))
def test_cooperative_sticky_assigns_nothing_in_use_and_is_complete_in_the_next_round(
    members: dict[str, Subscription],
) -> None:
    first = CooperativeSticky().assign({"t": TopicShape(8)}, members)
    check_cooperative(members, first)
    subscriptions = {
        member: Subscription(("t",), owned=share.partitions, generation=9)
        for member, share in first.items()
    }
    second = CooperativeSticky().assign({"t": TopicShape(8)}, subscriptions)
    given = sorted(
        number for share in second.values() for _, numbers in share.partitions for number in numbers
    )
    assert given == list(range(8))
    sizes = [sum(len(numbers) for _, numbers in share.partitions) for share in second.values()]
    assert max(sizes) - min(sizes) <= 1


def test_each_member_tells_the_next_leader_what_the_last_one_gave() -> None:
    memories = {name: Sticky() for name in "abc"}
    before: dict[str, tuple[int, ...]] = {}
    for generation, names in enumerate(["ab", "abc", "bc", "abc"], start=1):
        members = {name: Subscription(("t",), memories[name].user_data(("t",))) for name in names}
        given = memories[names[0]].assign({"t": TopicShape(12)}, members)
        for name in names:
            memories[name].on_assignment(given[name], generation)
        after = {name: given[name].partitions[0].partitions for name in names}
        quota = 12 // len(names)
        kept = {
            name: len([number for number in after[name] if number in before.get(name, ())])
            for name in names
        }
        if generation in (2, 3):
            assert kept == {name: min(quota, len(before.get(name, ()))) for name in names}
        before = after
    assert Given() not in given.values()
