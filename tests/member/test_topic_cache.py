"""The topics that a client knows from Metadata responses."""

import pytest

from apportion.member.topic_cache import TopicCache
from apportion.topics import IdPartition, Topic, TopicIdPartition, Topics

A, B = Topic("a", b"a" * 16, 2), Topic("b", b"b" * 16, 1)
RECREATED = Topic("a", b"n" * 16, 3)


@pytest.fixture
def cache() -> TopicCache:
    cache = TopicCache()
    cache.add(Topics([A, B]))
    return cache


def test_a_new_cache_knows_no_topic() -> None:
    cache = TopicCache()
    assert not cache.has(["a"])
    assert cache.named(["a"]) == Topics()
    assert cache.has([])


def test_topics_are_found_by_name_and_unknown_names_are_left_out(cache: TopicCache) -> None:
    assert cache.has(["a", "b"])
    assert not cache.has(["a", "c"])
    assert cache.named(["b", "c"]) == Topics([B])


def test_an_assignment_is_resolved_in_order_without_unknown_topics(cache: TopicCache) -> None:
    assignment = (IdPartition(B.id, 0), IdPartition(b"?" * 16, 0), IdPartition(A.id, 1))
    assert cache.unknown_ids(assignment) == (b"?" * 16,)
    assert cache.resolve(assignment) == (
        TopicIdPartition("a", A.id, 1),
        TopicIdPartition("b", B.id, 0),
    )


def test_each_unknown_id_is_named_once(cache: TopicCache) -> None:
    unknown = b"?" * 16
    assert cache.unknown_ids((IdPartition(unknown, 0), IdPartition(unknown, 1))) == (unknown,)


def test_a_recreated_topic_replaces_the_one_of_its_name(cache: TopicCache) -> None:
    assert cache.add(Topics([RECREATED, B])) == (A.id,)
    assert cache.named(["a"]) == Topics([RECREATED])
    assert cache.resolve((IdPartition(A.id, 0),)) == ()


def test_a_topic_that_has_grown_is_the_same_one(cache: TopicCache) -> None:
    assert cache.add(Topics([A._replace(partitions=3)])) == ()
    assert cache.unknown_ids((IdPartition(A.id, 2),)) == ()


@pytest.mark.parametrize("requested", ["a", A.id])
def test_a_requested_topic_that_does_not_exist_is_forgotten(
    cache: TopicCache, requested: str | bytes
) -> None:
    assert cache.forget_missing([requested, "never seen"], Topics()) == (A.id,)
    assert cache.named(["a", "b"]) == Topics([B])


def test_a_topic_that_was_not_requested_stays(cache: TopicCache) -> None:
    assert cache.forget_missing(["b"], Topics([B])) == ()
    assert cache.has(["a", "b"])
