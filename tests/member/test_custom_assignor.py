"""The worked example of docs/assignors.md is true: it is run here as it stands there."""

from typing import Any

import pytest

from apportion.assign.by_name import Subscription, TopicShape
from apportion.assign.checks import check_given
from apportion.member.assignors.interface import Rebalance
from apportion.member.assignors.serde import decode_subscription, encode_subscription
from tests.member.worked_example import weighted


@pytest.fixture(name="weighted", scope="module")
def _weighted() -> type[Any]:
    """The class `Weighted` of the page."""
    result: type[Any] = weighted()
    return result


def test_the_weighted_assignor_of_the_page_shares_out_by_weight(weighted: type[Any]) -> None:
    cluster = {"t": TopicShape(8), "u": TopicShape(2)}
    subscriptions = {
        name: decode_subscription(
            encode_subscription(Subscription(topics, weighted(weight).user_data(topics)))
        )
        for name, weight, topics in [
            ("light", 1, ("t",)),
            ("heavy", 3, ("t",)),
            ("both", 4, ("u", "t")),
        ]
    }
    answer = weighted().assign(cluster, subscriptions)
    check_given(cluster, subscriptions, answer)
    assert {
        name: [(topic, len(numbers)) for topic, numbers in given.partitions]
        for name, given in answer.items()
    } == {
        "light": [("t", 1)],
        "heavy": [("t", 3)],
        "both": [("t", 4), ("u", 2)],
    }
    weighted().on_assignment(answer["light"], 1)
    assert (weighted.name, weighted().rebalances) == ("weighted", (Rebalance.EAGER,))


@pytest.mark.parametrize("user_data", [None, b"", b"-3", b"0", b"three", b"9" * 5000, b"\xff"])
def test_it_takes_any_bytes(weighted: type[Any], user_data: bytes | None) -> None:
    answer = weighted().assign({"t": TopicShape(1)}, {"a": Subscription(("t",), user_data)})
    assert answer["a"].partitions == (("t", (0,)),)
