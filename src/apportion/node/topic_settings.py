"""The settings that a topic may have, declared with the values that each may take."""

from collections.abc import Mapping
from re import fullmatch

from apportion.errors import Code, Refused
from apportion.node.settings import TIMESTAMP_TYPES
from apportion.readable import MAX_QUOTED
from apportion.settings import MAX_INT32, MAX_INT64, Setting, nearest_or_none, whole_number
from apportion.store.settings import LogSettings

BOOLEAN = ("false", "true")
CONFIG_TYPES = {bool: 1, str: 2, float: 6, tuple: 7}
"""Type of a setting -> its number in DescribeConfigs; whole numbers are INT or LONG."""
INT, LONG = 3, 5
OTHER_FILES = "No effect: files are laid out in another way."
ALWAYS_SYNCED = "No effect: every acknowledged record is synced."
NOT_COMPACTED = "Will limit what a compaction may remove; nothing is removed yet."


def _number(sentence: str, default: int | None, least: int, most: int = MAX_INT64) -> Setting:
    # Kafka's bounds, so that a program that creates its topics here is able to do so there.
    return Setting(sentence, _text(default), at_least=least, at_most=most, type=int)


def _choice(sentence: str, default: str | None, *choices: str, kind: type = str) -> Setting:
    return Setting(sentence, default, choices=choices, type=kind)


def _missing(feature: str, default: str, kind: type = int, most: int = MAX_INT64) -> Setting:
    """Declare a setting that may only have Kafka's default, which asks for nothing."""
    return Setting(feature, default, at_most=most, type=kind)


def _text(default: int | None) -> str | None:
    return None if default is None else str(default)


SUPPORTED: Mapping[str, Setting] = {
    "cleanup.policy": _choice(
        "`delete`: records expire; `compact`: records need keys, and nothing is removed yet.",
        "delete",
        "compact",
        "delete",
        kind=tuple,
    ),
    "compression.type": _choice(
        "The codec of stored batches; `producer`: as they come.",
        "producer",
        "gzip",
        "lz4",
        "producer",
        "snappy",
        "uncompressed",
        "zstd",
    ),
    "delete.retention.ms": _number(NOT_COMPACTED, 86_400_000, 0),
    "file.delete.delay.ms": _number(OTHER_FILES, 60_000, 0),
    "flush.messages": _number(ALWAYS_SYNCED, MAX_INT64, 1),
    "flush.ms": _number(ALWAYS_SYNCED, MAX_INT64, 0),
    "index.interval.bytes": _number(
        "Bytes of a log between two entries of its index.",
        LogSettings().index_interval_bytes,
        0,
        MAX_INT32,
    ),
    "max.message.bytes": _number("The largest batch.", None, 0, MAX_INT32),
    "message.timestamp.after.max.ms": _number(
        "How far a timestamp may be after the broker's time.", None, 0
    ),
    "message.timestamp.before.max.ms": _number(
        "How far a timestamp may be before the broker's time.", None, 0
    ),
    "message.timestamp.type": _choice(
        "Whose time a record has: its producer's, or the broker's when it is appended.",
        None,
        *TIMESTAMP_TYPES,
    ),
    "min.cleanable.dirty.ratio": Setting(NOT_COMPACTED, "0.5", at_least=0, at_most=1, type=float),
    "min.compaction.lag.ms": _number(NOT_COMPACTED, 0, 0),
    "min.insync.replicas": _number("No effect: there is one broker.", 1, 1, MAX_INT32),
    "preallocate": _choice(OTHER_FILES, "false", *BOOLEAN, kind=bool),
    "retention.bytes": _number(
        "The size of a log from which its oldest segments expire; negative: none does.",
        None,
        -(2**63),
    ),
    # Kafka's; by ours, records stay (decision 43).
    "retention.ms": _number("The age at which records expire; -1: never.", 604_800_000, -1),
    "segment.bytes": _number("The size of a segment.", None, 1_048_576, MAX_INT32),
    "segment.index.bytes": _number(OTHER_FILES, 10_485_760, 4, MAX_INT32),
    "segment.jitter.ms": _number(OTHER_FILES, 0, 0),
    "segment.ms": _number("The age at which a segment is closed.", None, 1),
    "unclean.leader.election.enable": _choice(
        "No effect: there is one broker.", "false", *BOOLEAN, kind=bool
    ),
}
"""A topic's settings. default: Kafka's; None where the topic follows its broker."""
REPLICATION = "replication, for there is one broker"
UNSUPPORTED: Mapping[str, Setting] = {
    "compression.gzip.level": _missing("levels of compression", "-1", most=MAX_INT32),
    "compression.lz4.level": _missing("levels of compression", "9", most=MAX_INT32),
    "compression.zstd.level": _missing("levels of compression", "3", most=MAX_INT32),
    "errors.deadletterqueue.group.enable": _missing("share groups", "false", bool),
    "follower.replication.throttled.replicas": _missing(REPLICATION, "", tuple),
    "leader.replication.throttled.replicas": _missing(REPLICATION, "", tuple),
    "local.retention.bytes": _missing("tiered storage", "-2"),
    "local.retention.ms": _missing("tiered storage", "-2"),
    "max.compaction.lag.ms": _missing("compaction of topics", str(MAX_INT64)),
    "max.decompressed.message.bytes": _missing(
        "a limit for single records behind compression", "2147483639", most=MAX_INT32
    ),
    "remote.copy.lag.bytes": _missing("tiered storage", "-1"),
    "remote.copy.lag.ms": _missing("tiered storage", "0"),
    "remote.log.copy.disable": _missing("tiered storage", "false", bool),
    "remote.log.delete.on.disable": _missing("tiered storage", "false", bool),
    "remote.storage.enable": _missing("tiered storage", "false", bool),
}
"""Settings that may only have Kafka's default. sentence: the feature that is missing."""


def check_settings(settings: Mapping[str, str | None]) -> None:
    """Refuse a topic's settings that are unknown, have no or a wrong value, or no effect here.

    For CreateTopics and IncrementalAlterConfigs.

    Errors: INVALID_CONFIG.
    """
    for name, value in settings.items():
        if name not in SUPPORTED and name not in UNSUPPORTED:
            near = nearest_or_none(name[:MAX_QUOTED], [*SUPPORTED, *UNSUPPORTED])
            hint = f"; did you mean {near}?" if near else ""
            raise Refused(Code.INVALID_CONFIG, f"a topic has no setting {name[:MAX_QUOTED]}{hint}")
        if value is None:
            raise Refused(Code.INVALID_CONFIG, f"{name} has no value")
        if name in UNSUPPORTED:
            _check_unsupported(name, value)
            continue
        expected = _expected_or_none(SUPPORTED[name], value)
        if expected is not None:
            raise Refused(Code.INVALID_CONFIG, f"{name} is {expected}, not {value[:MAX_QUOTED]!r}")


def _check_unsupported(name: str, value: str) -> None:
    """Refuse a topic's setting that this broker does not implement, unless it has Kafka's default.

    Errors: INVALID_CONFIG, naming the missing feature.
    """
    missing, default = UNSUPPORTED[name].sentence, UNSUPPORTED[name].default
    if value.strip() != default:
        expected = f"its default, {default}" if default else "empty"
        raise Refused(
            Code.INVALID_CONFIG, f"{name} has to be {expected}: {missing} is not there yet"
        )


def _expected_or_none(setting: Setting, value: str) -> str | None:
    """Return in words what the values of a topic's setting are; None if `value` is one of them."""
    if setting.type is int:
        is_valid = fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", value) is not None and _is_within(
            setting, int(value)
        )
        return None if is_valid else whole_number(setting)
    if setting.type is float:
        try:
            is_valid = _is_within(setting, float(value))
        except ValueError:
            is_valid = False
        return None if is_valid else f"a number from {setting.at_least} to {setting.at_most}"
    if setting.type is tuple:  # may be empty, as in Kafka: then nothing is ever deleted
        words = [word.strip() for word in value.split(",")] if value.strip() else []
    else:
        words = [value.lower() if setting.type is bool else value]
    if all(word in setting.choices for word in words):
        return None
    return f"one of {', '.join(setting.choices)}"


def _is_within(setting: Setting, value: float) -> bool:
    assert setting.at_least is not None
    assert setting.at_most is not None
    return setting.at_least <= value <= setting.at_most


def is_list(name: str) -> bool:
    """Return whether a topic's setting is a list of words."""
    return (SUPPORTED.get(name) or UNSUPPORTED[name]).type is tuple


def canonical(name: str, value: str) -> str:
    """Return the text of a checked value as Kafka tells it: no blanks, each word once."""
    setting = SUPPORTED.get(name) or UNSUPPORTED[name]
    if setting.type is int:
        return str(int(value))
    if setting.type is tuple:
        return ",".join(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))
    return value.lower() if setting.type is bool else value.strip()


def config_type(name: str) -> int:
    """Return the type of a topic's setting in Kafka's numbers, for DescribeConfigs.

    1 true or false, 2 word, 3 int32, 5 int64, 6 float64, 7 list.
    """
    setting = SUPPORTED.get(name) or UNSUPPORTED[name]
    if setting.type is int:
        return INT if setting.at_most == MAX_INT32 else LONG
    return CONFIG_TYPES[setting.type]
