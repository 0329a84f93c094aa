"""The keyword arguments of EmbeddedBroker are the broker's settings, no more, no fewer, with their
types.
"""

from typing import get_type_hints

from apportion.coord.config import GroupSettings
from apportion.node.security_settings import SecuritySettings
from apportion.node.settings import BrokerSettings
from apportion.server.broker_options import BrokerOptions
from apportion.settings import declared


def test_every_setting_of_the_broker_is_a_keyword_argument() -> None:
    owners = (BrokerSettings, GroupSettings, SecuritySettings)
    types = {name: each.type for owner in owners for name, each in declared(owner).items()}
    options = get_type_hints(BrokerOptions) | {"group_consumer_assignors": tuple[str, ...]}
    # Lists may also be given as lists, and as one text.
    options |= dict.fromkeys(
        (
            "ssl_enabled_protocols",
            "sasl_enabled_mechanisms",
            "sasl_oauthbearer_expected_audience",
        ),
        tuple[str, ...],
    )
    assert options == types
