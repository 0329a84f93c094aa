"""The laws of what plain consumers deliver and commit: what each forbids, and what it allows.

Each case is a script: what consumers do, one after the other. The law breaks with the last step.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from apportion.errors import Unanswerable
from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.sim.checks.delivery_laws import DeliveryChecker
from apportion.sim.kernel.observer import InUse
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import Topic, TopicIdPartition, Topics

P = TopicIdPartition("t", b"t" * 16, 0)
PARTITIONS = {"P": P, "Q": TopicIdPartition("t", b"t" * 16, 1)}


def record(offset: int) -> ConsumerRecord:
    return ConsumerRecord(P.topic, P.partition, offset, 0, None, None, ())


TOGETHER = {"fetches": ("adopts", "asks", "sees"), "commits": ("sends", "succeeds")}
"""What consists of several steps: with committed offsets, and with a commit."""
VIEW: dict[str, tuple[str, Any]] = {
    "adopts": ("owned", (P.id_partition,)),
    "loses": ("owned", ()),
    "leaves": ("target", None),
    "rejoins": ("incarnation", 2),
}
"""What changes the member's view of itself."""
TOPICS = {"recreates": Topics([Topic("t", b"new".rjust(16), 2)]), "deletes": Topics()}
BEGIN = "a fetches -, a uses P, a delivers 0 1, a commits 2, "
"""Consumer a uses P, and has delivered and committed two records of it."""
HAND_OVER = "a uses, b fetches {}, b uses P, "
"""P goes from consumer a to b, which is shown that committed offset."""


class Group:
    """A checker, and the consumers that it sees."""

    def __init__(self) -> None:
        self.topics = Topics([Topic("t", P.topic_id, 2)])
        self.checker = DeliveryChecker(lambda: self.topics)
        self._consumers: dict[str, Any] = {}

    def consumer(self, name: str) -> Any:
        view = SimpleNamespace(incarnation=1, error=None, target=(), owned=())
        return self._consumers.setdefault(
            name,
            SimpleNamespace(
                name=name,
                group="readers",
                in_use=InUse(0, {}),
                member=SimpleNamespace(view=lambda: view),
                view=view,
            ),
        )

    def play(self, step: str) -> None:
        """A step is who, what, and numbers or names of partitions; "@2" is of its incarnation 2."""
        name, verb, *words = step.split()
        incarnation = next((int(word[1:]) for word in words if word.startswith("@")), 1)
        partitions = [PARTITIONS[word] for word in words if word in PARTITIONS]
        offsets = [int(word) for word in words if word.isdigit()]
        at: dict[Any, Any] = dict.fromkeys(partitions or [P], next(iter(offsets), None))
        checker, consumer = self.checker, self.consumer(name)
        if verb in TOGETHER:
            for each in TOGETHER[verb]:
                self.play(" ".join((name, each, *words)))
        elif verb in VIEW:
            setattr(consumer.view, *VIEW[verb])
        elif verb in TOPICS:
            self.topics = TOPICS[verb]
        elif verb == "uses":
            consumer.in_use = InUse(incarnation, dict.fromkeys(partitions))
            consumer.view.owned = tuple(each.id_partition for each in partitions)
            checker.ownership_changed(consumer)
        else:
            {
                "delivers": lambda: checker.records_delivered(consumer, [*map(record, offsets)]),
                "sends": lambda: checker.commit_sent(consumer, at),
                "succeeds": lambda: checker.commit_acknowledged(consumer, at),
                "fails": lambda: checker.commit_failed(consumer, at),
                "asks": lambda: checker.committed_requested(consumer, incarnation, [P]),
                "sees": lambda: checker.committed_fetched(consumer, at),
                "reads": lambda: checker.range_read(consumer, P, (2, 5), offsets),
            }[verb]()


ALLOWED = {
    "a partition is handed over at its committed position": BEGIN
    + HAND_OVER.format(2)
    + "b delivers 2 3, b commits 4",
    # b is paused, and removed from the group; c goes on
    "a paused consumer may begin where the group was when it asked": BEGIN
    + "a uses, b fetches 2, c fetches 2, c uses P, c delivers 2, c commits 3, "
    + "b uses P, b delivers 2",
    # the coordinator answered before that commit
    "a commit after the question may be missing in the answer": BEGIN
    + "b adopts, b asks, a delivers 2, a commits 3, b sees 2, a uses, b uses P, b delivers 2",
    # a hears of nothing any more
    "a cut off consumer is judged by the commits of its beginning": (
        "a fetches -, a uses P, b fetches -, b uses P, b delivers 0, b commits 1, a delivers 0"
    ),
    "uncommitted records are delivered again after a failure": BEGIN
    + "a delivers 2, a fails 3, "
    + HAND_OVER.format(2)
    + "b delivers 2",
    "a commit without an answer may be the beginning": BEGIN
    + "a delivers 2 3, a sends 4, a fails 4, "
    + HAND_OVER.format(4)
    + "b delivers 4",
    "a partition of a deleted topic is given up without a commit": BEGIN
    + "a delivers 2, a recreates t, a uses",
    "a partition that was lost is dropped without a commit": BEGIN
    + "a delivers 2, a rejoins, a uses",
    "a process that ends commits nothing": BEGIN + "a delivers 2, a uses @0",
    "a member that left gives up partitions without a commit": BEGIN
    + "a delivers 2, a leaves, a uses",
    "a task reads each record of its range": "a reads 2 3 4",
    "the last records of a deleted topic are not missed": "a recreates t, a reads, a reads 2 3",
}


@pytest.mark.parametrize("script", ALLOWED.values(), ids=ALLOWED)
def test_the_laws_of_delivery_allow_what_is_right(script: str) -> None:
    group = Group()
    for step in script.split(", "):
        group.play(step)


FORBIDDEN = [
    ("delivered-by-owner", BEGIN + "a uses, a delivers 2"),
    ("a delivered .* which it does not own", BEGIN + "a loses P, a delivers 2"),
    ("delivered-in-order", BEGIN + "a delivers 1"),
    ("delivered-in-order", BEGIN + "a delivers 3"),
    # nobody begins beyond what was delivered, nor before what was committed
    ("none-skipped", BEGIN + "a uses, b uses P, b delivers 3"),
    ("goes-on-at-commit", BEGIN + "a uses, b uses P, b delivers 1"),
    # the offset that it is shown is none from before it asked
    ("goes-on-at-commit", BEGIN + HAND_OVER.format(1) + "b delivers 1"),
    # a question without an answer is no beginning
    ("goes-on-at-commit", BEGIN + "a uses, b adopts, b asks, b uses P, b delivers 2"),
    # nor is an offset that was shown before the adoption, such as for a look at the sink's claim
    ("goes-on-at-commit", BEGIN + "b asks, b sees 2, a uses, b uses P, b delivers 2"),
    # ... to an earlier process
    ("goes-on-at-commit", BEGIN + "a uses, b fetches 2, b uses @0, b uses P, b delivers 2"),
    # ... to a member that has lost its membership since
    ("goes-on-at-commit", BEGIN + "a uses, b fetches 2, b rejoins, b uses P @2, b delivers 2"),
    # ... or of another position
    *(
        (
            "goes-on-at-commit",
            BEGIN + "a delivers 2 3, a fails 4, " + HAND_OVER.format(2) + f"b delivers {offset}",
        )
        for offset in (3, 4)
    ),
    # each use needs a fetch of its own
    ("goes-on-at-commit", BEGIN + "a uses, b uses P, b delivers 2"),
    ("goes-on-at-commit", BEGIN + HAND_OVER.format(2) + "b uses, b uses P, b delivers 2"),
    # before its first record a use commits nothing but its beginning
    (
        "commit-is-delivered",
        BEGIN + "a delivers 2 3, a fails 4, " + HAND_OVER.format(2) + "b commits 2, b commits 4",
    ),
    ("commit-is-delivered", BEGIN + "a commits 1"),
    ("commit-is-delivered", BEGIN + "a commits 3"),
    ("commit-is-delivered", BEGIN + "a uses P Q, a commits Q 1"),
    ("commit-is-delivered", BEGIN + "a uses, a commits 2"),
    ("released-with-commit", BEGIN + "a delivers 2, a uses"),
    # a failed commit excuses one release, and no later position, partition or incarnation
    (
        "released-with-commit",
        BEGIN + "a delivers 2, a fails 3, a uses, a fetches 2, a uses P, a delivers 2, a uses",
    ),
    ("released-with-commit", BEGIN + "a delivers 2, a fails 3, a delivers 3, a uses"),
    ("released-with-commit", BEGIN + "a delivers 2, a fails Q 3, a uses"),
    (
        "released-with-commit",
        BEGIN
        + "a fails 2, a rejoins, a uses @2, a fetches 2 @2, a uses P @2, a delivers 2, a uses @2",
    ),
    *(
        ("range-is-read", f"a reads {offsets}")
        for offsets in ("2 3", "3 4", "2 3 3 4", "2 4 3", "2 3 4 5", "")
    ),
    # the records of a deleted topic are read in order, too
    *(
        ("range-is-read", f"a deletes t, a reads {offsets}")
        for offsets in ("3 4", "2 2", "2 3 4 5")
    ),
]


@pytest.mark.parametrize(("law", "script"), FORBIDDEN)
def test_the_laws_of_delivery_forbid_the_last_step(law: str, script: str) -> None:
    group = Group()
    *steps, last = script.split(", ")
    for step in steps:
        group.play(step)
    with pytest.raises(LawBroken, match=law):
        group.play(last)


def test_poll_raises_nothing_that_time_mends() -> None:
    group = Group()
    with pytest.raises(LawBroken, match="poll-goes-on"):
        group.checker.poll_failed(group.consumer("a"), Unanswerable("no broker"))
