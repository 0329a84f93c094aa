"""A batch as a value: which offsets of which partitions it reads, and the one rule that admits it to a sink.

A `Span` is everything that a batch is: replaying it later, anywhere, reads the same rows. It travels as the offset JSON of
the Spark source, in one canonical form: sorted keys, plain integers, nothing that changes while no data does.
`admit_range` is the fence that every exactly-once sink and the simulator share. This module knows no group and no clock.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from apportion.topics import TopicId, TopicIdPartition

FORMAT = 1
FORMAT_WITH_SINKS = 2
KEYS = {FORMAT: ("id", "topics", "v"), FORMAT_WITH_SINKS: ("id", "sinks", "topics", "v")}
DOUBTED_KEYS = ("id", "nameless", "sinks", "topics", "v")
QUESTION_KEYS = ("asks", "id", "nameless", "sinks", "topics", "v")


class SpanError(ValueError):
    """This JSON is not the offset of an apportion source; the message says where."""


class LostOffsets(ValueError):
    """Offsets between a sink's fence and the span that should continue it were never written.

    fence: None where the sink has none, and the group's offset, at which the span starts, did not come from the sink.
    """

    def __init__(self, place: TopicIdPartition, fence: int | None, start: int, why: str = "") -> None:
        if fence is None:
            what = f"{place}: the sink has nothing of it, but the batch starts at {start}, which did not come from the sink"
        else:
            what = f"{place}: the sink has everything below offset {fence}, but the batch starts at {start}: {start - fence} lost"
        super().__init__(f"{what}. {why}" if why else what)
        self.partition, self.fence, self.start = place, fence, start


class Span(NamedTuple):
    """The offsets `[start, to)` of every owned partition, in the order of their places.

    id: the checkpoint that this span belongs to; "" only in `EMPTY_SPAN`, before the first plan.
    sinks: the names of what its query writes to, () if they cannot be known; None in spans of before and where it `asks`.
    asks: 0, or the number of a question: such a span reads nothing and is there so that the query's writers say which sinks they
    are. nameless: of a question, the partitions of which the group has an offset that bears no sink's name. Where these offsets
    are is not kept, since they may be set anew before the question is answered. Of another span, the partitions that start at such
    an offset, which may pass over records: only the sink's fence can say whether they are written.
    """

    id: str
    ranges: Mapping[TopicIdPartition, tuple[int, int]]
    sinks: tuple[str, ...] | None = None
    question_number: int = 0
    unclaimed: tuple[TopicIdPartition, ...] = ()

    def end_or_none(self, place: TopicIdPartition) -> int | None:
        """The offset after the last one of `place`; None if the span does not own it."""
        bounds = self.ranges.get(place)
        return None if bounds is None else bounds[1]

    def end_offsets(self) -> dict[TopicIdPartition, int]:
        """Where every owned partition stands when this span has been written."""
        return {place: to for place, (_, to) in self.ranges.items()}

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it, keys in canonical order. One topic name stands for one topic id."""
        topics: dict[str, dict[str, Any]] = {}
        for place in sorted(self.ranges, key=lambda place: (place.topic, str(place.partition))):
            entry = topics.setdefault(place.topic, {"id": topic_id_text(place.topic_id), "span": {}})
            entry["span"][str(place.partition)] = list(self.ranges[place])
        if self.sinks is None and not self.question_number:
            return {"id": self.id, "topics": topics, "v": FORMAT}
        named = {"id": self.id, "sinks": None if self.sinks is None else list(self.sinks), "topics": topics, "v": FORMAT_WITH_SINKS}
        if not self.question_number and not self.unclaimed:
            return named
        nameless: dict[str, dict[str, Any]] = {}
        for place in sorted(self.unclaimed):
            nameless.setdefault(place.topic, {"id": topic_id_text(place.topic_id), "partitions": []})["partitions"].append(
                place.partition
            )
        return {**({"asks": self.question_number} if self.question_number else {}), "id": self.id, "nameless": nameless, **named}

    def canonical_json(self) -> str:
        """The canonical JSON text: equal spans give equal texts."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


EMPTY_SPAN = Span("", {})
"""Where every query starts: owns nothing, has read nothing."""


def sorted_span(id: str, ranges: Mapping[TopicIdPartition, tuple[int, int]]) -> Span:
    """The span of these ranges, in the order of their places."""
    return Span(id, {place: ranges[place] for place in sorted(ranges)})


def topic_id_text(topic_id: TopicId) -> str:
    """A topic id as Kafka's tools print it: 22 characters of base64."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def topic_id_bytes(text: str) -> TopicId:
    """The 16 bytes of a topic id; SpanError if `text` is not one."""
    try:
        raw = urlsafe_b64decode(text + "==")
    except ValueError:
        raw = b""
    if len(raw) != 16 or topic_id_text(raw) != text:
        raise SpanError(f"{text!r} is not a topic id (22 characters of base64)")
    return raw


def parse_span(offset: Any) -> Span:
    """The span that `offset` says, a dict or its JSON text; SpanError says what is wrong and where."""
    if isinstance(offset, str | bytes):
        try:
            offset = json.loads(offset)
        except ValueError as error:
            raise SpanError(f"an offset must be JSON: {error}") from None
    version = _mapping(offset, "the offset").get("v", FORMAT)
    if version not in (FORMAT, FORMAT_WITH_SINKS) or isinstance(version, bool):
        raise SpanError(
            f"this offset has format {version!r}; this version reads formats {FORMAT} and {FORMAT_WITH_SINKS}: "
            f"was it written by a later one?"
        )
    is_question = version == FORMAT_WITH_SINKS and offset.get("sinks", ()) is None
    is_doubted = version == FORMAT_WITH_SINKS and not is_question and "nameless" in offset
    _keys(offset, "the offset", QUESTION_KEYS if is_question else DOUBTED_KEYS if is_doubted else KEYS[version])
    if not isinstance(offset["id"], str):
        raise SpanError(f"the offset's id must be a string, not {offset['id']!r}")
    topics = _mapping(offset["topics"], "topics")
    ranges: dict[TopicIdPartition, tuple[int, int]] = {}
    for topic, entry in topics.items():
        topic_id = _entry_id(topic, entry, "span")
        for number, bounds in _mapping(entry["span"], f"the span of topic {topic!r}").items():
            ranges[TopicIdPartition(topic, topic_id, _partition(topic, number))] = _bounds(topic, number, bounds)
    found = sorted_span(offset["id"], ranges)
    if is_question:
        return found._replace(question_number=_number(offset["asks"]), unclaimed=_nameless(offset["nameless"]))
    if is_doubted:
        return found._replace(sinks=_sinks(offset["sinks"]), unclaimed=_nameless(offset["nameless"]))
    return found if version == FORMAT else found._replace(sinks=_sinks(offset["sinks"]))


def _entry_id(topic: str, entry: Any, what: str) -> TopicId:
    _keys(entry, f"topic {topic!r}", ("id", what))
    if not isinstance(entry["id"], str):
        raise SpanError(f"the id of topic {topic!r} must be a string, not {entry['id']!r}")
    return topic_id_bytes(entry["id"])


def _sinks(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise SpanError(f"the sinks must be a JSON array of strings or null, not {value!r}")
    return tuple(value)


def _number(value: Any) -> int:
    if type(value) is not int or value <= 0:
        raise SpanError(f"the number of a question must be an integer from 1 on, not {value!r}")
    return value


def _nameless(value: Any) -> tuple[TopicIdPartition, ...]:
    places = []
    for topic, entry in _mapping(value, "nameless").items():
        topic_id, partitions = _entry_id(topic, entry, "partitions"), entry["partitions"]
        if not isinstance(partitions, list | tuple) or not all(type(number) is int and number >= 0 for number in partitions):
            raise SpanError(f"the partitions of topic {topic!r} must be a JSON array of integers from 0 on, not {partitions!r}")
        places += [TopicIdPartition(topic, topic_id, number) for number in partitions]
    return tuple(sorted(places))


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SpanError(f"{what} must be a JSON object, not {value!r}")
    return value


def _keys(value: Any, what: str, keys: tuple[str, ...]) -> None:
    if tuple(sorted(_mapping(value, what))) != keys:
        raise SpanError(f"{what} must have exactly the keys {', '.join(keys)}, not {', '.join(sorted(value)) or 'none'}")


def _partition(topic: str, number: str) -> int:
    if not number.isascii() or not number.isdigit() or str(int(number)) != number:
        raise SpanError(f"{number!r} is not a partition of topic {topic!r}")
    return int(number)


def _bounds(topic: str, number: str, bounds: Any) -> tuple[int, int]:
    plain = isinstance(bounds, list | tuple) and len(bounds) == 2 and all(type(bound) is int for bound in bounds)
    if not plain or not 0 <= bounds[0] <= bounds[1]:
        raise SpanError(f"partition {number} of topic {topic!r} must span [from, to] with 0 <= from <= to, not {bounds!r}")
    return bounds[0], bounds[1]


class RangeAdmission(NamedTuple):
    """What a sink may write of one partition's range: the rows at and above `lower` and below `to`.

    fence: what the sink's fence must say in the same transaction; None where it stays as it is.
    """

    lower: int
    to: int
    fence: int | None


def lowest_admitted(start: int, fence: int) -> int:
    """Where a range begins to be news to a sink: nothing below its fence."""
    return max(start, fence)


def admit_range(
    place: TopicIdPartition,
    bounds: tuple[int, int],
    fence: int | None,
    *,
    is_unclaimed: bool = False,
    fail_on_data_loss: bool = True,
) -> RangeAdmission:
    """Each offset is admitted once, whoever comes first and however often: rows below the fence are already in the sink.

    fence: the sink's next offset for this partition; None if it has none yet: then everything is admitted, but for a range that
    starts at an offset of which nothing says that it came from this sink (is_unclaimed).
    The fence is set with the first range, rows or none, to its end; later it moves to the end of whatever ends above it, and never
    back. So it says from where on a later range would leave records out.
    Raises LostOffsets if the range starts above the fence, unless data loss was allowed.
    """
    start, to = bounds
    if fence is None:
        if is_unclaimed and fail_on_data_loss:
            raise LostOffsets(place, None, start)
        return RangeAdmission(start, to, to)
    if start > fence and fail_on_data_loss:
        raise LostOffsets(place, fence, start)
    return RangeAdmission(min(lowest_admitted(start, fence), to), to, to if to > fence else None)


def admit(
    batch: Span, fences: Mapping[TopicIdPartition, int], *, fail_on_data_loss: bool = True
) -> dict[TopicIdPartition, RangeAdmission]:
    """`admit_range` for every partition of the batch. A sink keeps a row when its offset is at or above its `lower`."""
    return {
        place: admit_range(
            place, bounds, fences.get(place), is_unclaimed=place in batch.unclaimed, fail_on_data_loss=fail_on_data_loss
        )
        for place, bounds in batch.ranges.items()
    }


def advance(
    fences: Mapping[TopicIdPartition, int], admitted: Mapping[TopicIdPartition, RangeAdmission]
) -> dict[TopicIdPartition, int]:
    """The fences after the transaction that wrote what was admitted."""
    moved = {place: admission.fence for place, admission in admitted.items() if admission.fence is not None}
    return {**fences, **moved}
