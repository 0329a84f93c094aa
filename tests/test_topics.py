"""Topics as values."""

from apportion.topics import Topic, Topics, grouped

A, B = Topic("a", b"1" * 16, 3), Topic("b", b"2" * 16, 1)


def test_topics_are_found_by_name_and_by_id_and_told_in_order() -> None:
    topics = Topics([B, A])
    assert list(topics) == [A, B]
    assert (
        topics.named("a"),
        topics.with_id(B.id),
        topics.named("c"),
        topics.with_id(bytes(16)),
    ) == (A, B, None, None)


def test_snapshots_of_the_same_topics_are_equal() -> None:
    assert Topics([A, B]) == Topics([B, A])
    assert Topics([A]) != Topics([B])


def test_partition_numbers_are_grouped_by_topic_in_the_order_given() -> None:
    assert grouped([("b", 1), ("a", 0), ("b", 0)]) == {"b": (1, 0), "a": (0,)}
