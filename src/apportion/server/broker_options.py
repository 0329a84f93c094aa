"""The settings of a broker as typed keyword arguments of `EmbeddedBroker`.

`node.settings`, `node.security_settings` and `coord.config` declare them; a test compares the names
and the types.
"""

from collections.abc import Callable, Sequence
from typing import TypedDict

from apportion.assign.custom import CustomAssignor

BrokerAssignor = str | CustomAssignor | Callable[[], CustomAssignor]
"""A name, `module:Class`, an object, or its class."""


class BrokerOptions(TypedDict, total=False):
    """Kafka's broker settings with underscores for dots; docs/settings.md explains each."""

    node_id: int
    listeners: str
    advertised_listeners: str
    listener_security_protocol_map: str
    num_partitions: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    message_max_bytes: int
    min_insync_replicas: int
    log_segment_bytes: int
    log_roll_hours: int
    log_roll_ms: int | None
    log_retention_hours: int
    log_retention_minutes: int | None
    log_retention_ms: int | None
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    fetch_max_bytes: int
    producer_id_expiration_ms: int
    socket_request_max_bytes: int
    max_connections: int
    connections_max_idle_ms: int
    apportion_connection_max_inflight_requests: int
    apportion_connection_max_inflight_bytes: int
    apportion_authentication_timeout_ms: int
    apportion_metrics_listen: str
    authorizer_class_name: str
    super_users: str
    allow_everyone_if_no_acl_found: bool
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int | None
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_assignors: Sequence[BrokerAssignor] | str
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    apportion_heartbeat_budget_per_second: int
    apportion_assignor_timeout_ms: int
    apportion_assignor_offload_size: int
    ssl_keystore_type: str
    ssl_keystore_location: str
    ssl_keystore_password: str
    ssl_keystore_certificate_chain: str
    ssl_keystore_key: str
    ssl_key_password: str
    ssl_truststore_type: str
    ssl_truststore_location: str
    ssl_truststore_password: str
    ssl_truststore_certificates: str
    ssl_client_auth: str
    ssl_enabled_protocols: Sequence[str] | str
    ssl_principal_mapping_rules: str
    sasl_enabled_mechanisms: Sequence[str] | str
    sasl_server_max_receive_size: int
    connections_max_reauth_ms: int
    connection_failed_authentication_delay_ms: int
    sasl_oauthbearer_jwks_endpoint_url: str
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_expected_audience: Sequence[str] | str
    sasl_oauthbearer_expected_issuer: str
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    sasl_oauthbearer_clock_skew_seconds: int
    apportion_oauthbearer_unsecured: bool
