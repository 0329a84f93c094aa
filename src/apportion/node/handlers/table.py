"""The table of the requests that do not concern a group; all others go to the coordinators."""

from apportion.node.broker import BrokerHandler
from apportion.node.handlers import (
    acls,
    admin,
    alter_configs,
    cluster,
    configs,
    delete_records,
    fetch,
    offsets,
    produce,
    producer_ids,
    sasl,
    scram_users,
)

FAMILIES = (
    *(acls, admin, alter_configs, cluster, configs, delete_records, fetch, offsets),
    *(producer_ids, produce, sasl, scram_users),
)
HANDLERS: dict[type, BrokerHandler] = {
    request: handler for family in FAMILIES for request, handler in family.HANDLERS.items()
}
"""Request -> its handler."""
