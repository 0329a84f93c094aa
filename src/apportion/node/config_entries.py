"""Settings as clients receive them: value, source, type, synonyms and a sentence.

The synonyms of a setting are all places that give it a value, the one that counts first. A topic
follows its broker where it has no own value, and so does a group.
"""

from collections.abc import Iterator, Mapping
from itertools import dropwhile
from typing import NamedTuple

from apportion.coord.config import GroupSettings, dotted
from apportion.coord.group_settings import FIELDS, OWN_SETTINGS
from apportion.node.live_settings import LiveSettings
from apportion.node.security_settings import parsed_name
from apportion.node.setting_values import broker_config_type
from apportion.node.settings import BrokerSettings, broker_settings_by_name
from apportion.node.topic_settings import SUPPORTED, UNSUPPORTED, config_type

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER = 1, 2, 3
STATIC_BROKER, DEFAULT, DYNAMIC_GROUP = 4, 5, 8
"""Kafka's numbers for where a value comes from."""
OFFSETS_TOPIC = "__consumer_offsets"


def _topic_settings_of(settings: BrokerSettings) -> dict[str, str]:
    """Return the settings that a topic has from its broker, where it has none of its own."""
    return {
        "max.message.bytes": str(settings.message_max_bytes),
        "message.timestamp.after.max.ms": str(settings.log_message_timestamp_after_max_ms),
        "message.timestamp.before.max.ms": str(settings.log_message_timestamp_before_max_ms),
        "message.timestamp.type": settings.log_message_timestamp_type,
        "min.insync.replicas": str(settings.min_insync_replicas),
        "retention.bytes": str(settings.log_retention_bytes),
        "retention.ms": str(settings.retention_ms),
        "segment.bytes": str(settings.log_segment_bytes),
        "segment.ms": str(settings.roll_ms),
    }


FOLLOWED = {
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.insync.replicas": ("min.insync.replicas",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
}
"""A topic's setting -> the broker's that it follows, in all its units: the first one that is set
counts.
"""
IN_ALL_UNITS = {name: names for names in FOLLOWED.values() for name in names}
"""A setting of the broker -> the same in all its units."""
EMPTY = ("authorizer.class.name", "sasl.oauthbearer.expected.audience")
"""Settings of the broker whose default is no value in Kafka, and not null."""
FROM_BROKER = _topic_settings_of(BrokerSettings())
TOPIC_SETTINGS: dict[str, str] = {
    name: FROM_BROKER[name] if setting.default is None else setting.default
    for name, setting in {**SUPPORTED, **UNSUPPORTED}.items()
}
"""A topic's settings -> Kafka's defaults."""


class ConfigSynonym(NamedTuple):
    """One place that gives a setting a value: the setting's name there, and the source.

    value: None for a secret.
    """

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One setting of a topic, broker or group, for DescribeConfigs and CreateTopics.

    value: None for a secret, too. source, config_type: in Kafka's numbers.
    """

    name: str
    value: str | None
    source: int
    config_type: int
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]
    sentence: str
    is_secret: bool = False


def topic_entries(
    topic: str, own: Mapping[str, str | None], live: LiveSettings
) -> list[ConfigEntry]:
    """Return every setting of a topic, which has these of its own."""
    from_broker = _topic_settings_of(live.broker)
    if topic == OFFSETS_TOPIC:
        # Kafka gives them to the topic when it creates it.
        segment_bytes = str(live.broker.offsets_topic_segment_bytes)
        own = {"compression.type": "producer", "segment.bytes": segment_bytes, **own}
    entries = []
    for name, setting in {**SUPPORTED, **UNSUPPORTED}.items():
        value = own.get(name)
        synonyms: tuple[ConfigSynonym, ...] = (
            () if value is None else (ConfigSynonym(name, value, DYNAMIC_TOPIC),)
        )
        synonyms += _synonyms(FOLLOWED.get(name, ()), live)
        entries.append(
            ConfigEntry(
                name,
                from_broker.get(name, TOPIC_SETTINGS[name]) if value is None else value,
                synonyms[0].source if synonyms else DEFAULT,
                config_type(name),
                is_read_only=False,
                synonyms=synonyms,
                sentence=setting.sentence,
            )
        )
    return entries


def broker_entries(live: LiveSettings) -> Iterator[ConfigEntry]:
    """Yield every setting of the broker, by name, those that one listener alone has among them."""
    values, settings = live.broker.named(), broker_settings_by_name()
    for name, value in values.items():
        setting = settings.get(name) or parsed_name(name).setting
        synonyms = _synonyms_from(name, live)
        source = synonyms[0].source if synonyms else DEFAULT
        if setting.is_secret:
            synonyms = tuple(each._replace(value=None) for each in synonyms)
        yield ConfigEntry(
            name,
            None if setting.is_secret or (not value and name not in EMPTY) else value,
            source,
            broker_config_type(setting),
            is_read_only=not setting.is_dynamic,
            synonyms=synonyms,
            sentence=setting.sentence,
            is_secret=setting.is_secret,
        )


def all_brokers_entries(live: LiveSettings) -> Iterator[ConfigEntry]:
    """Yield the settings that were altered for all brokers, by name."""
    for entry in broker_entries(live):
        if (value := live.of_all.get(entry.name)) is not None:
            synonym = ConfigSynonym(entry.name, value, DYNAMIC_DEFAULT_BROKER)
            yield entry._replace(value=value, source=synonym.source, synonyms=(synonym,))


def group_entries(
    group_id: str, own: Mapping[str, str], live: LiveSettings
) -> Iterator[ConfigEntry]:
    """Yield every setting of a group, which has these of its own; it need not exist."""
    holding: GroupSettings = live.groups.get(group_id, live.broker.group)
    broker_settings = broker_settings_by_name()
    for name, setting in OWN_SETTINGS.items():
        field = FIELDS[name]
        synonyms = _synonyms((dotted(field),), live)
        if (value := own.get(name)) is not None:
            synonyms = (ConfigSynonym(name, value, DYNAMIC_GROUP), *synonyms)
        yield ConfigEntry(
            name,
            str(holding.value_of(field)),
            synonyms[0].source,
            broker_config_type(broker_settings[dotted(field)]),
            is_read_only=False,
            synonyms=synonyms,
            sentence=setting.sentence,
        )


def _synonyms(names: tuple[str, ...], live: LiveSettings) -> tuple[ConfigSynonym, ...]:
    """Return the places that give a broker's setting a value: one, all, the start, the default.

    names: of the setting, in all its units.
    """
    started_with = {
        each: text for each in names if (text := live.started_texts[each]) != DEFAULTS.get(each, "")
    }
    defaults = {each: text for each in names if (text := DEFAULTS.get(each, "")) or each in EMPTY}
    places = (
        (live.of_one, DYNAMIC_BROKER),
        (live.of_all, DYNAMIC_DEFAULT_BROKER),
        (started_with, STATIC_BROKER),
        (defaults, DEFAULT),
    )
    return tuple(
        ConfigSynonym(each, values[each], source)
        for values, source in places
        for each in names
        if each in values
    )


def _synonyms_from(name: str, live: LiveSettings) -> tuple[ConfigSynonym, ...]:
    """Return the synonyms that a description of the broker has of this setting, as in Kafka.

    They begin with its own value: what another unit says before that, or without one, is none of
    this setting.
    """
    synonyms = _synonyms(IN_ALL_UNITS.get(name, (name,)), live)
    return tuple(dropwhile(lambda each: each.name != name, synonyms))


DEFAULTS = BrokerSettings().named()
"""The defaults of the broker's settings; one of a single listener has none."""
