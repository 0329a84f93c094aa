"""A micro-batch as a value, and its JSON in Spark's offset log.

A `Span` is the offset ranges of one batch: reading it again later, anywhere, gives the same rows.
It travels as the offset JSON of the Spark source in one canonical form: sorted keys, plain
integers, nothing that changes while no data does. This module knows no group and no clock.
"""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

from apportion.readable import MAX_QUOTED, shortened
from apportion.topics import TopicId, TopicIdPartition
from apportion.wire.uuids import uuid_text

FORMAT = 1
FORMAT_WITH_SINKS = 2
KEYS = {FORMAT: ("id", "topics", "v"), FORMAT_WITH_SINKS: ("id", "sinks", "topics", "v")}
STARTING = "starting"
UNCLAIMED = "nameless"
QUESTION_KEYS = ("asks", "id", UNCLAIMED, "sinks", "topics", "v")
MAX_DIGITS = 10  # of a partition, an int32


class SpanError(ValueError):
    """The JSON is not an offset of the apportion source; the text says where it is wrong."""


class Span(NamedTuple):
    """The offset ranges `[start, to)` that one batch reads, for every owned partition, in order.

    id: the checkpoint that the span belongs to; "" only in `EMPTY_SPAN`, before the first plan.
    sinks: the names of what its query writes to; () if they cannot be known; None in spans of an
    older format, and in questions that ask for them.
    question_number: 0, or the number of a question: a span that reads nothing, by which the query's
    writers are asked which sinks they are. If it names sinks, a writer of another sink refuses it.
    unclaimed: of a question, the partitions whose committed offset carries no sink's name. The
    offsets are not kept, as they may be set anew before the answer.
    starting: the partitions of which the sinks have no batch yet, as nothing before is to be read.
    """

    id: str
    ranges: Mapping[TopicIdPartition, tuple[int, int]]
    sinks: tuple[str, ...] | None = None
    question_number: int = 0
    unclaimed: tuple[TopicIdPartition, ...] = ()
    starting: tuple[TopicIdPartition, ...] = ()

    @property
    def asks_for_sinks(self) -> bool:
        """Return whether this is a question, and the checkpoint does not name the sinks."""
        return self.question_number > 0 and self.sinks is None

    def end_or_none(self, partition: TopicIdPartition) -> int | None:
        """Return the offset after the last one of the partition; None if it is not in the span."""
        offset_range = self.ranges.get(partition)
        return None if offset_range is None else offset_range[1]

    def end_offsets(self) -> dict[TopicIdPartition, int]:
        """Return, by partition, the offset at which the next batch begins."""
        return {partition: to for partition, (_, to) in self.ranges.items()}

    def requires_fence(self, partition: TopicIdPartition) -> bool:
        """Return whether the sinks must have what is below the start of the partition's range.

        A span of an older format does not say so: the fence alone decides.
        """
        is_known = self.sinks is not None or self.question_number > 0
        return is_known and partition not in self.starting and self.ranges[partition][0] > 0

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it, keys in canonical order.

        A topic name has one topic id.
        """
        topics: dict[str, dict[str, Any]] = {}
        # In canonical order: JSON keys are texts, so partition 10 comes before partition 2.
        for partition in sorted(self.ranges, key=lambda one: (one.topic, str(one.partition))):
            entry = topics.setdefault(
                partition.topic, {"id": uuid_text(partition.topic_id), "span": {}}
            )
            entry["span"][str(partition.partition)] = list(self.ranges[partition])
        if self.sinks is None and not self.question_number:
            return {"id": self.id, "topics": topics, "v": FORMAT}
        is_question = self.question_number > 0
        return {
            **({"asks": self.question_number} if is_question else {}),
            "id": self.id,
            **({UNCLAIMED: _partitions_json(self.unclaimed)} if is_question else {}),
            "sinks": None if self.sinks is None else list(self.sinks),
            **({STARTING: _partitions_json(self.starting)} if self.starting else {}),
            "topics": topics,
            "v": FORMAT_WITH_SINKS,
        }

    def canonical_json(self) -> str:
        """Return the canonical JSON text: equal spans give equal texts."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


EMPTY_SPAN = Span("", {})
"""The span before the first batch of a query: it has no partitions."""


def _partitions_json(partitions: tuple[TopicIdPartition, ...]) -> dict[str, dict[str, Any]]:
    """Return the partitions by topic, as a span's JSON has them."""
    by_topic: dict[str, dict[str, Any]] = {}
    for partition in sorted(partitions):
        by_topic.setdefault(
            partition.topic, {"id": uuid_text(partition.topic_id), "partitions": []}
        )["partitions"].append(partition.partition)
    return by_topic


def sorted_span(id: str, ranges: Mapping[TopicIdPartition, tuple[int, int]]) -> Span:
    """Return the span of these ranges, in order of partition."""
    return Span(id, {partition: ranges[partition] for partition in sorted(ranges)})


def topic_id_bytes(text: str) -> TopicId:
    """Return the 16 bytes of a topic id in a span's JSON. Raises SpanError if it is none."""
    try:
        raw = urlsafe_b64decode(text + "==")
    except ValueError:
        raw = b""
    # Encoded once more to compare: base64 decodes several texts to the same bytes, and two spans
    # would differ in text only.
    if len(raw) != 16 or uuid_text(raw) != text:
        raise SpanError(f"{text!r} is not a topic id (22 characters of base64)")
    return raw


def parse_span(offset: Any) -> Span:
    """Return the span of an offset in a Spark checkpoint. Raises SpanError.

    offset: a dict, or its JSON text, as `Span.to_json` returns it, in any format so far.
    """
    if isinstance(offset, str | bytes):
        try:
            offset = json.loads(offset)
        except ValueError as error:
            raise SpanError(f"an offset must be JSON: {error}") from None
    version = _require_object(offset, "the offset").get("v", FORMAT)
    # in Python True equals 1
    if version not in (FORMAT, FORMAT_WITH_SINKS) or isinstance(version, bool):
        raise SpanError(
            f"this offset has format {version!r}; this version reads formats {FORMAT} and "
            f"{FORMAT_WITH_SINKS}: "
            "was it written by a later one?"
        )
    # a question has its number, and null instead of sinks unless it names those of the checkpoint
    is_question = version == FORMAT_WITH_SINKS and (
        offset.get("sinks", ()) is None or "asks" in offset
    )
    # A batch of an older version may have UNCLAIMED. Such a partition is not STARTING here.
    optional = {STARTING} if is_question else {STARTING, UNCLAIMED}
    _require_keys(
        {key: offset[key] for key in offset if version == FORMAT or key not in optional},
        "the offset",
        QUESTION_KEYS if is_question else KEYS[version],
    )
    if not isinstance(offset["id"], str):
        raise SpanError(f"the offset's id must be a string, not {offset['id']!r}")
    topics = _require_object(offset["topics"], "topics")
    ranges: dict[TopicIdPartition, tuple[int, int]] = {}
    for topic, entry in topics.items():
        topic_id = _parse_topic_id(topic, entry, "span")
        for number, offset_range in _require_object(
            entry["span"], f"the offset ranges of topic {topic!r}"
        ).items():
            ranges[TopicIdPartition(topic, topic_id, _parse_partition(topic, number))] = (
                _parse_range(topic, number, offset_range)
            )
    span = sorted_span(offset["id"], ranges)
    if version == FORMAT:
        return span
    span = span._replace(starting=_parse_partitions(STARTING, offset.get(STARTING, {})))
    if is_question:
        return span._replace(
            sinks=None if offset["sinks"] is None else _parse_sinks(offset["sinks"]),
            question_number=_parse_question_number(offset["asks"]),
            unclaimed=_parse_partitions(UNCLAIMED, offset[UNCLAIMED]),
        )
    return span._replace(sinks=_parse_sinks(offset["sinks"]))


def _parse_topic_id(topic: str, entry: Any, what: str) -> TopicId:
    """Return the topic id of an entry in a span's JSON; raise SpanError if it is none.

    what: the entry's other key.
    """
    _require_keys(entry, f"topic {topic!r}", ("id", what))
    if not isinstance(entry["id"], str):
        raise SpanError(f"the id of topic {topic!r} must be a string, not {entry['id']!r}")
    return topic_id_bytes(entry["id"])


def _parse_sinks(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise SpanError(f"the sinks must be a JSON array of strings or null, not {value!r}")
    return tuple(value)


def _parse_question_number(value: Any) -> int:
    if type(value) is not int or value <= 0:
        raise SpanError(f"the number of a question must be an integer from 1 on, not {value!r}")
    return value


def _parse_partitions(key: str, value: Any) -> tuple[TopicIdPartition, ...]:
    """Return the partitions that a span's JSON has under this key."""
    partitions = []
    for topic, entry in _require_object(value, key).items():
        topic_id, numbers = _parse_topic_id(topic, entry, "partitions"), entry["partitions"]
        if not isinstance(numbers, list | tuple) or not all(
            type(number) is int and number >= 0 for number in numbers
        ):
            raise SpanError(
                f"the partitions of topic {topic!r} must be a JSON array of integers from "
                f"0 on, not {numbers!r}"
            )
        partitions += [TopicIdPartition(topic, topic_id, number) for number in numbers]
    return tuple(sorted(partitions))


def _require_object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SpanError(f"{what} must be a JSON object, not {value!r}")
    return value


def _require_keys(value: Any, what: str, keys: tuple[str, ...]) -> None:
    """Check that a JSON object in a Spark checkpoint's offset has exactly these keys.

    keys: sorted.
    """
    if tuple(sorted(_require_object(value, what))) != keys:
        raise SpanError(
            f"{what} must have exactly the keys {', '.join(keys)}, not "
            f"{', '.join(sorted(value)) or 'none'}"
        )


def _parse_partition(topic: str, number: str) -> int:
    # Longer texts are no partition of Kafka's, and int() takes only so many digits.
    is_number = len(number) <= MAX_DIGITS and number.isascii() and number.isdigit()
    if not is_number or str(int(number)) != number:
        raise SpanError(f"{shortened(number, MAX_QUOTED)!r} is not a partition of topic {topic!r}")
    return int(number)


def _parse_range(topic: str, number: str, offset_range: Any) -> tuple[int, int]:
    """Return a partition's range of a span's JSON; raise SpanError if it is none."""
    is_pair = (
        isinstance(offset_range, list | tuple)
        and len(offset_range) == 2
        and all(type(bound) is int for bound in offset_range)
    )
    if not is_pair or not 0 <= offset_range[0] <= offset_range[1]:
        raise SpanError(
            f"partition {number} of topic {topic!r} must have a range [from, to] with 0 <= from "
            f"<= to, not {offset_range!r}"
        )
    return offset_range[0], offset_range[1]
