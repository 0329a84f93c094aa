"""The seeded author of scripts: mostly what sensible members, committers and administrators do, and
now and then what is wrong.

The next step depends on the seed and on what the real Kafka answered so far; both brokers agree
about that, or the script ends. `exact` scripts use the range assignor, which gives everybody the
same partitions on any broker. `loose` ones use uniform, and some of them range as well, and let the
group settle before anything is compared that depends on which partition went where.
"""

from collections.abc import Callable

from tests.kafka.differential import heartbeats, loose, offsets_and_admin
from tests.kafka.differential.author import Author
from tests.kafka.differential.steps import Step

Table = list[tuple[int, Callable[[Author], Step | None]]]
"""Kinds of steps with their weights. A kind that makes no sense now gives None, and another is
drawn.
"""

EXACT: Table = [
    (20, heartbeats.join),
    (60, heartbeats.acknowledge),
    (15, heartbeats.stay),
    (6, heartbeats.everything),
    (10, heartbeats.resubscribe),
    (4, heartbeats.small_change),
    (8, heartbeats.leave),
    (8, heartbeats.come_back),
    (4, heartbeats.join_again),
    (5, heartbeats.bad_join),
    (10, heartbeats.bad_epoch),
    (5, heartbeats.bad_owned),
    (4, heartbeats.stranger),
    (5, heartbeats.wrong_instance),
    (4, heartbeats.wrong_words),
    (1, heartbeats.expression),
    (14, offsets_and_admin.commit),
    (5, offsets_and_admin.stray_commit),
    (8, offsets_and_admin.fetch),
    (4, offsets_and_admin.forget),
    (4, offsets_and_admin.describe),
    (3, offsets_and_admin.list_all),
    (3, offsets_and_admin.delete),
    (14, offsets_and_admin.change_topics),
]
"""What happens in a group that has members."""

EMPTY_GROUP: Table = [
    (20, heartbeats.join),
    (6, heartbeats.come_back),
    (2, heartbeats.bad_join),
    (2, heartbeats.stranger),
    (5, offsets_and_admin.stray_commit),
    (3, offsets_and_admin.fetch),
    (2, offsets_and_admin.forget),
    (2, offsets_and_admin.describe),
    (2, offsets_and_admin.list_all),
    (3, offsets_and_admin.delete),
    (4, offsets_and_admin.change_topics),
]
"""What happens where there are none."""

LOOSE: Table = [(10, loose.join), (5, loose.leave), (6, loose.go_for_a_while), (20, loose.settle)]
"""What happens in a group of the uniform assignor."""


def next_step(author: Author) -> Step:
    """The step after those that the author has noted."""
    if author.away is not None:
        return loose.come_back(author)
    table = LOOSE if author.is_loose else EXACT if author.members() else EMPTY_GROUP
    weights = [weight for weight, _ in table]
    while True:
        step = author.rng.choices(table, weights)[0][1](author)
        if step is not None:
            return step
