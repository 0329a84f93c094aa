"""Our assignors beside Kafka's own, in Java, on the same groups.

`range` and `roundrobin` must give the very same. The sticky ones are free in which partition goes
to whom: theirs are judged by completeness, by sizes and by what they take away. Where members want
different topics ours may be fairer than Kafka's (decision 0017), never less fair, and may then move
more; at equal sizes it never does.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest

from apportion.assign.by_name import Given, Subscription, TopicParts, TopicShape
from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.assignors.serde import decode_subscription, encode_subscription
from apportion.testing.kafka import KafkaMissing
from apportion.wire.records.consumer_protocol import ConsumerProtocolTopicPartition, StickyUserData
from apportion.wire.records.consumer_serde import decode_sticky
from tests.kafka.assignors.groups import History, any_cluster, any_members, blobs
from tests.kafka.assignors.oracle import Oracle
from tests.kafka.assignors.quality import given_too_early, loads, moves, owners, rightful, wanted

GROUPS, HISTORIES, GENERATIONS = 300, 100, 8


@pytest.fixture(scope="module")
def java(jars: Path, lane_missing: Callable[[str], NoReturn]) -> Iterator[Oracle]:
    """Java's assignors; without Java the lane is missing."""
    try:
        oracle = Oracle(jars)
    except KafkaMissing as problem:
        lane_missing(str(problem))
    with oracle:
        yield oracle


@pytest.mark.parametrize("racks", [False, True], ids=["", "racks"])
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_range_and_roundrobin_give_exactly_what_java_gives(
    java: Oracle, name: str, racks: bool
) -> None:
    near = 0
    for seed in range(GROUPS):
        random = Random(seed)
        cluster = any_cluster(random, racks=racks)
        members = any_members(random, cluster, racks=racks)
        ours = CLIENT_ASSIGNORS[name]().assign(cluster, members)
        assert (seed, ours) == (seed, java.assign(name, cluster, blobs(members)))
        blind = CLIENT_ASSIGNORS[name]().assign(
            {topic: TopicShape(shape.partitions) for topic, shape in cluster.items()}, members
        )
        near += ours != blind
    assert (near > GROUPS // 4) == (racks and name == "range"), (
        "racks made too little difference for a test of them"
    )


@pytest.mark.parametrize("alike", [True, False], ids=["equal", "general"])
def test_sticky_is_complete_and_at_least_as_fair_and_as_sticky_as_javas(
    java: Oracle, alike: bool
) -> None:
    for seed in range(HISTORIES):
        random = Random(seed)
        history = History("sticky", random, alike=alike)
        for generation in range(1, GENERATIONS):
            subscriptions = history.says()
            ours: Any
            ours, theirs = (
                CLIENT_ASSIGNORS["sticky"]().assign(history.cluster, subscriptions),
                java.assign("sticky", history.cluster, blobs(subscriptions)),
            )
            assert (
                sorted(owners(ours))
                == sorted(owners(theirs))
                == sorted(wanted(history.cluster, subscriptions))
            )
            assert_no_worse(ours, theirs, rightful(subscriptions), alike)
            history.adopts(
                random.choice((ours, theirs)), generation
            )  # a group whose leader is now of the one kind, now of the other
            history.change()


@pytest.mark.parametrize("alike", [True, False], ids=["equal", "general"])
def test_cooperative_sticky_comes_to_rest_as_soon_and_no_worse_than_javas(
    java: Oracle, alike: bool
) -> None:
    waited = hasty = 0
    for seed in range(HISTORIES):
        random = Random(seed)
        history = History("cooperative-sticky", random, alike=alike)
        for generation in range(1, GENERATIONS):
            subscriptions = history.says()
            ours = rounds(
                CLIENT_ASSIGNORS["cooperative-sticky"]().assign, history.cluster, subscriptions
            )
            theirs = rounds(partial(in_java, java), history.cluster, subscriptions)
            before = rightful(subscriptions)
            assert len(ours) <= 2
            assert not given_too_early(before, ours[0])
            # to a member that was cut off and claims it by an old generation
            is_hasty = given_too_early(before, theirs[0])
            assert len(ours) <= len(theirs) or is_hasty or loads(ours[-1]) < loads(theirs[-1])
            assert_no_worse(ours[-1], theirs[-1], before, alike)
            waited += len(ours) > 1
            hasty += is_hasty
            history.adopts(
                random.choice((ours, theirs))[0 if random.random() < 0.3 else -1], generation
            )
            history.change()
    assert waited > HISTORIES
    assert (hasty > 0) == (not alike), (
        "Java no longer gives away what is in use, or does it in one more case: see "
        "docs/assignors.md"
    )


def assert_no_worse(
    ours: dict[str, Given],
    theirs: dict[str, Given],
    before: dict[tuple[str, int], str],
    alike: bool,
) -> None:
    """Ours is as fair and takes no more away, or is fairer where Kafka does not promise the
    fairest.
    """
    if alike or loads(ours) == loads(theirs):
        assert (loads(ours), moves(before, owners(ours)) <= moves(before, owners(theirs))) == (
            loads(theirs),
            True,
        )
    else:
        assert loads(ours) < loads(theirs)


def in_java(
    java: Oracle, cluster: dict[str, TopicShape], subscriptions: dict[str, Subscription]
) -> dict[str, Given]:
    """What Java's cooperative-sticky gives."""
    return java.assign("cooperative-sticky", cluster, blobs(subscriptions))


def rounds(
    assign: Callable[[dict[str, TopicShape], dict[str, Subscription]], Any],
    cluster: dict[str, TopicShape],
    subscriptions: dict[str, Subscription],
) -> list[dict[str, Given]]:
    """What `assign` gives from round to round until everything that is wanted is somebody's."""
    given = [assign(cluster, subscriptions)]
    while sorted(owners(given[-1])) != sorted(wanted(cluster, subscriptions)):
        assert len(given) < 4, "it does not come to rest"
        generation = 100 + len(given)
        subscriptions = {
            name: replace(each, owned=given[-1][name].partitions, generation=generation)
            for name, each in subscriptions.items()
        }
        given.append(assign(cluster, subscriptions))
    return given


SAID = Subscription(
    ("a", "b"), b"data", (TopicParts("a", (0, 2)), TopicParts("b", (1,))), 7, "rack"
)


@pytest.mark.parametrize(
    "subscription",
    [SAID, Subscription(()), Subscription(("t",)), replace(SAID, user_data=None, rack_id=None)],
)
@pytest.mark.parametrize("version", range(4))
def test_subscriptions_are_read_and_written_as_java_does(
    java: Oracle, subscription: Subscription, version: int
) -> None:
    assert java.subscription_bytes(subscription, version) == encode_subscription(
        subscription, version
    )


def test_an_assignment_of_java_is_read_and_one_of_ours_by_java(java: Oracle) -> None:
    given = Given((TopicParts("t", (0, 1, 2)),))
    assert java.assign("range", {"t": TopicShape(3)}, blobs({"m": Subscription(("t",))})) == {
        "m": given
    }
    assert java.user_data_after("sticky", 1, given) == bytes.fromhex(
        "00000001 0001 74 00000003 00000000 00000001 00000002 00000001"
    )


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize("topics", [(), ("t",), ("t", "u")])
def test_user_data_are_javas_byte_for_byte(
    java: Oracle, name: str, topics: tuple[str, ...]
) -> None:
    given = Given(tuple(TopicParts(topic, (0, 2, 5)) for topic in topics))
    ours = CLIENT_ASSIGNORS[name]()
    ours.on_assignment(given, 42)
    assert ours.user_data(topics) == java.user_data_after(name, 42, given)


def test_user_data_of_many_topics_are_javas_in_an_order_of_our_own(java: Oracle) -> None:
    given = Given(tuple(TopicParts(f"topic-{number}", (number,)) for number in range(10, 60)))
    ours = CLIENT_ASSIGNORS["sticky"]()
    ours.on_assignment(given, 42)
    mine, javas = (
        decode_sticky(ours.user_data(())),
        decode_sticky(java.user_data_after("sticky", 42, given)),
    )
    assert mine == replace_topics(
        javas, sorted(javas.topic_partitions, key=lambda part: part.topic)
    )
    # a Java map's order; nobody may depend on it
    assert javas.topic_partitions != mine.topic_partitions


def replace_topics(
    data: StickyUserData, parts: list[ConsumerProtocolTopicPartition]
) -> StickyUserData:
    """The same user data with its topics in that order."""
    return type(data)(topic_partitions=tuple(parts), generation=data.generation)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_a_member_that_javas_leader_gave_is_believed_by_ours_and_the_other_way_round(
    java: Oracle, name: str
) -> None:
    cluster = {"t": TopicShape(12), "u": TopicShape(6)}
    subscriptions = {member: Subscription(("t", "u")) for member in "abc"}
    first = java.assign(name, cluster, blobs(subscriptions))
    encoded_by_java = {}
    for member, given in first.items():
        claimed = Subscription(
            ("t", "u"), java.user_data_after(name, 3, given), given.partitions, 3
        )
        encoded_by_java[member] = decode_subscription(
            java.subscription_bytes(claimed, 3)
        )  # as Java's members say it
        assert encoded_by_java[member] == claimed
    ours: Any = CLIENT_ASSIGNORS[name]().assign(cluster, encoded_by_java)
    assert (
        owners(ours) == owners(first) == owners(java.assign(name, cluster, blobs(encoded_by_java)))
    )


def test_a_member_of_an_older_version_is_believed_by_its_user_data(java: Oracle) -> None:
    given = Given((TopicParts("t", (2, 3)),))
    old = decode_subscription(
        java.subscription_bytes(
            Subscription(
                ("t",), java.user_data_after("cooperative-sticky", 9, given), given.partitions
            ),
            1,
        )
    )
    members = {"a": old, "b": Subscription(("t",), None, (TopicParts("t", (1, 2)),), 8)}
    shared: Any = CLIENT_ASSIGNORS["cooperative-sticky"]().assign({"t": TopicShape(4)}, members)
    assert owners(shared) == {("t", 0): "b", ("t", 1): "b", ("t", 2): "a", ("t", 3): "a"}
    # Java looks for the generation of the rival in its subscription alone, and so lets the older
    # claim win.
    assert (
        owners(java.assign("cooperative-sticky", {"t": TopicShape(4)}, blobs(members)))["t", 2]
        == "b"
    )
