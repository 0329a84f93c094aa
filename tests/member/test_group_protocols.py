"""A group is described by the API of its protocol, also when it changes that in between."""

from itertools import cycle

import pytest

from apportion.assign.by_name import Given, Subscription, by_topic
from apportion.errors import Code, Refused
from apportion.member.assignors.serde import encode_assignment, encode_subscription
from apportion.member.batch.group import BatchGroup, TopicReader
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.group_protocols import ATTEMPTS, describe_by_protocol
from apportion.member.membership import MembershipState, View
from apportion.wire.messages import consumer_group_describe, describe_groups
from tests.member.changing_group import CLASSIC, CONSUMER, ChangingGroup, DescribedGroup, listed
from tests.member.planner_host import P0, assigned

BOTH = {
    True: ["DescribeGroups", "ConsumerGroupDescribe"],
    False: ["ConsumerGroupDescribe", "DescribeGroups"],
}
BEGINNINGS = pytest.mark.parametrize("classic_first", [True, False])


@BEGINNINGS
def test_the_api_of_the_likelier_protocol_is_asked_first(classic_first: bool) -> None:
    likely, other = ChangingGroup(["classic"]), ChangingGroup(["consumer"])
    assert likely.run(describe_by_protocol("g", classic_first=classic_first)) is CLASSIC
    assert other.run(describe_by_protocol("g", classic_first=classic_first)) is CONSUMER
    if not classic_first:
        likely, other = other, likely
    assert (likely.asked, other.asked) == (BOTH[classic_first][:1], BOTH[classic_first])


@BEGINNINGS
@pytest.mark.parametrize("listed_as", ["classic", "consumer"])
def test_a_group_that_changes_its_protocol_between_two_requests_is_described_again(
    classic_first: bool, listed_as: str
) -> None:
    types = ["consumer", "classic"] if classic_first else ["classic", "consumer"]
    group = ChangingGroup([*types, listed_as, "consumer"])
    assert group.run(describe_by_protocol("g", classic_first=classic_first)) is CONSUMER
    again = BOTH[classic_first] if classic_first else BOTH[classic_first][:1]
    assert group.asked == [*BOTH[classic_first], "ListGroups", *again]


@BEGINNINGS
def test_a_group_that_does_not_exist_has_no_description(classic_first: bool) -> None:
    group = ChangingGroup([None])
    assert group.run(describe_by_protocol("g", classic_first=classic_first)) is None
    assert group.asked == [*BOTH[classic_first], "ListGroups"]


@BEGINNINGS
def test_a_group_that_neither_api_describes_is_what_the_list_says(classic_first: bool) -> None:
    group = ChangingGroup(["share"])
    rule = describe_by_protocol("g", classic_first=classic_first)
    assert group.run(rule) == listed("share")


def test_a_group_that_changes_its_protocol_all_the_time_is_given_up() -> None:
    group = ChangingGroup(cycle(["consumer", "classic", "classic"]))
    with pytest.raises(Refused) as refused:
        group.run(describe_by_protocol("g", classic_first=True))
    assert (refused.value.code, refused.value.why) == (
        Code.GROUP_ID_NOT_FOUND,
        "no description of group 'g': it changed its protocol in between, 5 times in a row",
    )
    assert ATTEMPTS == 5
    assert len(group.asked) == 3 * ATTEMPTS


@BEGINNINGS
def test_a_broker_without_kip_848_describes_its_classic_groups(classic_first: bool) -> None:
    old = Code.UNSUPPORTED_VERSION
    rule = describe_by_protocol("g", classic_first=classic_first)
    assert ChangingGroup(["classic"], refuses=old).run(rule) is CLASSIC
    rule = describe_by_protocol("g", classic_first=classic_first)
    assert ChangingGroup([None], refuses=old).run(rule) is None


def test_a_group_that_was_created_in_between_is_described_where_no_types_are_listed() -> None:
    group = ChangingGroup([None, None, "classic"], tells_types=False)
    assert group.run(describe_by_protocol("g", classic_first=True)) is CLASSIC


@BEGINNINGS
def test_a_group_that_may_not_be_described_is_refused(classic_first: bool) -> None:
    group = ChangingGroup(["consumer"], refuses=Code.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(Refused) as refused:
        group.run(describe_by_protocol("g", classic_first=classic_first))
    assert refused.value.code is Code.GROUP_AUTHORIZATION_FAILED


# the answers that a batch planner needs


def view_of(member_id: str) -> View:
    return View(member_id, 0, MembershipState.STABLE, 1, (), (), 1_000, None)


def batch_group(classic: bool) -> BatchGroup:
    return BatchGroup("g", TopicChoice(("t",)), classic_session_ms=45_000 if classic else None)


def ids(readers: tuple[TopicReader, ...]) -> tuple[str, ...]:
    return tuple(reader.member_id for reader in readers)


@pytest.mark.parametrize("classic", [True, False])
@pytest.mark.parametrize(
    ("group_type", "readers"),
    [("classic", ("a", "b")), ("consumer", ("d", "e")), ("share", ()), (None, ())],
)
def test_the_readers_of_a_group_are_the_members_that_may_read_the_topics(
    group_type: str | None, readers: tuple[str, ...], classic: bool
) -> None:
    group = ChangingGroup([group_type])
    assert ids(group.run(batch_group(classic).list_readers())) == readers


CLASSIC_ASSIGNMENTS = describe_groups.DescribedGroup(
    group_id="g",
    group_state="Stable",
    members=tuple(
        describe_groups.DescribedGroupMember(
            member_id=member_id,
            member_metadata=encode_subscription(Subscription(("t",))),
            member_assignment=sent,
        )
        for member_id, sent in {
            "busy": encode_assignment(Given(by_topic([("t", 0)]))),
            "idle": encode_assignment(Given(())),
            "left-out": b"",
            "unread": b"?",
        }.items()
    ),
)
CONSUMER_ASSIGNMENTS = consumer_group_describe.DescribedGroup(
    group_id="g",
    members=tuple(
        consumer_group_describe.Member(
            member_id=member_id,
            subscribed_topic_names=("t",),
            assignment=now,
            target_assignment=target,
        )
        for member_id, now, target in (
            ("gains", assigned(), assigned(P0)),
            ("idle", assigned(), assigned()),
            ("gives-up", assigned(P0), assigned()),
        )
    ),
)


@pytest.mark.parametrize(
    ("described", "with_partitions"),
    [(CLASSIC_ASSIGNMENTS, {"busy", "unread"}), (CONSUMER_ASSIGNMENTS, {"gains", "gives-up"})],
)
def test_a_reader_has_partitions_unless_its_group_has_assigned_it_nothing(
    described: DescribedGroup, with_partitions: set[str]
) -> None:
    group = ChangingGroup(
        ["classic" if isinstance(described, describe_groups.DescribedGroup) else "consumer"],
        described=described,
    )
    readers = group.run(batch_group(classic=True).list_readers())
    assert len(readers) == len(described.members)
    assert {reader.member_id for reader in readers if reader.is_assigned} == with_partitions


@pytest.mark.parametrize(
    ("classic", "types", "readers"),
    [(True, ["consumer", "classic"], ("a", "b")), (False, ["classic", "consumer"], ("d", "e"))],
)
def test_a_group_that_changes_its_protocol_meanwhile_has_readers(
    classic: bool, types: list[str], readers: tuple[str, ...]
) -> None:
    assert ids(ChangingGroup(types).run(batch_group(classic).list_readers())) == readers


@pytest.mark.parametrize(
    ("classic", "types"),
    [(True, ["classic"]), (False, ["classic"]), (True, ["consumer", "classic"])],
)
def test_a_classic_group_tells_whether_a_member_owns_all(classic: bool, types: list[str]) -> None:
    assert ChangingGroup(types).run(batch_group(classic).has_full_assignment(view_of("a")))
    assert not ChangingGroup(types).run(batch_group(classic).has_full_assignment(view_of("d")))


@pytest.mark.parametrize("classic", [True, False])
def test_a_consumer_group_tells_whether_a_member_owns_all(classic: bool) -> None:
    group = ChangingGroup(["consumer"])
    assert group.run(batch_group(classic).has_full_assignment(view_of("d")))
    assert not group.run(batch_group(classic).has_full_assignment(view_of("a")))


@pytest.mark.parametrize("classic", [True, False])
@pytest.mark.parametrize("group_type", [None, "share"])
def test_a_group_without_members_that_own_partitions_is_refused(
    group_type: str | None, classic: bool
) -> None:
    with pytest.raises(Refused) as refused:
        ChangingGroup([group_type]).run(batch_group(classic).has_full_assignment(view_of("a")))
    assert refused.value.code is Code.GROUP_ID_NOT_FOUND
