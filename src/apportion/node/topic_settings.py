"""Which values the settings of a topic may have. It refuses to know what they do."""

from collections.abc import Mapping
from re import fullmatch

from apportion.errors import Code, Refused

AT_LEAST = {  # settings that are whole numbers -> the smallest that Kafka takes
    "delete.retention.ms": 0,
    "file.delete.delay.ms": 0,
    "flush.messages": 1,
    "flush.ms": 0,
    "index.interval.bytes": 0,
    "max.compaction.lag.ms": 1,
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
INT32 = ("index.interval.bytes", "max.message.bytes", "min.insync.replicas", "segment.bytes", "segment.index.bytes")
WORDS = {  # settings that are words -> those there are
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("gzip", "lz4", "producer", "snappy", "uncompressed", "zstd"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "preallocate": ("false", "true"),
    "unclean.leader.election.enable": ("false", "true"),
}
RATIOS = ("min.cleanable.dirty.ratio",)
SHOWN = 80  # how much of a wrong word is said back


def check_settings(given: Mapping[str, str | None]) -> None:
    """INVALID_CONFIG for a setting that topics do not have, that has no value, or one that it cannot have."""
    for name, value in given.items():
        if name not in AT_LEAST and name not in WORDS and name not in RATIOS:
            raise Refused(Code.INVALID_CONFIG, f"a topic has no setting {name[:SHOWN]}")
        if value is None:
            raise Refused(Code.INVALID_CONFIG, f"{name} has no value")
        wanted = _wanted_or_none(name, value)
        if wanted is not None:
            raise Refused(Code.INVALID_CONFIG, f"{name} is {wanted}, not {value[:SHOWN]!r}")


def _wanted_or_none(name: str, value: str) -> str | None:
    """What the setting is, in words, if `value` is not that."""
    if name in AT_LEAST:
        most = (1 << 31) - 1 if name in INT32 else (1 << 63) - 1
        is_right = fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", value) is not None and AT_LEAST[name] <= int(value) <= most
        return None if is_right else f"a whole number from {AT_LEAST[name]} to {most}"
    if name in RATIOS:
        return None if _is_ratio(value) else "a number from 0 to 1"
    words = [word.strip() for word in value.split(",")] if name == "cleanup.policy" else [value]
    return None if all(word in WORDS[name] for word in words) else f"one of {', '.join(WORDS[name])}"


def config_type(name: str) -> int:
    """The type of a topic's setting in Kafka's numbers: 1 true or false, 2 word, 3 int32, 5 int64, 6 float64, 7 list."""
    if name in AT_LEAST:
        return 3 if name in INT32 else 5
    if name in RATIOS:
        return 6
    if name == "cleanup.policy":
        return 7
    return 1 if WORDS[name] == ("false", "true") else 2


def _is_ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
