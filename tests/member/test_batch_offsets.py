"""The offsets of a micro-batch that are due for commit."""

from apportion.member.batch.plan import due_commits
from apportion.member.batch.span import sorted_span
from apportion.topics import TopicIdPartition

P0, P1, P2 = (TopicIdPartition("t", b"i" * 16, number) for number in range(3))


def test_due_is_what_is_held_and_above_what_the_group_knows() -> None:
    batch = sorted_span("c", {P0: (0, 10), P1: (0, 10), P2: (0, 10)})
    assert due_commits(batch, {P0, P1}, {P0: 10, P1: 3}) == {P1: 10}
    assert due_commits(batch, {P0, P2}, {P0: None}) == {P0: 10, P2: 10}
    assert due_commits(batch, set(), {}) == {}


def test_the_first_offset_of_all_is_due() -> None:
    batch = sorted_span("c", {P0: (0, 0), P1: (0, 1)})
    assert due_commits(batch, {P0, P1}, {P0: None, P1: 0}) == {P0: 0, P1: 1}
