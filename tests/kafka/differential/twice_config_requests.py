"""Requests that alter and list settings, and name something twice in a list."""

from typing import Any

from apportion.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.kafka.differential.compare import Intended
from tests.kafka.differential.twice_topic_requests import TWICE
from tests.kafka.differential.wrong import NO_TOPIC
from tests.node.config_requests import incremental, whole

SETTINGS = (("segment.ms", "5000"), ("retention.ms", "60000"))
CLIENT_METRICS, BROKER = 16, 4


def altered_configs(twice: bytes, group: str) -> Any:
    """Two settings of two topics, only tried."""
    changes = tuple((name, "=", value) for name, value in SETTINGS)
    return incremental(
        *(("topic", name, changes) for name in (TWICE, NO_TOPIC)), validate_only=True
    )


def replaced_configs(twice: bytes, group: str) -> Any:
    """All settings of two topics, only tried."""
    return whole(*(("topic", name, SETTINGS) for name in (TWICE, NO_TOPIC)), validate_only=True)


def config_resources(twice: bytes, group: str) -> Any:
    """Resources of two kinds."""
    return ListConfigResourcesRequest(resource_types=(CLIENT_METRICS, BROKER))


CONFIGS_INTENDED = [
    Intended(
        "a resource that one AlterConfigs request names twice",
        "Kafka never answers; here it is INVALID_REQUEST.",
        lambda seen: seen.step.name.startswith("replaced configs") and seen.theirs == "no answer",
    )
]
