"""The built-in assignors of classic groups, from subscriptions by name to what each member gets."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape, by_topic
from apportion.member.assignors.builtin import CLIENT_ASSIGNORS, Range, RoundRobin
from apportion.member.assignors.interface import Rebalance
from apportion.member.assignors.numbering import Numbering


def shares(
    assignor: Any, sizes: dict[str, int], members: dict[str, Subscription]
) -> dict[str, dict[str, tuple[int, ...]]]:
    """What the assignor gives, as {member: {topic: partitions}}."""
    cluster = {name: TopicShape(partitions) for name, partitions in sizes.items()}
    return {
        member: dict(given.partitions)
        for member, given in assignor.assign(cluster, members).items()
    }


def wanting(*topics: str, instance_id: str | None = None) -> Subscription:
    return Subscription(topics=topics, instance_id=instance_id)


def test_range_gives_each_member_a_piece_of_every_topic() -> None:
    members = {"b": wanting("u", "t"), "a": wanting("t", "u")}
    assert shares(Range(), {"t": 3, "u": 2}, members) == {
        "a": {"t": (0, 1), "u": (0,)},
        "b": {"t": (2,), "u": (1,)},
    }


def test_racks_in_which_no_replica_is_take_one_column_together() -> None:
    cluster = {"t": TopicShape(2, (("here",), ("there",)))}
    members = {f"m{number}": replace(wanting("t"), rack_id=f"r{number}") for number in range(9)}
    members |= {"n": wanting("t"), "o": replace(wanting("t"), rack_id="there")}
    racks = Numbering(cluster, members).racks_or_none(cluster)
    assert racks is not None
    assert racks.members.tolist() == [2] * 9 + [-1, 1]
    assert racks.replicas.tolist() == [[True, False, False], [False, True, False]]


def test_a_member_of_another_rack_than_the_only_one_matches_nothing() -> None:
    cluster = {"t": TopicShape(2, (("here",), ("here",)))}
    members = {
        "a": replace(wanting("t"), rack_id="far"),
        "b": replace(wanting("t"), rack_id="here"),
    }
    racks = Numbering(cluster, members).racks_or_none(cluster)
    assert racks is not None
    assert racks.members.tolist() == [1, 0]
    assert racks.replicas.tolist() == [[True, False], [True, False]]


def test_range_looks_for_racks_in_every_topic() -> None:
    here, host = ("here",), ("there", "far")
    members = {
        "a": replace(wanting("t", "u"), rack_id="there"),
        "b": replace(wanting("t", "u"), rack_id="here"),
        "c": wanting(),
    }
    cluster = {"t": TopicShape(2, (here, host)), "u": TopicShape(4, (host, here, here, host))}
    given = {
        member: dict(each.partitions) for member, each in Range().assign(cluster, members).items()
    }
    assert given == {"a": {"t": (1,), "u": (0, 3)}, "b": {"t": (0,), "u": (1, 2)}, "c": {}}


def test_each_assignor_says_how_its_group_may_rebalance() -> None:
    eager, cooperative = sorted(Rebalance)
    assert (eager, cooperative) == (Rebalance.EAGER, Rebalance.COOPERATIVE)
    assert {name: assignor().rebalances for name, assignor in CLIENT_ASSIGNORS.items()} == {
        "range": (eager,),
        "roundrobin": (eager,),
        "sticky": (eager,),
        "cooperative-sticky": (cooperative, eager),
    }


def test_roundrobin_goes_on_where_the_topic_before_ended() -> None:
    members = {"a": wanting("t", "u"), "b": wanting("t", "u")}
    assert shares(RoundRobin(), {"t": 3, "u": 3}, members) == {
        "a": {"t": (0, 2), "u": (1,)},
        "b": {"t": (1,), "u": (0, 2)},
    }


def test_roundrobin_passes_over_who_does_not_want_the_topic() -> None:
    members = {"a": wanting("t", "u", "v"), "b": wanting("u", "v"), "c": wanting("v")}
    assert shares(RoundRobin(), {"t": 1, "u": 2, "v": 3}, members) == {
        "a": {"t": (0,), "u": (1,), "v": (2,)},
        "b": {"u": (0,), "v": (0,)},
        "c": {"v": (1,)},
    }


@pytest.mark.parametrize("assignor", CLIENT_ASSIGNORS.values())
def test_static_members_come_first_in_order_of_instance_id(assignor: type[Any]) -> None:
    members = {
        "a": wanting("t"),
        "y": wanting("t", instance_id="2"),
        "z": wanting("t", instance_id="1"),
    }
    assert shares(assignor(), {"t": 2}, members) == {"z": {"t": (0,)}, "y": {"t": (1,)}, "a": {}}


@pytest.mark.parametrize("assignor", CLIENT_ASSIGNORS.values())
def test_every_member_is_answered_also_without_topics_that_exist(assignor: type[Any]) -> None:
    members = {"a": wanting("gone", "empty"), "b": wanting()}
    assert assignor().assign({"empty": TopicShape(0)}, members) == {"a": Given(), "b": Given()}
    assert assignor().assign({}, {}) == {}


@pytest.mark.parametrize("assignor", CLIENT_ASSIGNORS.values())
def test_a_topic_named_twice_is_wanted_once(assignor: type[Any]) -> None:
    assert shares(assignor(), {"t": 2}, {"a": wanting("t", "t"), "b": wanting("t")}) == {
        "a": {"t": (0,)},
        "b": {"t": (1,)},
    }


@pytest.mark.parametrize("assignor", CLIENT_ASSIGNORS.values())
def test_names_are_ordered_as_java_orders_them(assignor: type[Any]) -> None:
    # by UTF-16 units; by code points it is the other way round
    early, late = "\U0001f600", "\uffee"
    assert shares(assignor(), {"t": 1}, {late: wanting("t"), early: wanting("t")}) == {
        early: {"t": (0,)},
        late: {},
    }


def test_partitions_are_grouped_by_topic_in_order_and_each_once() -> None:
    assert by_topic([("u", 1), ("t", 2), ("u", 0), ("u", 1)]) == (
        TopicParts("t", (2,)),
        TopicParts("u", (0, 1)),
    )


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.builds(
            Subscription,
            st.permutations("tuv").map(lambda topics: tuple(topics[:2])),
            owned=st.lists(st.integers(0, 4), max_size=4).map(
                lambda numbers: (TopicParts("t", tuple(numbers)),)
            ),
            generation=st.integers(-1, 2),
            rack_id=st.sampled_from([None, "r1", "r2"]),
        ),
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_members_and_of_their_words_does_not_matter(
    members: dict[str, Subscription], random: random.Random
) -> None:
    cluster = {
        "u": TopicShape(4),
        "v": TopicShape(2),
        "t": TopicShape(5, (("r1",), ("r2",), ("r1", "r2"), (), ("r2",))),
    }
    shuffled = {
        name: replace(
            members[name],
            topics=tuple(random.sample(members[name].topics, 2)),
            owned=tuple(
                TopicParts(topic, (number,))
                for topic, numbers in members[name].owned
                for number in reversed(numbers)
            ),
        )
        for name in random.sample(sorted(members), len(members))
    }
    for assignor in CLIENT_ASSIGNORS.values():
        assert assignor().assign(dict(sorted(cluster.items())), shuffled) == assignor().assign(
            cluster, members
        )
