"""A batch as a value: which offsets of which partitions it reads, and the one rule that admits it to a sink.

A `Span` is everything that a batch is: replaying it later, anywhere, reads the same rows. It travels as the offset JSON of
the Spark source, in one canonical form: sorted keys, plain integers, nothing that changes while no data does.
`admit_range` is the fence that every exactly-once sink and the simulator share. This module knows no group and no clock.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from apportion.topics import TopicId

FORMAT = 1


class Place(NamedTuple):
    """One partition of one topic, named as people and as the wire do. A topic made again under its name is another place."""

    topic: str
    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SpanError(ValueError):
    """This JSON is not the offset of an apportion source; the message says where."""


class LostOffsets(ValueError):
    """Offsets between a sink's fence and the span that should continue it were never written."""

    def __init__(self, place: Place, fence: int, start: int) -> None:
        super().__init__(
            f"{place}: the sink has everything below offset {fence}, but the batch starts at {start}: {start - fence} lost. "
            f"All queries of a group must write to one sink; if the records are gone for good, let the sink allow data loss"
        )
        self.place, self.fence, self.start = place, fence, start


class Span(NamedTuple):
    """The offsets `[start, to)` of every owned partition, in the order of their places.

    id: the checkpoint that this span belongs to; "" only in `NOTHING`, before the first plan.
    """

    id: str
    ranges: Mapping[Place, tuple[int, int]]

    def to_or_none(self, place: Place) -> int | None:
        """The offset after the last one of `place`; None if the span does not own it."""
        bounds = self.ranges.get(place)
        return None if bounds is None else bounds[1]

    def resting(self) -> dict[Place, int]:
        """Where every owned partition stands when this span has been written."""
        return {place: to for place, (_, to) in self.ranges.items()}

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it, keys in canonical order. One topic name stands for one topic id."""
        topics: dict[str, dict[str, Any]] = {}
        for place in sorted(self.ranges, key=lambda place: (place.topic, str(place.partition))):
            entry = topics.setdefault(place.topic, {"id": id_text(place.topic_id), "span": {}})
            entry["span"][str(place.partition)] = list(self.ranges[place])
        return {"id": self.id, "topics": topics, "v": FORMAT}

    def text(self) -> str:
        """The canonical JSON text: equal spans give equal texts."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


NOTHING = Span("", {})
"""Where every query starts: owns nothing, has read nothing."""


def span(id: str, ranges: Mapping[Place, tuple[int, int]]) -> Span:
    """The span of these ranges, in the order of their places."""
    return Span(id, {place: ranges[place] for place in sorted(ranges)})


def id_text(topic_id: TopicId) -> str:
    """A topic id as Kafka's tools print it: 22 characters of base64."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def id_bytes(text: str) -> TopicId:
    """The 16 bytes of a topic id; SpanError if `text` is not one."""
    try:
        raw = urlsafe_b64decode(text + "==")
    except ValueError:
        raw = b""
    if len(raw) != 16 or id_text(raw) != text:
        raise SpanError(f"{text!r} is not a topic id (22 characters of base64)")
    return raw


def parse(offset: Any) -> Span:
    """The span that `offset` says, a dict or its JSON text; SpanError says what is wrong and where."""
    if isinstance(offset, str | bytes):
        try:
            offset = json.loads(offset)
        except ValueError as error:
            raise SpanError(f"an offset must be JSON: {error}") from None
    _keys(offset, "the offset", ("id", "topics", "v"))
    if offset["v"] != FORMAT or isinstance(offset["v"], bool):
        raise SpanError(
            f"this offset has format {offset['v']!r}; this version reads format {FORMAT}: was it written by a later one?"
        )
    if not isinstance(offset["id"], str):
        raise SpanError(f"the offset's id must be a string, not {offset['id']!r}")
    topics = _mapping(offset["topics"], "topics")
    ranges: dict[Place, tuple[int, int]] = {}
    for topic, entry in topics.items():
        _keys(entry, f"topic {topic!r}", ("id", "span"))
        if not isinstance(entry["id"], str):
            raise SpanError(f"the id of topic {topic!r} must be a string, not {entry['id']!r}")
        topic_id = id_bytes(entry["id"])
        for number, bounds in _mapping(entry["span"], f"the span of topic {topic!r}").items():
            ranges[Place(topic, topic_id, _partition(topic, number))] = _bounds(topic, number, bounds)
    return span(offset["id"], ranges)


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


class Admission(NamedTuple):
    """What a sink may write of one partition's range: the rows at and above `lower` and below `to`.

    fence: what the sink's fence must say in the same transaction; None where it stays as it is.
    """

    lower: int
    to: int
    fence: int | None


def lowest_admitted(start: int, fence: int) -> int:
    """Where a range begins to be news to a sink: nothing below its fence."""
    return max(start, fence)


def admit_range(place: Place, bounds: tuple[int, int], fence: int | None, *, fail_on_data_loss: bool = True) -> Admission:
    """Each offset is admitted once, whoever comes first and however often: rows below the fence are already in the sink.

    fence: the sink's next offset for this partition; None if it never wrote one: then everything is admitted.
    The fence moves to the range's end whenever that is above it, rows or none, and never back.
    Raises LostOffsets if the range starts above a present fence, unless data loss was allowed.
    """
    start, to = bounds
    if fence is None:
        return Admission(start, to, to if to > start else None)
    if start > fence and fail_on_data_loss:
        raise LostOffsets(place, fence, start)
    return Admission(min(lowest_admitted(start, fence), to), to, to if to > fence else None)


def admit(batch: Span, fences: Mapping[Place, int], *, fail_on_data_loss: bool = True) -> dict[Place, Admission]:
    """`admit_range` for every partition of the batch. A sink keeps a row when its offset is at or above its `lower`."""
    return {
        place: admit_range(place, bounds, fences.get(place), fail_on_data_loss=fail_on_data_loss)
        for place, bounds in batch.ranges.items()
    }


def advance(fences: Mapping[Place, int], admitted: Mapping[Place, Admission]) -> dict[Place, int]:
    """The fences after the transaction that wrote what was admitted."""
    moved = {place: admission.fence for place, admission in admitted.items() if admission.fence is not None}
    return {**fences, **moved}
