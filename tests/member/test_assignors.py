"""The built-in assignors of classic groups, from subscriptions by name to what each member gets."""

import pytest

from apportion.member.assignors import CLIENT_ASSIGNORS, Given, Range, RoundRobin, Subscription, TopicParts, TopicShape, by_topic


def shares(assignor, sizes, members):
    """What the assignor gives, as {member: {topic: partitions}}."""
    cluster = {name: TopicShape(partitions) for name, partitions in sizes.items()}
    return {member: dict(given.partitions) for member, given in assignor.assign(cluster, members).items()}


def wanting(*topics, instance_id=None):
    return Subscription(topics=topics, instance_id=instance_id)


def test_range_gives_each_member_a_piece_of_every_topic():
    members = {"b": wanting("u", "t"), "a": wanting("t", "u")}
    assert shares(Range(), {"t": 3, "u": 2}, members) == {"a": {"t": (0, 1), "u": (0,)}, "b": {"t": (2,), "u": (1,)}}


def test_roundrobin_goes_on_where_the_topic_before_ended():
    members = {"a": wanting("t", "u"), "b": wanting("t", "u")}
    assert shares(RoundRobin(), {"t": 3, "u": 3}, members) == {"a": {"t": (0, 2), "u": (1,)}, "b": {"t": (1,), "u": (0, 2)}}


def test_roundrobin_passes_over_who_does_not_want_the_topic():
    members = {"a": wanting("t", "u", "v"), "b": wanting("u", "v"), "c": wanting("v")}
    assert shares(RoundRobin(), {"t": 1, "u": 2, "v": 3}, members) == {
        "a": {"t": (0,), "u": (1,), "v": (2,)},
        "b": {"u": (0,), "v": (0,)},
        "c": {"v": (1,)},
    }


@pytest.mark.parametrize("assignor", CLIENT_ASSIGNORS.values())
def test_static_members_come_first_in_order_of_instance_id(assignor):
    members = {"a": wanting("t"), "y": wanting("t", instance_id="2"), "z": wanting("t", instance_id="1")}
    assert shares(assignor(), {"t": 2}, members) == {"z": {"t": (0,)}, "y": {"t": (1,)}, "a": {}}


@pytest.mark.parametrize("assignor", CLIENT_ASSIGNORS.values())
def test_every_member_is_answered_also_without_topics_that_exist(assignor):
    members = {"a": wanting("gone", "empty"), "b": wanting()}
    assert assignor().assign({"empty": TopicShape(0)}, members) == {"a": Given(), "b": Given()}
    assert assignor().assign({}, {}) == {}


@pytest.mark.parametrize("assignor", CLIENT_ASSIGNORS.values())
def test_a_topic_named_twice_is_wanted_once(assignor):
    assert shares(assignor(), {"t": 2}, {"a": wanting("t", "t"), "b": wanting("t")}) == {"a": {"t": (0,)}, "b": {"t": (1,)}}


@pytest.mark.parametrize("assignor", CLIENT_ASSIGNORS.values())
def test_names_are_ordered_as_java_orders_them(assignor):
    early, late = "\U0001f600", "\uffee"  # by UTF-16 units; by code points it is the other way round
    assert shares(assignor(), {"t": 1}, {late: wanting("t"), early: wanting("t")}) == {early: {"t": (0,)}, late: {}}


def test_partitions_are_grouped_by_topic_in_order_and_each_once():
    assert by_topic([("u", 1), ("t", 2), ("u", 0), ("u", 1)]) == (TopicParts("t", (2,)), TopicParts("u", (0, 1)))
