"""Overlapping claims are found, and no group gets an assignment that cannot be."""

from typing import Any

import numpy as np
import pytest

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape
from apportion.assign.checks import check_given
from apportion.assignors import validate_subscription
from apportion.errors import Refused
from apportion.member.assignors.checks import Overlap, check_cooperative
from apportion.member.assignors.serde import decode_assignment, encode_assignment
from apportion.topics import TopicPartition

CLUSTER = {"t": TopicShape(2), "u": TopicShape(1)}
MEMBERS = {"a": Subscription(("t", "u", "lost")), "b": Subscription(("t",))}


def owning(generation: int, **owned: Any) -> Subscription:
    return Subscription(
        tuple(owned),
        owned=tuple(TopicParts(*part) for part in owned.items()),
        generation=generation,
    )


def giving(**given: Any) -> Given:
    return Given(tuple(TopicParts(*part) for part in given.items()))


def test_members_whose_partitions_do_not_overlap_are_fine() -> None:
    assert validate_subscription({}) == ()
    assert validate_subscription({"a": owning(3, t=(0, 0)), "b": owning(3, t=(1,), u=(0,))}) == ()


def test_every_overlap_is_found_with_its_members_and_generations() -> None:
    members = {
        "c": owning(4, t=(1,), s=(9,)),
        "a": owning(3, t=(0, 1)),
        "b": owning(4, t=(1,)),
        "d": owning(-1, t=(0,)),
    }
    overlaps = validate_subscription(members)
    assert overlaps == (
        Overlap(TopicPartition("t", 0), (("a", 3), ("d", -1))),
        Overlap(TopicPartition("t", 1), (("b", 4), ("c", 4), ("a", 3))),
    )
    assert [overlap.rightful_or_none for overlap in overlaps] == ["a", None]
    assert (
        str(overlaps[0])
        == "partition 0 of 't' is claimed by 'a' in generation 3, 'd' in generation -1"
    )


def test_an_assignment_of_everything_to_who_wants_it_is_fine_and_so_is_none() -> None:
    check_given(CLUSTER, MEMBERS, {"a": giving(u=(0,), t=(1,)), "b": giving(t=(0,))})
    check_given(CLUSTER, MEMBERS, {"a": giving(lost=(), u=())})
    check_given(CLUSTER, MEMBERS, {})


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"x": giving()}, "answers for 'x', which is no member of the group"),
        (
            {"x": giving(t=(), u=(0,))},
            "gives partition 0 of 'u' to 'x', which is no member of the group",
        ),
        (
            {"a": giving(t=(0, 2))},
            "gives partition 2 of 't' to 'a', but the topic has 2 partitions",
        ),
        (
            {"a": giving(t=(0, 70))},
            "gives partition 70 of 't' to 'a', but the topic has 2 partitions",
        ),
        (
            {"a": giving(t=(-1,))},
            "gives partition -1 of 't' to 'a', but the topic has 2 partitions",
        ),
        (
            {"a": giving(lost=(0,))},
            "gives partition 0 of 'lost' to 'a', but the topic does not exist",
        ),
        (
            {"a": giving(t=(1,)), "b": giving(t=(0, 1))},
            "gives partition 1 of 't' to 'b' and to 'a'",
        ),
        ({"a": giving(t=(1, 1))}, "gives partition 1 of 't' to 'a' twice"),
        (
            {"b": giving(u=(0,))},
            "gives partition 0 of 'u' to 'b', which is not subscribed to that topic",
        ),
    ],
)
def test_nonsense_is_refused_by_partition_and_member(answer: dict[str, Given], fault: str) -> None:
    with pytest.raises(Refused) as refusal:
        check_given(CLUSTER, MEMBERS, answer)
    assert refusal.value.why == f"the assignor {fault}"


def test_a_partition_still_owned_by_another_is_not_assigned_in_that_generation() -> None:
    members = {"a": owning(3, t=(0, 1)), "b": owning(3, t=())}
    check_cooperative(members, {"a": giving(t=(0,)), "b": giving()})
    check_cooperative(
        {"a": owning(3, t=(0,)), "b": owning(3, t=())}, {"a": giving(t=(0,)), "b": giving(t=(1,))}
    )
    with pytest.raises(Refused) as refusal:
        check_cooperative(members, {"a": giving(t=(0,)), "b": giving(t=(1,))})
    assert (
        refusal.value.why == "the assignor gives partition 1 of 't' to 'b' while 'a' still owns it"
    )


def test_a_member_that_is_left_out_still_owns_what_it_had() -> None:
    with pytest.raises(Refused, match="gives partition 0 of 't' to 'b' while 'a' still owns it"):
        check_cooperative({"a": owning(3, t=(0,)), "b": owning(3, t=())}, {"b": giving(t=(0,))})


def test_one_of_two_claimants_may_keep_what_both_claim() -> None:
    check_cooperative({"a": owning(3, t=(0,)), "b": owning(2, t=(0,))}, {"a": giving(t=(0,))})


given: Any = Given  # as an assignor without types might call it


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "answers None, which is no mapping"),
        ([("m", given())], "which is no mapping"),
        ({"m": None}, "gives None to 'm', which is no Given"),
        (
            {"m": [("t", 0)]},
            "gives [('t', 0)] to 'm', which is no Given: use Given(by_topic([(topic, "
            "number), ...]))",
        ),
        ({1: given()}, "answers for 1, which is no member id"),
        ({"m": given("t")}, "gives 't' to 'm', which are no partitions"),
        (
            {"m": given({"t": [0]})},
            "gives {'t': [0]} to 'm', which are no partitions: use by_topic([(topic, "
            "number), ...])",
        ),
        (
            {"m": given([("t", 0)])},
            "gives ('t', 0) to 'm', which is no topic with whole numbers: use "
            "by_topic([(topic, number), ...])",
        ),
        ({"m": given((("t", ("0",)),))}, "to 'm', which is no topic with whole numbers"),
        ({"m": given((("t", (0.0,)),))}, "to 'm', which is no topic with whole numbers"),
        ({"m": given((("t", (True,)),))}, "to 'm', which is no topic with whole numbers"),
        ({"m": given((("t", (np.True_,)),))}, "to 'm', which is no topic with whole numbers"),
        ({"m": given((("t", 0),))}, "to 'm', which is no topic with whole numbers"),
        ({"m": given((("t", np.array([0, 1])),))}, "to 'm', which is no topic with whole numbers"),
        ({"m": given(((b"t", (0,)),))}, "to 'm', which is no topic with whole numbers"),
        ({"m": given((), "text")}, "gives 'text' as user data to 'm', which are no bytes"),
    ],
)
def test_an_answer_of_another_shape_is_refused_with_its_member(answer: Any, why: str) -> None:
    with pytest.raises(Refused) as refusal:
        check_given({"t": TopicShape(2)}, {"m": Subscription(("t",))}, answer)
    assert why in refusal.value.why


def test_numbers_of_arrays_are_numbers() -> None:
    cluster, members = {"t": TopicShape(2)}, {"m": Subscription(("t",))}
    answer = {"m": Given((TopicParts("t", tuple(np.arange(2))),))}
    check_given(cluster, members, answer)
    assert decode_assignment(encode_assignment(answer["m"])) == giving(t=(0, 1))
    with pytest.raises(Refused) as refusal:
        check_given(cluster, members, {"m": Given((TopicParts("t", tuple(np.arange(2, 3))),))})
    assert (
        refusal.value.why
        == "the assignor gives partition 2 of 't' to 'm', but the topic has 2 partitions"
    )
