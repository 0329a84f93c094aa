"""Which values the settings of a topic may have. It refuses to know what they do."""

from collections.abc import Mapping

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
OTHERS = ("min.cleanable.dirty.ratio",)


def check_settings(given: Mapping[str, str | None]) -> None:
    """INVALID_CONFIG for a setting that topics do not have, that has no value, or one that it cannot have."""
    for name, value in given.items():
        if name not in AT_LEAST and name not in WORDS and name not in OTHERS:
            raise Refused(Code.INVALID_CONFIG, f"a topic has no setting {name}")
        if value is None:
            raise Refused(Code.INVALID_CONFIG, f"{name} has no value")
        if name in AT_LEAST and not _is_at_least(AT_LEAST[name], value):
            raise Refused(Code.INVALID_CONFIG, f"{name} is a whole number from {AT_LEAST[name]} on, not {value!r}")
        words = [word.strip() for word in value.split(",")] if name == "cleanup.policy" else [value]
        if name in WORDS and not all(word in WORDS[name] for word in words):
            raise Refused(Code.INVALID_CONFIG, f"{name} is one of {', '.join(WORDS[name])}, not {value!r}")


def config_type(name: str) -> int:
    """The type of a topic's setting in Kafka's numbers: 1 true or false, 2 word, 3 int32, 5 int64, 6 float64, 7 list."""
    if name in AT_LEAST:
        return 3 if name in INT32 else 5
    if name in OTHERS:
        return 6
    if name == "cleanup.policy":
        return 7
    return 1 if WORDS[name] == ("false", "true") else 2


def _is_at_least(least: int, text: str) -> bool:
    try:
        return least <= int(text)
    except ValueError:
        return False
