"""The keyword arguments of EmbeddedBroker are the broker's settings, no more, no fewer, with their
types.
"""

from typing import get_type_hints

from apportion.coord.config import GroupSettings
from apportion.node.settings import BrokerSettings
from apportion.server.broker_options import BrokerOptions
from apportion.settings import declared


def test_every_setting_of_the_broker_is_a_keyword_argument() -> None:
    settings = {**declared(BrokerSettings), **declared(GroupSettings)}
    types = {name: setting.type for name, setting in settings.items()}
    assert get_type_hints(BrokerOptions) | {"group_consumer_assignors": tuple[str, ...]} == types
