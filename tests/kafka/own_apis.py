"""What no Kafka has of the wire protocol: the client-side assignors of KIP-848."""

from apportion.wire.messages import (
    consumer_group_heartbeat,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
)
from apportion.wire.table import APIS

OWN_APIS = {
    "ConsumerGroupPrepareAssignment": (
        consumer_group_prepare_assignment.ConsumerGroupPrepareAssignmentRequest
    ),
    "ConsumerGroupInstallAssignment": (
        consumer_group_install_assignment.ConsumerGroupInstallAssignmentRequest
    ),
}
"""The names and requests of the APIs that no Kafka has."""
OWN_KEYS = {key for key, api in APIS.items() if api.name in OWN_APIS}
OWN_LISTS = {(consumer_group_heartbeat.ConsumerGroupHeartbeatRequest, ("client_assignors",))}
"""The lists that requests of Kafka's APIs have here alone."""
