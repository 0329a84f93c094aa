"""When a member that works in batches waits for its share of the group, and when it has it."""

from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, TopicParts
from apportion.member.assignors.serde import encode_assignment, encode_subscription
from apportion.member.batch.group import BatchGroup
from apportion.member.batch.membership import AssignmentIncomplete
from apportion.member.batch.queries import NotReady
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.classic.described import (
    DescribedAssignment,
    from_described_group,
    may_be_assigned,
)
from apportion.member.queries import (
    AdoptAssignment,
    ExistingTopics,
    MatchingTopics,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.rules import Rule
from apportion.topics import IdPartition, Topic, Topics
from apportion.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tests.member.planner_host import (
    ID,
    LOOK_AT_GROUP,
    P0,
    P1,
    P2,
    SESSION_MS,
    PlannerHost,
    described,
    held,
    make_planner,
    read,
)

GRACE_MS = 5_000


@pytest.fixture
def host() -> PlannerHost:
    return PlannerHost()


def owns_all(host: PlannerHost, *, classic: bool) -> Rule[bool]:
    return BatchGroup(
        "g", TopicChoice(("t",)), classic_session_ms=45_000 if classic else None
    ).has_full_assignment(host.view)


class PatternHost(PlannerHost):
    """The pattern of the group matches the topic t."""

    def answer(self, ask: Any) -> Any:
        return ("t",) if ask == MatchingTopics("t+") else super().answer(ask)


def test_a_share_is_not_whole_before_all_that_the_pattern_matches_has_an_owner() -> None:
    host = PatternHost()
    group = BatchGroup("g", TopicChoice(expression="t+"), classic_session_ms=None)
    host.sees(target=held(P0, P1))
    host.stood = described(P0, P1)
    assert not host.attempt(group.has_full_assignment(host.view))
    host.sees(target=held(P0, P1, P2))
    host.stood = described(P0, P1, P2)
    assert host.attempt(group.has_full_assignment(host.view))


def large() -> int:
    """A large number, each time as another object: Python keeps small ones but once."""
    return int("1000")


def test_a_restart_waits_for_its_share_until_a_session_and_its_grace_are_over(
    host: PlannerHost,
) -> None:
    previous = read("c", {P0: (0, 10), P1: (0, 10)})
    host.offsets = dict.fromkeys((P0, P1), 0)
    host.sees(target=held(P0))
    host.stood = described(P0, P1, given=(P0,))
    restarted = make_planner()
    with pytest.raises(AssignmentIncomplete, match="the query waits up to 9 s for the partitions"):
        host.attempt(restarted.plan_next(previous))
    assert host.asked[-2:] == [ReadMembership(), LOOK_AT_GROUP]
    host.now_ms = 1_000 + SESSION_MS + GRACE_MS - 1
    host.sees(last_accepted_ms=host.now_ms)
    with pytest.raises(AssignmentIncomplete):
        host.attempt(restarted.plan_next(previous))
    host.now_ms += 1
    assert host.attempt(restarted.plan_next(previous)) == read("c", {P0: (10, 10)})
    assert host.asked[1:4] == [
        ResolveTopicNames(held(P0)),
        ReadMembership(),
        ExistingTopics(("t",)),
    ]


def test_the_share_is_awaited_until_it_is_there_or_the_time_is_over(host: PlannerHost) -> None:
    host.sees(target=held(P0), owned=held(P0))
    planner = make_planner()
    host.stood = described(P0, P1, given=(P0,))
    with pytest.raises(AssignmentIncomplete, match="the query waits for the partitions that this"):
        host.attempt(planner.require_full_assignment(1_001))
    with pytest.raises(AssignmentIncomplete, match="waits up to 120 s for the partitions"):
        host.attempt(planner.require_full_assignment(1_001, 120_000))
    assert (host.attempt(planner.require_full_assignment(1_000)), host.asked) == (
        None,
        [ReadMembership()],
    )
    host.stood = described(P0)
    assert (host.attempt(planner.require_full_assignment(1_001)), host.asked) == (
        None,
        [ReadMembership(), LOOK_AT_GROUP],
    )


class GrowingHost(PlannerHost):
    """A heartbeat brings the rest of the assignment right after the member adopted a part."""

    def answer(self, ask: Any) -> Any:
        answer = super().answer(ask)
        if isinstance(ask, AdoptAssignment) and ask.target == held(P0):
            self.sees(target=held(P0, P1))
            self.stood = described(P0, P1)
        return answer


def test_a_restart_keeps_its_positions_when_the_rest_comes_as_it_adopts_a_part() -> None:
    host = GrowingHost()
    previous = read("c", {P0: (0, 10), P1: (0, 10)})
    host.offsets = dict.fromkeys((P0, P1), 0)
    host.sees(target=held(P0))
    restarted = make_planner()
    with pytest.raises(NotReady, match="the group has changed this member's assignment meanwhile"):
        host.attempt(restarted.plan_next(previous))
    assert host.attempt(restarted.plan_next(previous)) == previous


def test_a_part_that_came_after_the_plan_is_awaited_though_the_time_is_over(
    host: PlannerHost,
) -> None:
    host.sees(target=held(P0, P1), owned=held(P0))
    host.stood = described(P0, P1)
    for until_ms in (1_001, 1_000):
        with pytest.raises(NotReady, match="has changed this member's assignment meanwhile"):
            host.attempt(make_planner().require_full_assignment(until_ms))


@pytest.mark.parametrize(
    ("fields", "group", "share"),
    [
        ({}, described(P0), True),
        ({}, described(P0, P1, given=(P0,)), False),  # others still hold it
        ({}, described(P0, P1), False),  # this member has not heard of it
        ({}, described(P0, group_epoch=4), False),  # no target has been reckoned yet
        ({}, described(P0, group_epoch=4, assignment_epoch=4), False),
        # this member has not heard that epoch
        ({}, described(P0, group_epoch=4, assignment_epoch=4, member_epoch=4), False),
        ({"epoch": 4}, described(P0), False),
        (
            {"epoch": large()},
            described(P0, group_epoch=large(), assignment_epoch=large(), member_epoch=large()),
            True,
        ),
        ({"target": None}, described(P0), False),
        ({"member_id": "another"}, described(P0), False),
    ],
)
def test_a_member_has_its_share_when_it_holds_what_the_newest_target_gives_it(
    host: PlannerHost, fields: dict[str, int | str | None], group: Any, share: bool
) -> None:
    host.sees(**{"target": held(P0), **fields})
    host.stood = group
    assert host.attempt(owns_all(host, classic=False)) is share


def classic(*members: tuple[str, tuple[int, ...]], state: str = "Stable") -> DescribedGroup:
    """A classic group. members: (id, partitions of topic t)."""
    return DescribedGroup(
        group_id="g",
        group_state=state,
        members=tuple(
            DescribedGroupMember(
                member_id=member,
                member_assignment=encode_assignment(Given((TopicParts("t", numbers),))),
            )
            for member, numbers in members
        ),
    )


@pytest.mark.parametrize(
    ("target", "group", "share"),
    [
        (held(P0, P1, P2), classic(("m", (0, 1, 2))), True),
        (held(P0), classic(("m", (0,)), ("n", (1, 2))), True),
        # partition 2 is on its way from one to the other
        (held(P0), classic(("m", (0,)), ("n", (1,))), False),
        (held(P0), classic(("m", (0,)), ("n", (1, 2)), state="PreparingRebalance"), False),
        (held(P0), classic(("m", (0, 1)), ("n", (2,))), False),  # this member has not heard of it
        (held(), classic(("n", (0, 1, 2))), False),  # nor this one that it is out
        (held(), classic(("m", ()), ("n", (0, 1, 2))), True),  # more members than partitions
    ],
)
def test_a_classic_member_has_all_of_its_share_once_its_stable_group_assigned_all(
    host: PlannerHost, target: tuple[IdPartition, ...], group: DescribedGroup, share: bool
) -> None:
    host.sees(target=target)
    host.stood = group
    assert host.attempt(owns_all(host, classic=True)) is share


def test_other_topics_and_members_that_cannot_be_read_do_not_count() -> None:
    group: Any = classic(("m", (0, 1)))
    group.members += (
        DescribedGroupMember(
            member_id="n", member_assignment=encode_assignment(Given((TopicParts("other", (0,)),)))
        ),
        DescribedGroupMember(member_id="o", member_assignment=b"?"),
    )
    assert from_described_group(group, Topics([Topic("t", ID, 3)])) == DescribedAssignment(
        True, {"m": held(P0, P1), "n": (), "o": ()}, held(P2)
    )


def test_the_wait_for_a_share_begins_when_the_member_has_its_place(host: PlannerHost) -> None:
    previous = read("c", {P0: (0, 10), P1: (0, 10)})
    host.offsets = dict.fromkeys((P0, P1), 0)
    restarted = make_planner()
    host.sees(epoch=-1, target=None, last_accepted_ms=None)
    with pytest.raises(NotReady):
        # it waits for a slow member of its group, longer than a session
        host.attempt(restarted.plan_next(previous))
    host.now_ms += 10 * SESSION_MS
    host.sees(epoch=3, target=held(P0), last_accepted_ms=host.now_ms)
    host.stood = described(P0, P1, given=(P0,))
    with pytest.raises(AssignmentIncomplete):
        host.attempt(restarted.plan_next(previous))


def test_a_member_may_read_its_topics_and_an_unreadable_one_everything() -> None:
    blob = encode_subscription(Subscription(("t", "u")))
    assert (
        may_be_assigned(blob, ("u", "v")),
        may_be_assigned(blob, ("v",)),
        may_be_assigned(b"", ("v",)),
    ) == (True, False, True)
