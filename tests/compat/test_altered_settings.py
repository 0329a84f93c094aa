"""Settings that librdkafka's admin client alters and describes."""

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from tests.compat.test_topic_settings import made

if TYPE_CHECKING:
    from tests.compat.conftest import Served

SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE
APPEND, SUBTRACT = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT


def alter(admin: Any, kind: Any, name: str, *changes: tuple[str, str | None, Any]) -> None:
    """Alter one resource; raises KafkaException where the broker refuses."""
    entries = [
        ConfigEntry(key, value, incremental_operation=operation)
        for key, value, operation in changes
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


def described(admin: Any, kind: Any, name: str, key: str) -> tuple[str, ConfigSource, bool]:
    """Value and source of one setting, and whether it is read-only."""
    [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
    entry = future.result(10)[key]
    return entry.value, ConfigSource(entry.source), entry.is_read_only


def test_librdkafka_alters_and_describes_topics_and_brokers(served: "Served") -> None:
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    made(served.bootstrap, "t")
    alter(
        admin,
        ResourceType.TOPIC,
        "t",
        ("retention.ms", "60000", SET),
        ("cleanup.policy", "compact", APPEND),
    )
    assert described(admin, ResourceType.TOPIC, "t", "retention.ms") == (
        "60000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        False,
    )
    alter(admin, ResourceType.TOPIC, "t", ("cleanup.policy", "delete", SUBTRACT))
    assert described(admin, ResourceType.TOPIC, "t", "cleanup.policy")[0] == "compact"
    alter(admin, ResourceType.TOPIC, "t", ("retention.ms", None, DELETE))
    assert described(admin, ResourceType.TOPIC, "t", "retention.ms")[0] == "-1"
    alter(admin, ResourceType.BROKER, "1", ("message.max.bytes", "5000", SET))
    assert described(admin, ResourceType.BROKER, "1", "message.max.bytes") == (
        "5000",
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        False,
    )
    assert described(admin, ResourceType.TOPIC, "t", "max.message.bytes")[0] == "5000"


def test_librdkafka_tells_why_a_setting_is_refused(served: "Served") -> None:
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    made(served.bootstrap, "t")
    with pytest.raises(KafkaException) as refused:
        alter(admin, ResourceType.TOPIC, "t", ("retention.ms", "soon", SET))
    error = refused.value.args[0]
    assert (error.code(), error.str()) == (
        KafkaError.INVALID_CONFIG,
        "retention.ms is a whole number from -1 to 9223372036854775807, not 'soon'",
    )
    with pytest.raises(KafkaException) as refused:
        alter(admin, ResourceType.BROKER, "1", ("num.partitions", "3", SET))
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
