"""Settings as clients are told them: value, source, type, synonyms and a sentence.

The synonyms of a setting are all places that give it a value, the one that counts first. A topic
follows its broker where it has no own value, and so does a group.
"""

from collections.abc import Iterator, Mapping
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
        "retention.bytes": str(settings.log_retention_bytes),
        "retention.ms": str(settings.retention_ms),
        "segment.bytes": str(settings.log_segment_bytes),
        "segment.ms": str(settings.roll_ms),
    }


BROKER_NAMES = {
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
}
"""A topic's setting -> the broker's that it follows; the first one that is set counts."""
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
        from_broker["segment.bytes"] = str(live.broker.offsets_topic_segment_bytes)
    entries = []
    for name, setting in {**SUPPORTED, **UNSUPPORTED}.items():
        value = own.get(name)
        default = TOPIC_SETTINGS[name]
        synonyms: tuple[ConfigSynonym, ...] = (
            () if value is None else (ConfigSynonym(name, value, DYNAMIC_TOPIC),)
        )
        is_offsets_segment = name == "segment.bytes" and topic == OFFSETS_TOPIC
        broker_names = (
            ("offsets.topic.segment.bytes",) if is_offsets_segment else BROKER_NAMES.get(name, ())
        )
        for broker_name in broker_names:
            synonyms += _broker_synonyms(broker_name, live)
        inherited = from_broker.get(name, default)
        if synonyms and synonyms[0].source < STATIC_BROKER:
            source = synonyms[0].source
        else:
            source = DEFAULT if inherited == default else STATIC_BROKER
        entries.append(
            ConfigEntry(
                name,
                inherited if value is None else value,
                source,
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
        synonyms = _broker_synonyms(name, live)
        source = synonyms[0].source if synonyms else DEFAULT
        if setting.is_secret:
            synonyms = tuple(each._replace(value=None) for each in synonyms)
        yield ConfigEntry(
            name,
            None if setting.is_secret else value or None,
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
        synonyms = _broker_synonyms(dotted(field), live)
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


def _broker_synonyms(name: str, live: LiveSettings) -> tuple[ConfigSynonym, ...]:
    """Return the places that give a broker's setting a value: one, all, the start, the default."""
    synonyms = []
    if (value := live.of_one.get(name)) is not None:
        synonyms.append(ConfigSynonym(name, value, DYNAMIC_BROKER))
    if (value := live.of_all.get(name)) is not None:
        synonyms.append(ConfigSynonym(name, value, DYNAMIC_DEFAULT_BROKER))
    default = DEFAULTS.get(name, "")  # a setting of one listener has none
    started_with = live.started_texts[name]
    if started_with != default:
        synonyms.append(ConfigSynonym(name, started_with, STATIC_BROKER))
    if default:
        synonyms.append(ConfigSynonym(name, default, DEFAULT))
    return tuple(synonyms)


DEFAULTS = BrokerSettings().named()
