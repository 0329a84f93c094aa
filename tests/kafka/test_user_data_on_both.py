"""Whose user data stop an upgrade, on our broker and on a real Kafka."""

import pytest

from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from apportion.wire.records.consumer_serde import encode
from tests.kafka.differential.author import FOREVER_MS
from tests.kafka.differential.classic_play import answered
from tests.kafka.differential.classic_steps import Join, Sync
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import EMPTY, Beat

ALIKE = {"group.initial.rebalance.delay.ms": 0}
GROUP_ID_NOT_FOUND = 69


@pytest.mark.parametrize("user_data", [None, b"x"])
@pytest.mark.parametrize(
    ("assignor", "given", "codes"),
    [
        ("mine", None, [0, 0]),
        ("mine", b"x", [GROUP_ID_NOT_FOUND] * 2),
        ("sticky", None, [0, 0]),
        ("sticky", b"x", [0, GROUP_ID_NOT_FOUND]),  # decision 33
    ],
)
def test_a_leaders_user_data_stop_an_upgrade_and_a_members_do_not(
    sides: tuple[Side, Side],
    group: str,
    assignor: str,
    user_data: bytes | None,
    given: bytes | None,
    codes: list[int],
) -> None:
    topics = ("twelve",)
    wants = encode(ConsumerProtocolSubscription(topics=topics, user_data=user_data), 3)
    share = encode(ConsumerProtocolAssignment(user_data=given), 3)
    joining = Join(group, "a", ((assignor, wants),), version=3, member_id="")
    syncing = Sync(group, "a", 1, (("a1", share),), kind="consumer", protocol=assignor)
    upgrading = Beat(group, "c", 0, owned=EMPTY, topics=topics, rebalance_ms=FOREVER_MS)
    assert [
        [each["code"] for each in answered(sides, step)] for step in (joining, syncing, upgrading)
    ] == [[0, 0], [0, 0], codes]
