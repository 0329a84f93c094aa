"""A Kafka broker inside this process, for tests, notebooks and small machines: `EmbeddedBroker`."""

from apportion.coord.metrics import BrokerMetrics, GroupMetrics
from apportion.node.settings import SettingRefused
from apportion.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from apportion.server.broker_options import BrokerOptions
from apportion.server.embedded import EmbeddedBroker
from apportion.server.embedded_security import BrokerSecurity

__all__ = [
    "AclBinding",
    "AclOperation",
    "AclPermission",
    "BrokerMetrics",
    "BrokerOptions",
    "BrokerSecurity",
    "EmbeddedBroker",
    "GroupMetrics",
    "PatternType",
    "ResourceType",
    "SettingRefused",
]
