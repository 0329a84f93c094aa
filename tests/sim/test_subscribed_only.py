"""The law subscribed-only, and its exception: an upgrade takes assignments over as they are."""

from typing import Any

import pytest

from apportion.sim.checks.saved import replay_records
from apportion.sim.checks.subscriptions import assigned_id_partitions, check_subscribed
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import IdPartition
from tests.sim.test_laws import FOO, SETTLED, TOPICS, member_record

GROUP: Any = replay_records([*SETTLED, member_record("b", ("bar",))]).groups["g"]


def test_a_member_may_have_what_it_subscribes_to() -> None:
    check_subscribed(GROUP, GROUP.saved.members["a"], TOPICS, {})


def test_a_member_may_not_have_what_it_does_not_subscribe_to() -> None:
    with pytest.raises(LawBroken, match="b wants bar and has foo"):
        check_subscribed(GROUP, GROUP.saved.members["b"], TOPICS, {})


def test_a_member_may_have_what_it_had_before_its_group_was_upgraded() -> None:
    member = GROUP.saved.members["b"]
    had = assigned_id_partitions(GROUP, member)
    assert list(had) == [IdPartition(FOO, 2), IdPartition(FOO, 3)]
    check_subscribed(GROUP, member, TOPICS, had)
    del had[IdPartition(FOO, 3)]
    with pytest.raises(LawBroken, match="subscribed-only"):
        check_subscribed(GROUP, member, TOPICS, had)
