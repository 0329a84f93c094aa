"""Partitions that a command names, as in `--topic orders:0,1,4-7`, and where they are looked up."""

import shlex
from collections.abc import Iterable
from re import fullmatch
from typing import NamedTuple

from apportion.cli.failures import Impossible, NoSuchTopic, WrongArguments
from apportion.client.cluster import Cluster
from apportion.topics import TopicIdPartition, TopicPartition, partitions_of, ranges

MOST_PARTITIONS = 1_000_000
NUMBERS = r"\d{1,7}(-\d{1,7})?(,\d{1,7}(-\d{1,7})?)*"


class PartitionChoice(NamedTuple):
    """Topics with the partitions that were named; () for every partition of the topic."""

    partitions_by_topic: dict[str, tuple[int, ...]]

    @property
    def is_everything(self) -> bool:
        """True if no topic was named."""
        return not self.partitions_by_topic


EVERYTHING = PartitionChoice({})


def parse_partitions(texts: Iterable[str]) -> PartitionChoice:
    """Return the partitions that were typed as `--topic`. Raises WrongArguments.

    A topic that is named twice has the partitions of both; named without partitions, it has all.
    """
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not fullmatch(NUMBERS, numbers)):
            raise WrongArguments(f"--topic must be TOPIC or TOPIC:0,1,4-7, not {text!r}")
        named = tuple(_numbers(numbers, text)) if colon else ()
        whole = not named or (topic in found and not found[topic])
        found[topic] = () if whole else tuple(sorted({*found.get(topic, ()), *named}))
    return PartitionChoice(found)


def _numbers(text: str, whole: str) -> Iterable[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first) or int(last or first) > MOST_PARTITIONS:
            raise WrongArguments(f"{part} in --topic {whole} is no range of partitions")
        yield from range(int(first), int(last or first) + 1)


def existing_partitions(
    cluster: Cluster, choice: PartitionChoice, at: str
) -> tuple[TopicIdPartition, ...]:
    """Return the chosen partitions with their topics' ids; raise an error if one does not exist."""
    topics = cluster.topics(choice.partitions_by_topic, fresh=True)
    found: list[TopicIdPartition] = []
    for name, numbers in choice.partitions_by_topic.items():
        topic = topics.named(name)
        if topic is None:
            raise NoSuchTopic(name, at)
        missing = [number for number in numbers if number >= topic.partitions]
        if missing:
            raise Impossible(
                f"topic {name!r} has the partitions {ranges(range(topic.partitions))}, and no "
                f"{ranges(missing)}"
            )
        found += [each for each in partitions_of(topic) if not numbers or each.partition in numbers]
    return tuple(sorted(found))


def chosen(
    group_id: str, partitions: Iterable[TopicPartition], choice: PartitionChoice, at: str
) -> dict[TopicPartition, None]:
    """Return those of a group's partitions that were chosen, in their order; all without a choice.

    at: as Asked.at. Raises Impossible if a chosen topic or partition is not among them.
    """
    known, named = dict.fromkeys(partitions), choice.partitions_by_topic
    if choice.is_everything:
        return known
    topics = {each.topic for each in known}
    for topic, numbers in named.items():
        missing = [number for number in numbers if TopicPartition(topic, number) not in known]
        if topic not in topics or missing:
            what = f"partition {ranges(missing)} of topic" if missing else "topic"
            raise Impossible(
                f"group {group_id!r} has no offset in {what} {topic!r}: `apportion groups offsets "
                f"{shlex.quote(group_id)} {at}` shows where it has one"
            )
    return dict.fromkeys(
        each
        for each in known
        if each.topic in named and (not named[each.topic] or each.partition in named[each.topic])
    )
