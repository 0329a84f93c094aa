"""The option startingOffsets of the Spark source, as Spark's own Kafka source has it."""

import json

from apportion.member.batch.plan import StartingOffsets
from apportion.wire.messages.list_offsets import EARLIEST, LATEST


def starting_offsets(value: str, topics: tuple[str, ...]) -> StartingOffsets:
    """Parse startingOffsets: earliest, latest, or Spark's JSON by topic and partition.

    In JSON, -2 is earliest and -1 latest. Partitions that it leaves out start at the earliest.
    Raises ValueError, in a sentence.
    """
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return StartingOffsets(EARLIEST if word == "earliest" else LATEST)
    advice = (
        'give earliest, latest, or JSON such as {"flights":{"0":23,"1":-2}} (-2 earliest, -1 '
        "latest)"
    )
    try:
        parsed = json.loads(value)
        offsets_by_partition = {
            (topic, int(partition)): int(offset)
            for topic, offsets in parsed.items()
            for partition, offset in offsets.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"startingOffsets is {value!r}: {advice}") from None
    for (topic, partition), offset in offsets_by_partition.items():
        if topic not in topics:
            raise ValueError(
                f"startingOffsets names topic {topic}, which subscribe does not: "
                "add it there or drop it here"
            )
        if offset < EARLIEST or partition < 0:
            raise ValueError(
                f"startingOffsets gives {topic}-{partition} the offset {offset}: {advice}"
            )
    return StartingOffsets(EARLIEST, offsets_by_partition)
