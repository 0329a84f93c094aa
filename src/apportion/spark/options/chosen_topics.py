"""The options that say which topics are read: subscribe, subscribePattern and assign.

Their errors are OptionErrors; exactly one of the three has to be given.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from apportion.member.batch.topic_choice import TopicChoice
from apportion.spark.options.values import OptionError

NAMES = ("subscribe", "subscribePattern", "assign")
EXCLUDE = "subscribe, subscribePattern and assign exclude each other: give one of them"
PARTITIONS = 'give the partitions as JSON, such as {"flights":[0,1]}'

MEMBERSHIP_OPTIONS = (
    "kafka.group.instance.id",
    "kafka.group.protocol",
    "kafka.group.remote.assignor",
    "kafka.group.local.assignors",
    "kafka.session.timeout.ms",
    "kafka.heartbeat.interval.ms",
    "kafka.metadata.max.age.ms",
    "kafka.max.poll.interval.ms",
)
"""Options of a real membership, in lower case."""


class ChosenTopics(NamedTuple):
    """The option that was given, and what it chooses.

    partitions: of assign, by topic name, in order; None: all of the topics.
    """

    name: str
    topics: TopicChoice
    partitions: tuple[tuple[str, int], ...] | None = None

    def includes(self, topic: str) -> bool:
        """Return whether a topic of this name is chosen."""
        if self.topics.expression:
            # RE2 is imported here and below alone: most options name their topics.
            from apportion.coord.consumer.expressions import matching

            return bool(matching(self.topics.expression, (topic,)))
        return topic in self.topics.names


def topic_option(values: Mapping[str, str]) -> ChosenTopics:
    """Return the topics of a stream or of a batch read.

    values: the options by their names in lower case.
    """
    given = [name for name in NAMES if values.get(name.lower(), "").strip()]
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)}: {EXCLUDE}.")
    if not given:
        raise OptionError(
            "option subscribe is missing: give the topics to read, with commas between them, as in "
            f'.option("subscribe", "..."), or give {" or ".join(NAMES[1:])}.'
        )
    value = values[given[0].lower()].strip()
    if given[0] == "subscribePattern":
        return ChosenTopics(given[0], TopicChoice(expression=_checked_expression(value)))
    if given[0] == "assign":
        _refuse_membership(values)
        return _assigned(value)
    return ChosenTopics(given[0], TopicChoice(_topic_names(value)))


def _topic_names(value: str) -> tuple[str, ...]:
    """Return the topics of `subscribe`, each once; raise OptionError for an empty name."""
    names = [name.strip() for name in value.split(",")]
    if not all(names):
        raise OptionError(
            f"option subscribe holds an empty name in {value!r}: write topics with one "
            "comma between them."
        )
    return tuple(dict.fromkeys(names))


def _checked_expression(value: str) -> str:
    from apportion.coord.consumer.expressions import expression_fault_or_none

    if (fault := expression_fault_or_none(value)) is not None:
        raise OptionError(f"option subscribePattern is {value!r}: it is {fault}.")
    return value


def _refuse_membership(values: Mapping[str, str]) -> None:
    """Raise OptionError for an option of a membership, which a stream with assign has not."""
    for name in MEMBERSHIP_OPTIONS:
        if name in values:
            raise OptionError(
                f"option {name} says nothing with assign, which joins no group: drop the "
                "option, or subscribe to topics."
            )


def _assigned(value: str) -> ChosenTopics:
    try:
        partitions = sorted(
            {(topic, number) for topic, numbers in json.loads(value).items() for number in numbers}
        )
    except (ValueError, AttributeError, TypeError):
        partitions = []
    if not partitions or not all(type(number) is int and number >= 0 for _, number in partitions):
        raise OptionError(f"option assign is {value!r}: {PARTITIONS}.")
    topics = tuple(dict.fromkeys(topic for topic, _ in partitions))
    return ChosenTopics("assign", TopicChoice(topics), tuple(partitions))
