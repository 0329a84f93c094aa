"""The seeded author of scripts: mostly what sensible members, committers and administrators do, and
now and then what is wrong.

The next step depends on the seed and on what the real Kafka answered so far; both brokers agree
about that, or the script ends. `exact` scripts use the range assignor, which gives everybody the
same partitions on any broker. `loose` ones use uniform, and let the group settle before anything is
compared that depends on which partition went where.
"""

from collections.abc import Callable

from tests.kafka.differential import beats, errands
from tests.kafka.differential.author import Author
from tests.kafka.differential.steps import Step

Table = list[tuple[int, Callable[[Author], Step | None]]]
"""Kinds of steps with their weights. A kind that makes no sense now gives None, and another is
drawn.
"""

EXACT: Table = [
    (20, beats.join),
    (60, beats.acknowledge),
    (15, beats.stay),
    (6, beats.everything),
    (10, beats.resubscribe),
    (4, beats.small_change),
    (8, beats.leave),
    (8, beats.come_back),
    (4, beats.join_again),
    (5, beats.bad_join),
    (10, beats.bad_epoch),
    (5, beats.bad_owned),
    (4, beats.stranger),
    (5, beats.wrong_instance),
    (4, beats.wrong_words),
    (1, beats.expression),
    (14, errands.commit),
    (5, errands.stray_commit),
    (8, errands.fetch),
    (4, errands.forget),
    (4, errands.describe),
    (3, errands.list_all),
    (3, errands.delete),
    (14, errands.change_topics),
]
"""What happens in a group that has members."""

EMPTY_GROUP: Table = [
    (20, beats.join),
    (6, beats.come_back),
    (2, beats.bad_join),
    (2, beats.stranger),
    (5, errands.stray_commit),
    (3, errands.fetch),
    (2, errands.forget),
    (2, errands.describe),
    (2, errands.list_all),
    (3, errands.delete),
    (4, errands.change_topics),
]
"""What happens where there are none."""

LOOSE: Table = [(10, beats.loose_join), (5, beats.loose_leave), (20, beats.settle)]
"""What happens in a group of the uniform assignor."""


def next_step(author: Author) -> Step:
    """The step after those that the author has noted."""
    table = LOOSE if author.is_loose else EXACT if author.members() else EMPTY_GROUP
    weights = [weight for weight, _ in table]
    while True:
        step = author.rng.choices(table, weights)[0][1](author)
        if step is not None:
            return step
