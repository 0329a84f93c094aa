"""What becomes of each setting of a topic and of the broker: obeyed, or in part, as tests show;
refused; or of no consequence.
"""

from typing import Any, NamedTuple


class Obeyed(NamedTuple):
    """The broker does what the setting says. test: who shows it, as file::function or as
    script::case, below tests/.
    """

    test: str


class InPart(NamedTuple):
    """The broker does a part of what the setting says. tests: who shows that, as in Obeyed.
    missing: what it does not do.
    """

    tests: tuple[str, ...]
    missing: str


class Refused(NamedTuple):
    """Nothing but Kafka's default is taken. other: a value that Kafka takes."""

    other: str


class Harmless(NamedTuple):
    """The setting is taken and nothing in the broker reads it. other: a value besides the default.
    why: nobody misses anything.
    """

    other: str
    why: str


VALIDATION = "node/test_batch_validation.py::"
APPEND_TIME = "node/test_append_time.py::"
RETENTION = "node/test_retention.py::"
BOUNDS = f"{VALIDATION}test_a_timestamp_is_within_the_bounds_of_its_topic_or_of_the_broker"
ONE_BROKER = "there is one broker"
FILES_GO = f"{RETENTION}test_the_files_leave_the_disk_and_the_log_goes_on"
NO_COMPACTION = "compaction is a promise about what is still there, and everything is"

TOPIC: dict[str, Any] = {
    "cleanup.policy": InPart(
        (
            f"{RETENTION}test_a_topic_whose_policy_does_not_delete_keeps_everything",
            f"{VALIDATION}test_a_compacted_topic_takes_no_record_without_a_key_and_names_each",
        ),
        missing=(
            "compact: a record stays, though a later one has its key; Kafka Streams asks for "
            "it, and bears older records"
        ),
    ),
    "compression.gzip.level": Refused("3"),
    "compression.lz4.level": Refused("3"),
    "compression.type": Obeyed(
        f"{VALIDATION}test_a_topic_with_a_compression_of_its_own_stores_nothing_else"
    ),
    "compression.zstd.level": Refused("5"),
    "delete.retention.ms": Harmless(
        "1", f"how long tombstones stand at the least: {NO_COMPACTION}"
    ),
    "errors.deadletterqueue.group.enable": Refused("true"),
    "file.delete.delay.ms": Harmless("0", "a file is deleted at once, and who reads it reads on"),
    "flush.messages": Harmless("1", "no record is acknowledged before it is synced"),
    "flush.ms": Harmless("1", "no record is acknowledged before it is synced"),
    "follower.replication.throttled.replicas": Refused("*"),
    "index.interval.bytes": Obeyed(
        "node/test_topic_settings.py::test_a_topic_says_how_dense_the_index_of_its_logs_is"
    ),
    "leader.replication.throttled.replicas": Refused("*"),
    "local.retention.bytes": Refused("7"),
    "local.retention.ms": Refused("7"),
    "max.compaction.lag.ms": Refused("60000"),
    "max.decompressed.message.bytes": Refused("1000000"),
    "max.message.bytes": Obeyed(
        "node/test_produce.py::test_a_topics_own_max_message_bytes_comes_first"
    ),
    "message.timestamp.after.max.ms": Obeyed(BOUNDS),
    "message.timestamp.before.max.ms": Obeyed(BOUNDS),
    "message.timestamp.type": Obeyed(
        f"{APPEND_TIME}test_the_header_alone_is_stamped_and_its_crc_made_anew"
    ),
    "min.cleanable.dirty.ratio": Harmless(
        "0.1", f"when a log is worth compacting: {NO_COMPACTION}"
    ),
    "min.compaction.lag.ms": Harmless(
        "9", f"how long a record stands uncompacted at the least: {NO_COMPACTION}"
    ),
    "min.insync.replicas": Harmless(
        "2", f"{ONE_BROKER}, and Kafka asks for no more replicas than a topic has"
    ),
    "preallocate": Harmless(
        "true", "files grow by steps that are allocated before they are written"
    ),
    "remote.copy.lag.bytes": Refused("7"),
    "remote.copy.lag.ms": Refused("7"),
    "remote.log.copy.disable": Refused("true"),
    "remote.log.delete.on.disable": Refused("true"),
    "remote.storage.enable": Refused("true"),
    "retention.bytes": Obeyed(
        f"{RETENTION}test_segments_go_while_what_is_left_is_as_large_as_the_topic_may_be"
    ),
    "retention.ms": Obeyed(FILES_GO),
    "segment.bytes": Obeyed(
        "node/test_delete_records.py::test_the_settings_of_a_topic_say_how_large_its_files_grow"
    ),
    "segment.index.bytes": Harmless(
        "4096", "an index grows with its segment, and none has a file of its own"
    ),
    "segment.jitter.ms": Harmless(
        "1000", "the most by which Kafka may roll earlier, by chance; none is within it"
    ),
    "segment.ms": Obeyed(f"{RETENTION}test_a_segment_takes_no_batch_that_is_later_by_segment_ms"),
    "unclean.leader.election.enable": Harmless("true", ONE_BROKER),
}
"""Every setting of a topic in Apache Kafka 4.4.0."""

ACLS = "node/test_acls.py::"
SETTINGS = "node/test_broker_settings.py::"
SOCKETS = "server/test_sockets.py::"
SERVER = "server/test_server_settings.py::"
CASES = "coord/scripts/cases/"
TOPICS = "node/scripts/topics.txt::"
EXPRESSIONS = f"{CASES}expressions.txt::"
GROUPS = "coord/test_settings.py::"
UNDER_WAY = "server/test_request_order.py::test_requests_of_one_api_share_a_flush_within_the_limits"
EXPIRES = f"{RETENTION}test_the_brokers_retention_holds_for_topics_without_one"
ROLLS = f"{RETENTION}test_the_brokers_roll_time_holds_for_topics_without_one"
INTERVALS = f"{SETTINGS}test_members_of_a_consumer_group_are_told_the_interval_of_their_heartbeats"
OF_ITS_SESSION = f"{SETTINGS}test_the_session_of_a_classic_member_is_within_its_bounds"
BREAKS_A_RULE = f"{GROUPS}test_a_setting_that_breaks_a_rule_is_refused_in_one_sentence"
CLEANS = "node/test_cleaning.py::test_a_log_of_many_commits_is_cleaned_and_says_the_same"
OFFSETS_GO = (
    "coord/test_retention.py::test_offsets_of_an_empty_group_expire_a_retention_after_each_commit"
)

LISTENERS = "node/test_listeners.py::"
SECURED = f"{LISTENERS}test_a_setting_of_security_holds_for_all_listeners_or_for_one"
MUTUAL = "server/test_tls.py::test_a_clients_certificate_says_who_it_is"
STORES = "server/test_tls.py::test_certificates_are_read_from_files_of_each_kind"
REFUSALS = "server/test_tls_refusals.py::"
UNUSABLE = f"{REFUSALS}test_a_certificate_that_cannot_be_used_stops_the_start_in_one_sentence"

BROKER = {
    "advertised.listeners": f"{SERVER}test_clients_are_told_the_address_that_is_advertised",
    "apportion.assignor.offload.size": (
        f"{CASES}custom-assignors.txt::a group is large by its members and partitions together"
    ),
    "apportion.assignor.timeout.ms": (
        "coord/test_custom_assignors.py::test_a_late_answer_is_dropped"
    ),
    "apportion.connection.max.inflight.bytes": UNDER_WAY,
    "apportion.connection.max.inflight.requests": UNDER_WAY,
    "apportion.authentication.timeout.ms": (
        f"{REFUSALS}test_a_handshake_that_takes_too_long_is_ended"
    ),
    "apportion.heartbeat.budget.per.second": INTERVALS,
    "apportion.metrics.listen": (
        "server/test_metrics.py::test_metrics_are_read_at_their_own_address_as_text"
    ),
    "allow.everyone.if.no.acl.found": (
        f"{ACLS}test_everybody_may_use_what_no_acl_is_about_if_so_configured"
    ),
    "authorizer.class.name": f"{ACLS}test_acls_need_an_authorizer",
    "auto.create.topics.enable": (f"{TOPICS}metadata creates a topic only where it is allowed"),
    "connections.max.idle.ms": (
        "server/test_idle_connections.py::"
        "test_a_connection_is_closed_once_nothing_has_come_or_gone_for_its_limit"
    ),
    "connections.max.reauth.ms": SECURED,
    "delete.topic.enable": f"{SETTINGS}test_topics_are_deleted_only_where_that_is_allowed",
    "fetch.max.bytes": f"{SETTINGS}test_a_fetch_brings_no_more_than_the_broker_gives_at_once",
    "group.consumer.assignment.interval.ms": (
        "coord/test_groups.py::test_a_group_may_have_an_assignment_interval_of_its_own"
    ),
    "group.consumer.assignors": "coord/test_groups.py::test_most_votes_choose_the_assignor",
    "group.consumer.heartbeat.interval.ms": INTERVALS,
    "group.consumer.max.assignment.interval.ms": BREAKS_A_RULE,
    "group.consumer.max.heartbeat.interval.ms": BREAKS_A_RULE,
    "group.consumer.max.session.timeout.ms": BREAKS_A_RULE,
    "group.consumer.max.size": (
        f"{CASES}heartbeat-checks.txt::a full group refuses strangers first"
    ),
    "group.consumer.migration.policy": (
        "coord/test_migration.py::test_without_a_policy_to_downgrade_the_group_stays_a_consumer_group"
    ),
    "group.consumer.min.assignment.interval.ms": BREAKS_A_RULE,
    "group.consumer.min.heartbeat.interval.ms": BREAKS_A_RULE,
    "group.consumer.min.session.timeout.ms": BREAKS_A_RULE,
    "group.consumer.regex.refresh.interval.ms": (
        f"{EXPRESSIONS}a resolution is repeated when topics change and after its interval"
    ),
    "group.consumer.session.timeout.ms": (
        f"{SETTINGS}test_a_consumer_group_member_expires_after_its_session"
    ),
    "group.initial.rebalance.delay.ms": f"{SETTINGS}test_a_classic_group_waits_for_more_members",
    "group.max.session.timeout.ms": OF_ITS_SESSION,
    "group.max.size": f"{SETTINGS}test_a_classic_group_has_no_more_members_than_it_may",
    "group.min.session.timeout.ms": OF_ITS_SESSION,
    "listener.security.protocol.map": f"{LISTENERS}test_a_listener_has_a_name_of_its_own",
    "listeners": (
        "server/test_start_and_stop.py::test_a_broker_that_cannot_listen_leaves_the_directory_free"
    ),
    "log.message.timestamp.after.max.ms": BOUNDS,
    "log.message.timestamp.before.max.ms": BOUNDS,
    "log.message.timestamp.type": f"{APPEND_TIME}test_the_brokers_setting_is_the_default_of_topics",
    "log.retention.bytes": f"{RETENTION}test_the_brokers_size_holds_for_topics_without_one",
    "log.retention.check.interval.ms": FILES_GO,
    "log.retention.hours": EXPIRES,
    "log.retention.minutes": EXPIRES,
    "log.retention.ms": EXPIRES,
    "log.roll.hours": ROLLS,
    "log.roll.ms": ROLLS,
    "log.segment.bytes": (
        "node/test_delete_records.py::test_files_of_deleted_records_leave_the_disk"
    ),
    "max.connections": f"{SOCKETS}test_too_many_connections_are_turned_away",
    "message.max.bytes": "node/test_produce.py::test_a_batch_above_message_max_bytes_is_too_large",
    "min.insync.replicas": (
        "node/test_described_settings.py::"
        "test_a_cluster_has_min_insync_replicas_for_all_brokers_from_its_start"
    ),
    "node.id": f"{SETTINGS}test_the_broker_bears_the_number_that_it_was_given",
    "num.partitions": f"{TOPICS}defaults assignments and trials",
    "offset.metadata.max.bytes": (
        f"{CASES}offsets.txt::unknown topics and long metadata fail alone"
    ),
    "offsets.retention.check.interval.ms": OFFSETS_GO,
    "offsets.retention.minutes": OFFSETS_GO,
    "offsets.topic.num.partitions": f"{SETTINGS}test_groups_are_spread_over_so_many_partitions",
    "offsets.topic.segment.bytes": CLEANS,
    "producer.id.expiration.ms": f"{SETTINGS}test_a_silent_producer_is_forgotten",
    "connection.failed.authentication.delay.ms": (
        "node/test_sasl_settings.py::test_a_mechanism_may_have_sessions_of_its_own"
    ),
    "sasl.enabled.mechanisms": SECURED,
    **dict.fromkeys(
        (
            *("apportion.oauthbearer.unsecured", "sasl.oauthbearer.clock.skew.seconds"),
            *("sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"),
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            *("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.scope.claim.name"),
            "sasl.oauthbearer.sub.claim.name",
        ),
        "node/test_sasl_settings.py::test_tokens_are_looked_at_as_the_settings_say",
    ),
    "sasl.server.max.receive.size": SECURED,
    "ssl.client.auth": MUTUAL,
    "ssl.enabled.protocols": (
        f"{REFUSALS}test_a_client_that_does_not_get_in_is_told_why_and_so_is_the_log"
    ),
    "ssl.key.password": STORES,
    "ssl.keystore.certificate.chain": UNUSABLE,
    "ssl.keystore.key": UNUSABLE,
    "ssl.keystore.location": STORES,
    "ssl.keystore.password": STORES,
    "ssl.keystore.type": STORES,
    "ssl.principal.mapping.rules": MUTUAL,
    "ssl.truststore.certificates": (
        "server/test_tls.py::test_each_listener_tells_its_own_address_and_has_its_own_security"
    ),
    "ssl.truststore.location": STORES,
    "ssl.truststore.password": STORES,
    "ssl.truststore.type": STORES,
    "socket.request.max.bytes": f"{SOCKETS}test_bytes_that_mean_nothing_close_the_connection",
    "super.users": f"{ACLS}test_super_users_may_do_everything",
}
"""Every setting that the broker takes at its start -> the test that shows that it is obeyed."""
