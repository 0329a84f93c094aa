"""The options that say where a read begins and ends, as Spark's own Kafka source has them.

Of several, startingTimestamp comes before startingOffsetsByTimestamp, and that before
startingOffsets; likewise for the end. Errors are OptionErrors.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from apportion.member.batch.offset_times import OffsetTimes
from apportion.member.batch.plan import StartingOffsets
from apportion.settings import MAX_INT64, Setting
from apportion.spark.options.chosen_topics import ChosenTopics
from apportion.spark.options.values import OptionError
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

STARTING_TIMESTAMP = Setting(
    "Begin at the first record of this time or later, in ms since 1970; comes before "
    "startingOffsetsByTimestamp.",
    at_least=0,
    at_most=MAX_INT64,
)
STARTING_OFFSETS_BY_TIMESTAMP = Setting(
    "The same as JSON by topic and partition; comes before startingOffsets."
)
TIMESTAMP_STRATEGY = Setting(
    "What is done where a partition has no record of that time or later: end with an error, or "
    "begin at its end.",
    "error",
    choices=("error", "latest"),
)
COMMITTED = "committed"
STREAM_START = (
    'give earliest, latest, or JSON such as {"flights":{"0":23,"1":-2}} (-2 earliest, -1 latest)'
)
BATCH_START = (
    "give earliest, committed (with kafka.group.id), or JSON such as "
    '{"flights":{"0":23,"1":-2}} (-2 earliest)'
)
BATCH_END = 'give latest, or JSON such as {"flights":{"0":23,"1":-1}} (-1 latest)'
TIMES = 'give JSON such as {"flights":{"0":1767225600000}}, in ms since 1970'

Values = Mapping[str, str]
"""The options by their names in lower case."""
Parsed = Callable[[str], Any]
"""Returns the value of an option that is a number, by its name."""
ByPartition = dict[tuple[str, int], int]


class TimeOptions(NamedTuple):
    """The names of the options that give one end of a read by time.

    by_partition: JSON by topic and partition.
    """

    for_all: str
    by_partition: str


STARTING_TIMES = TimeOptions("startingTimestamp", "startingOffsetsByTimestamp")
ENDING_TIMES = TimeOptions("endingTimestamp", "endingOffsetsByTimestamp")


def stream_start(values: Values, parsed: Parsed, topics: ChosenTopics) -> StartingOffsets:
    """Return where a stream's partitions begin for which the group has no offset.

    Partitions that JSON leaves out start at the earliest.
    """
    # Checked even if a time comes before it.
    starting = _stream_starting_offsets(values.get("startingoffsets", "latest"), topics)
    times = _starting_times(values, parsed, topics)
    return starting if times is None else StartingOffsets(EARLIEST, times=times)


def batch_start(values: Values, parsed: Parsed, topics: ChosenTopics) -> StartingOffsets:
    """Return where a batch read's partitions begin that do not at a committed offset."""
    starting = _batch_starting_offsets(values.get("startingoffsets", "earliest"), topics)
    times = _starting_times(values, parsed, topics)
    return starting if times is None else StartingOffsets(EARLIEST, times=times)


def batch_end(values: Values, topics: ChosenTopics) -> ByPartition:
    """Return endingOffsets of a batch read by topic and partition; empty for latest."""
    value = values.get("endingoffsets", "latest")
    if value.strip().lower() == "latest":
        return {}
    offsets = _offsets_by_partition("endingOffsets", value, topics, BATCH_END)
    _refuse_special("endingOffsets", offsets, EARLIEST, BATCH_END)
    return offsets


def ending_times(values: Values, parsed: Parsed, topics: ChosenTopics) -> OffsetTimes | None:
    """Return the times at which a batch read ends, at the end of the log where it has none."""
    return _times(values, parsed, topics, ENDING_TIMES, latest_if_none=True)


def _starting_times(values: Values, parsed: Parsed, topics: ChosenTopics) -> OffsetTimes | None:
    strategy = values.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in TIMESTAMP_STRATEGY.choices:
        raise OptionError(
            f"option startingOffsetsByTimestampStrategy is {strategy!r}: give error or latest."
        )
    return _times(values, parsed, topics, STARTING_TIMES, latest_if_none=strategy == "latest")


def _times(
    values: Values,
    parsed: Parsed,
    topics: ChosenTopics,
    options: TimeOptions,
    *,
    latest_if_none: bool,
) -> OffsetTimes | None:
    """Return the times of one end of a read; None if no option gives any."""
    text = values.get(options.by_partition.lower())
    # Checked even if a single time comes before it.
    by_partition = (
        {}
        if text is None
        else _offsets_by_partition(options.by_partition, text, topics, TIMES, least=0)
    )
    time_ms = parsed(options.for_all)
    if time_ms is not None:
        return OffsetTimes(options.for_all, time_ms, latest_if_none=latest_if_none)
    if by_partition:
        return OffsetTimes(options.by_partition, None, by_partition, latest_if_none)
    return None


def _stream_starting_offsets(value: str, topics: ChosenTopics) -> StartingOffsets:
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return StartingOffsets(EARLIEST if word == "earliest" else LATEST)
    if word == COMMITTED:
        raise OptionError(
            "option startingOffsets is committed: that is for batch reads; a stream always begins "
            "at the group's committed offsets, and elsewhere only where there is none."
        )
    return StartingOffsets(
        EARLIEST, _offsets_by_partition("startingOffsets", value, topics, STREAM_START)
    )


def _batch_starting_offsets(value: str, topics: ChosenTopics) -> StartingOffsets:
    word = value.strip().lower()
    if word in ("earliest", COMMITTED):
        return StartingOffsets(EARLIEST)
    if word == "latest":
        raise OptionError(
            "option startingOffsets is latest: a batch read ends there and would be empty; "
            f"{BATCH_START}."
        )
    offsets = _offsets_by_partition("startingOffsets", value, topics, BATCH_START)
    _refuse_special("startingOffsets", offsets, LATEST, BATCH_START)
    return StartingOffsets(EARLIEST, offsets)


def _refuse_special(option: str, offsets: ByPartition, refused: int, advice: str) -> None:
    """Raise OptionError for a partition that has EARLIEST or LATEST where it says nothing."""
    for (topic, partition), offset in offsets.items():
        if offset == refused:
            what = "earliest" if refused == EARLIEST else "latest"
            raise OptionError(
                f"option {option} gives {topic}-{partition} the offset {offset} ({what}), with "
                f"which nothing would be read: {advice}."
            )


def _offsets_by_partition(
    option: str, value: str, topics: ChosenTopics, advice: str, *, least: int = EARLIEST
) -> ByPartition:
    """Return the offsets, or times, of Spark's JSON by topic and partition.

    least: the lowest number that may be given.
    """
    try:
        numbers = {
            (topic, _partition(partition)): number
            for topic, by_partition in json.loads(value).items()
            for partition, number in by_partition.items()
        }
    except (ValueError, AttributeError):
        raise OptionError(f"option {option} is {value!r}: {advice}.") from None
    for (topic, partition), number in numbers.items():
        if not topics.includes(topic):
            raise OptionError(
                f"option {option} names topic {topic}, which {topics.name} does not: "
                "add it there or drop it here."
            )
        # In JSON, true is no number, and 1.7 is no offset.
        if type(number) is not int or not least <= number <= MAX_INT64:
            what = "time" if least == 0 else "offset"
            raise OptionError(
                f"option {option} gives {topic}-{partition} the {what} {json.dumps(number)}: "
                f"{advice}."
            )
    return numbers


def _partition(text: str) -> int:
    """Return the number of a partition, which Spark's JSON has as text; raise ValueError."""
    number = int(text)
    if str(number) != text or number < 0:  # "00" would be a second name of partition 0
        raise ValueError(text)
    return number
