"""Records that are deleted, rightly and wrongly, and what is read of `good` then; to be played
after all that reads it whole.
"""

from collections.abc import Iterator
from typing import Any

from tests.kafka.differential.wrong import (
    GOOD,
    NO_TOPIC,
    OFFSETS_TOPIC,
    WAIT_MS,
    Case,
    asking,
    batch,
    offsets_at,
    produce,
)


def trims() -> Iterator[Case]:
    """DeleteRecords, and what is read where they were."""

    def trim(*wanted: tuple[str, int, int]) -> Any:
        topics = [
            {"name": name, "partitions": [{"partition_index": index, "offset": offset}]}
            for name, index, offset in wanted
        ]
        return asking("DeleteRecords", topics=topics, timeout_ms=WAIT_MS)

    yield Case("produce what is trimmed", 12, produce(batch(6)))
    yield Case("trim nothing", 2, trim())
    for name in (NO_TOPIC, "bad name", "", OFFSETS_TOPIC, "compact", "compact-delete"):
        yield Case(f"trim {name!r}", 2, trim((name, 0, 0)))
    for index in (99, -1, 1):
        yield Case(f"trim partition {index}", 2, trim((GOOD, index, 0)))
    for offset in (10**9, -2, -(2**63), 2**63 - 1):
        yield Case(f"trim to {offset}", 2, trim((GOOD, 0, offset)))
    yield Case("trim compacted records to a wrong offset", 2, trim(("compact", 0, 10**9)))
    yield Case("trim an empty partition", 2, trim(("compact-delete", 0, -1)))
    for version, offset in ((0, 0), (1, 1), (2, 1), (2, 0)):
        yield Case(f"trim to {offset}", version, trim((GOOD, 0, offset)))
    yield Case("trim one partition twice, on", 2, trim((GOOD, 0, 2), (GOOD, 0, 3)))
    yield Case("trim one partition twice, back", 2, trim((GOOD, 0, 4), (GOOD, 0, 3)))
    yield Case("trim one good and one bad", 2, trim((GOOD, 0, 5), (NO_TOPIC, 0, 0)))
    for timestamp in (-2, -3, -4, 0):
        yield Case(f"offsets at {timestamp} of what was trimmed", 8, offsets_at(timestamp))
    for offset in (0, 4, 5):
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000}
        topics = [{"topic": GOOD, "partitions": [part]}]
        request = asking("Fetch", max_wait_ms=10, min_bytes=1, topics=topics)
        yield Case(f"fetch {offset} of what was trimmed", 12, request)
    yield Case("trim all", 2, trim((GOOD, 0, -1)))
    yield Case("trim all again", 2, trim((GOOD, 0, -1)))
    for timestamp in (-1, -2, -3, 0):
        yield Case(f"offsets at {timestamp} of what is empty again", 8, offsets_at(timestamp))
    yield Case("produce behind what was trimmed", 12, produce(batch()))


TRIM_CASES = [*trims()]
