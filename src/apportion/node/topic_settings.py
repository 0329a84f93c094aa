"""The settings that a topic may have, and the values that each may take; not their effects."""

from collections.abc import Mapping
from re import fullmatch

from apportion.errors import Code, Refused
from apportion.node.settings import TIMESTAMP_TYPES
from apportion.settings import MAX_INT32, MAX_INT64, nearest_or_none

# Kafka's bounds, so that a program that creates its topics here is able to do so there.
MINIMUMS = {  # settings that are whole numbers -> Kafka's minimum
    "delete.retention.ms": 0,
    "file.delete.delay.ms": 0,
    "flush.messages": 1,
    "flush.ms": 0,
    "index.interval.bytes": 0,
    "max.message.bytes": 0,
    "message.timestamp.after.max.ms": 0,
    "message.timestamp.before.max.ms": 0,
    "min.compaction.lag.ms": 0,
    "min.insync.replicas": 1,
    "retention.bytes": -(2**63),
    "retention.ms": -1,
    "segment.bytes": 1_048_576,
    "segment.index.bytes": 4,
    "segment.jitter.ms": 0,
    "segment.ms": 1,
}
INT32 = (
    "index.interval.bytes",
    "max.message.bytes",
    "min.insync.replicas",
    "segment.bytes",
    "segment.index.bytes",
)
BOOLEAN = ("false", "true")
CHOICES = {  # settings that are words -> the values they may have
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("gzip", "lz4", "producer", "snappy", "uncompressed", "zstd"),
    "message.timestamp.type": TIMESTAMP_TYPES,
    "preallocate": BOOLEAN,
    "unclean.leader.election.enable": BOOLEAN,
}
RATIOS = ("min.cleanable.dirty.ratio",)
# settings that have no effect here -> Kafka's default, which asks for nothing, its type, and what
# is missing
UNSUPPORTED = {
    "compression.gzip.level": ("-1", 3, "levels of compression"),
    "compression.lz4.level": ("9", 3, "levels of compression"),
    "compression.zstd.level": ("3", 3, "levels of compression"),
    "follower.replication.throttled.replicas": ("", 7, "replication, for there is one broker"),
    "leader.replication.throttled.replicas": ("", 7, "replication, for there is one broker"),
    "local.retention.bytes": ("-2", 5, "tiered storage"),
    "local.retention.ms": ("-2", 5, "tiered storage"),
    "max.compaction.lag.ms": (str(MAX_INT64), 5, "compaction of topics"),
    "remote.log.copy.disable": ("false", 1, "tiered storage"),
    "remote.log.delete.on.disable": ("false", 1, "tiered storage"),
    "remote.storage.enable": ("false", 1, "tiered storage"),
}
MAX_QUOTED = 80  # characters of a wrong value in an error message


def check_settings(settings: Mapping[str, str | None]) -> None:
    """Refuse a topic's settings that are unknown, have no or a wrong value, or no effect here.

    For CreateTopics.

    Errors: INVALID_CONFIG.
    """
    for name, value in settings.items():
        if (
            name not in MINIMUMS
            and name not in CHOICES
            and name not in RATIOS
            and name not in UNSUPPORTED
        ):
            near = nearest_or_none(name[:MAX_QUOTED], [*MINIMUMS, *CHOICES, *RATIOS, *UNSUPPORTED])
            hint = f"; did you mean {near}?" if near else ""
            raise Refused(Code.INVALID_CONFIG, f"a topic has no setting {name[:MAX_QUOTED]}{hint}")
        if value is None:
            raise Refused(Code.INVALID_CONFIG, f"{name} has no value")
        if name in UNSUPPORTED:
            _check_unsupported(name, value)
            continue
        expected = _expected_or_none(name, value)
        if expected is not None:
            raise Refused(Code.INVALID_CONFIG, f"{name} is {expected}, not {value[:MAX_QUOTED]!r}")


def _check_unsupported(name: str, value: str) -> None:
    """Refuse a topic's setting that this broker does not implement, unless it has Kafka's default.

    Errors: INVALID_CONFIG, naming the missing feature.
    """
    default, _type, missing = UNSUPPORTED[name]
    if value.strip() != default:
        expected = f"its default, {default}" if default else "empty"
        raise Refused(
            Code.INVALID_CONFIG, f"{name} has to be {expected}: {missing} is not there yet"
        )


def _expected_or_none(name: str, value: str) -> str | None:
    """Return in words what the values of a topic's setting are; None if `value` is one of them."""
    if name in MINIMUMS:
        maximum = MAX_INT32 if name in INT32 else MAX_INT64
        is_valid = (
            fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", value) is not None
            and MINIMUMS[name] <= int(value) <= maximum
        )
        return None if is_valid else f"a whole number from {MINIMUMS[name]} to {maximum}"
    if name in RATIOS:
        return None if _is_ratio(value) else "a number from 0 to 1"
    if name == "cleanup.policy":  # may be empty, as in Kafka: then nothing is ever deleted
        words = [word.strip() for word in value.split(",")] if value.strip() else []
    else:
        words = [value.lower() if CHOICES[name] == BOOLEAN else value]
    return (
        None
        if all(word in CHOICES[name] for word in words)
        else f"one of {', '.join(CHOICES[name])}"
    )


def config_type(name: str) -> int:
    """Return the type of a topic's setting in Kafka's numbers, for DescribeConfigs.

    1 true or false, 2 word, 3 int32, 5 int64, 6 float64, 7 list.
    """
    if name in MINIMUMS:
        return 3 if name in INT32 else 5
    if name in UNSUPPORTED:
        return UNSUPPORTED[name][1]
    if name in RATIOS:
        return 6
    if name == "cleanup.policy":
        return 7
    return 1 if CHOICES[name] == BOOLEAN else 2


def _is_ratio(text: str) -> bool:
    """Return whether a topic setting, such as min.cleanable.dirty.ratio, is from 0 to 1."""
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
