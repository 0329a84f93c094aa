"""The options that say where a read begins and ends, as Spark's own Kafka source has them.

Their errors are ValueErrors: a sentence that follows the word "option".
"""

import json
from collections.abc import Mapping

from apportion.member.batch.plan import StartingOffsets
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

COMMITTED = "committed"
STREAM_START = (
    'give earliest, latest, or JSON such as {"flights":{"0":23,"1":-2}} (-2 earliest, -1 latest)'
)
BATCH_START = (
    "give earliest, committed (with kafka.group.id), or JSON such as "
    '{"flights":{"0":23,"1":-2}} (-2 earliest)'
)
BATCH_END = 'give latest, or JSON such as {"flights":{"0":23,"1":-1}} (-1 latest)'


def starting_offsets(value: str, topics: tuple[str, ...]) -> StartingOffsets:
    """Return startingOffsets of a stream: earliest, latest, or Spark's JSON.

    In JSON, -2 is earliest and -1 latest. Partitions that it leaves out start at the earliest.
    """
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return StartingOffsets(EARLIEST if word == "earliest" else LATEST)
    if word == COMMITTED:
        raise ValueError(
            "startingOffsets is committed: that is for batch reads; a stream always begins at "
            "the group's committed offsets, and elsewhere only where there is none"
        )
    return StartingOffsets(
        EARLIEST, _offsets_by_partition("startingOffsets", value, topics, STREAM_START)
    )


def batch_starting_offsets(value: str, topics: tuple[str, ...]) -> StartingOffsets:
    """Return startingOffsets of a batch read: earliest, committed (as earliest), or JSON."""
    word = value.strip().lower()
    if word in ("earliest", COMMITTED):
        return StartingOffsets(EARLIEST)
    if word == "latest":
        raise ValueError(
            f"startingOffsets is latest: a batch read ends there and would be empty; {BATCH_START}"
        )
    offsets = _offsets_by_partition("startingOffsets", value, topics, BATCH_START)
    _refuse_special("startingOffsets", offsets, LATEST, BATCH_START)
    return StartingOffsets(EARLIEST, offsets)


def batch_ending_offsets(value: str, topics: tuple[str, ...]) -> dict[tuple[str, int], int]:
    """Return endingOffsets of a batch read by topic and partition; empty for latest."""
    if value.strip().lower() == "latest":
        return {}
    offsets = _offsets_by_partition("endingOffsets", value, topics, BATCH_END)
    _refuse_special("endingOffsets", offsets, EARLIEST, BATCH_END)
    return offsets


def _refuse_special(
    option: str, offsets: Mapping[tuple[str, int], int], refused: int, advice: str
) -> None:
    """Raise ValueError for a partition that has EARLIEST or LATEST where it says nothing."""
    for (topic, partition), offset in offsets.items():
        if offset == refused:
            what = "earliest" if refused == EARLIEST else "latest"
            raise ValueError(
                f"{option} gives {topic}-{partition} the offset {offset} ({what}), with which "
                f"nothing would be read: {advice}"
            )


def _offsets_by_partition(
    option: str, value: str, topics: tuple[str, ...], advice: str
) -> dict[tuple[str, int], int]:
    """Return the offsets of Spark's JSON by topic and partition."""
    try:
        offsets = {
            (topic, int(partition)): int(offset)
            for topic, by_partition in json.loads(value).items()
            for partition, offset in by_partition.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"{option} is {value!r}: {advice}") from None
    for (topic, partition), offset in offsets.items():
        if topic not in topics:
            raise ValueError(
                f"{option} names topic {topic}, which subscribe does not: "
                "add it there or drop it here"
            )
        if offset < EARLIEST or partition < 0:
            raise ValueError(f"{option} gives {topic}-{partition} the offset {offset}: {advice}")
    return offsets
