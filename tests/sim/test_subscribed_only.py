"""The law subscribed-only, and its exceptions: an upgrade takes assignments over as they are, and
what an expression matches changes between a member's heartbeats.
"""

from typing import Any

import pytest

from apportion.sim.checks.member_snapshot import snapshot_of
from apportion.sim.checks.subscriptions import (
    assigned_id_partitions,
    check_subscribed,
    kept_by_expression,
)
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import IdPartition
from tests.sim.test_laws import FOO, TOPICS, member_record, settled

GROUP = settled(member_record("b", ("bar",)))


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


@pytest.mark.parametrize(
    ("expression", "names", "keeps"),
    [("fo.", ("bar",), True), ("fo.", (), False), ("fox", ("bar",), False), ("", ("bar",), False)],
)
def test_a_member_keeps_what_its_expression_matched_until_it_heartbeats(
    expression: str, names: tuple[str, ...], keeps: bool
) -> None:
    def group_of(regex: str, topics: tuple[str, ...]) -> Any:
        return settled(member_record("b", topics, subscribed_topic_regex=regex))

    before = snapshot_of(group_of("fo.", ("bar",)).saved.members["b"], None, 0)
    group = group_of(expression, names)
    member = group.saved.members["b"]
    kept = kept_by_expression(group, before, member)
    assert kept == (assigned_id_partitions(group, member) if keeps else {})
    assert kept_by_expression(group, None, member) == {}
