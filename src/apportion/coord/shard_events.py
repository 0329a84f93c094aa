"""The events of a coordinator shard: requests, time, and what the broker tells it."""

from collections.abc import Mapping
from dataclasses import dataclass

from apportion.coord.config import GroupSettings
from apportion.machine import Arrived, ComputationEnd, Gone, Tick
from apportion.topics import Topics


@dataclass(slots=True, frozen=True)
class TopicsChanged:
    """The topics of the cluster have changed: these are all of them."""

    topics: Topics


@dataclass(slots=True, frozen=True)
class SettingsChanged:
    """The settings of groups have changed.

    settings: the broker's. own: what holds in each group that has settings of its own.
    """

    settings: GroupSettings
    own: Mapping[str, GroupSettings]


ShardEvent = Arrived | ComputationEnd | Gone | Tick | TopicsChanged | SettingsChanged
