"""A Kafka broker inside this process, for tests, notebooks and small machines: `EmbeddedBroker`."""

from apportion.coord.metrics import BrokerMetrics, GroupMetrics
from apportion.node.settings import SettingRefused
from apportion.server.broker_options import BrokerOptions
from apportion.server.embedded import EmbeddedBroker

__all__ = ["BrokerMetrics", "BrokerOptions", "EmbeddedBroker", "GroupMetrics", "SettingRefused"]
