"""The settings that hold now: those that the broker was started with, and the altered ones.

A value, computed from the metadata log's settings of brokers and groups. What the broker was
started with does not change; over it stand the settings of all brokers (the name ""), and over
those the settings of this broker. Decision 49 says how they reach the coordinator shards.
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.coord.config import GroupSettings
from apportion.coord.group_settings import settings_of_group
from apportion.node.settings import BrokerSettings, SettingRefused
from apportion.store.metadata_log import BROKER, GROUP, MetadataLog

ALL_BROKERS = ""
"""The name of the resource whose settings hold for every broker that has none of its own."""
MIN_INSYNC_REPLICAS = "min.insync.replicas"
"""A setting that a cluster has for all brokers without being altered, as in Kafka (KIP-966)."""


def own_settings_of_all(log: MetadataLog, started_with: BrokerSettings) -> dict[str, str]:
    """Return the settings of all brokers: the altered ones, and the one of every cluster."""
    return {MIN_INSYNC_REPLICAS: str(started_with.min_insync_replicas)} | dict(
        log.config_of(ALL_BROKERS, BROKER)
    )


class LiveSettings(NamedTuple):
    """The settings of a broker and of its groups at one time.

    started_with: without any that was altered; started_texts: the same by name, as Kafka writes
    them. of_all, of_one: the altered ones, for all brokers and for this one. broker: what holds.
    groups: what holds in each group with own settings.
    """

    started_with: BrokerSettings
    started_texts: Mapping[str, str]
    of_all: Mapping[str, str]
    of_one: Mapping[str, str]
    broker: BrokerSettings
    groups: Mapping[str, GroupSettings]

    @classmethod
    def read(cls, log: MetadataLog, started_with: BrokerSettings) -> "LiveSettings":
        """Return what holds by the metadata log.

        A setting that does not fit what the broker was started with this time is left out: that
        which it stands over holds.
        """
        broker, of_all = _fitting(started_with, own_settings_of_all(log, started_with))
        broker, of_one = _fitting(broker, log.config_of(str(started_with.node_id), BROKER))
        groups = {
            group_id: settings_of_group(log.config_of(group_id, GROUP), broker.group)
            for group_id in log.configured(GROUP)
        }
        return cls(started_with, started_with.named(), of_all, of_one, broker, groups)

    def with_groups(self, altered: Mapping[str, Mapping[str, str]]) -> "LiveSettings":
        """Return the same settings, but for some groups, whose own ones these are now."""
        groups = {name: value for name, value in self.groups.items() if name not in altered}
        groups |= {
            group_id: settings_of_group(own, self.broker.group)
            for group_id, own in altered.items()
            if own
        }
        return self._replace(groups=groups)


def _fitting(
    settings: BrokerSettings, altered: Mapping[str, str]
) -> tuple[BrokerSettings, dict[str, str]]:
    """Return the settings with those of the altered ones that fit, and which those are."""
    fitting = {}
    for name, text in altered.items():
        try:
            settings = settings.altered({name: text})
        except SettingRefused:  # the bounds, or the settings, of another version
            continue
        fitting[name] = text
    return settings, fitting
