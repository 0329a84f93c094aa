"""Options that other Kafka clients have and ours do not, with the reason or our own name.

Names are those of Kafka's Java consumer, librdkafka, kafka-python and aiokafka, with underscores
for dots.
"""

AUTOMATIC = "the consumer chooses it by itself; drop the option"
BYTES = "keys and values are bytes; decode them when you read a record, and drop the option"
OPENSSL = "OpenSSL's own choice is offered; drop the option"
NO_REVOCATION = "lists of revoked certificates are not looked at here"
NO_KERBEROS = "Kerberos is not here: use SCRAM, PLAIN, OAUTHBEARER or a client certificate"

PREFIXES = {  # how the name begins -> why it cannot be used
    "sasl_kerberos_": NO_KERBEROS,
    "sasl_login_": "the client renews its login by itself; drop the option",
    "metric": "there are no metrics yet; drop the option",
}
FOREIGN = {  # option -> why it cannot be used
    **{
        name: f"it is called {ours} here"
        for name, ours in {
            "ssl_cafile": "ssl_ca_location",
            "ssl_certfile": "ssl_certificate_location",
            "ssl_keyfile": "ssl_key_location",
            "ssl_password": "ssl_key_password",
            "ssl_check_hostname": "ssl_endpoint_identification_algorithm",
            "ssl_truststore_location": "ssl_ca_location",
            "ssl_truststore_certificates": "ssl_ca_pem",
            "ssl_keystore_certificate_chain": "ssl_certificate_pem",
            "ssl_keystore_key": "ssl_key_pem",
            "sasl_plain_username": "sasl_username",
            "sasl_plain_password": "sasl_password",
            "sasl_oauth_token_provider": "oauth_cb",
        }.items()
    },
    "ssl_truststore_password": "certificates are no secret: give them as PEM, in ssl_ca_location",
    "ssl_truststore_type": "CA certificates are PEM here: ssl_ca_location",
    "ssl_keystore_type": "ssl_keystore_location is PKCS12; PEM is ssl_certificate_location",
    "ssl_context": "the client makes it of ssl_ca_location and its neighbours; drop the option",
    "ssl_ciphers": OPENSSL,
    "ssl_cipher_suites": OPENSSL,
    "ssl_crlfile": NO_REVOCATION,
    "ssl_crl_location": NO_REVOCATION,
    "sasl_jaas_config": "give sasl_username and sasl_password, or what OAUTHBEARER needs",
    "key_deserializer": BYTES,
    "value_deserializer": BYTES,
    "enable_auto_commit": "it is called auto_commit here",
    "enable_auto_offset_store": (
        "a record counts as delivered when poll returns it; drop the option"
    ),
    "group_instance_id": "it is called instance_id here",
    "server_assignor": "it is called group_remote_assignor here",
    "on_partitions_assigned": "it is called on_assigned here",
    "on_partitions_revoked": "it is called on_revoked here",
    "on_partitions_lost": "it is called on_lost here",
    "consumer_timeout_ms": "give poll its timeout_ms instead",
    "isolation_level": "only committed records are read, as with read_committed; drop the option",
    "allow_auto_create_topics": "a consumer never makes a topic; drop the option",
    "pattern": "it is no option: call subscribe(pattern=...)",
    "exclude_internal_topics": (
        "a name is subscribed to as it is, and a pattern may match internal topics; write the "
        "pattern so that it does not, and drop the option"
    ),
    "interceptor_classes": "interceptors do not exist here; drop the option",
    **dict.fromkeys(
        (
            "api_version",
            "api_version_auto_timeout_ms",
            "api_version_request",
            "check_crcs",
            "client_dns_lookup",
            "connections_max_idle_ms",
            "default_api_timeout_ms",
            "fetch_max_bytes",
            "fetch_max_wait_ms",
            "fetch_min_bytes",
            "fetch_wait_max_ms",
            "max_in_flight_requests_per_connection",
            "max_partition_fetch_bytes",
            "queued_max_messages_kbytes",
            "queued_min_messages",
            "receive_buffer_bytes",
            "reconnect_backoff_max_ms",
            "reconnect_backoff_ms",
            "request_timeout_ms",
            "retry_backoff_max_ms",
            "retry_backoff_ms",
            "send_buffer_bytes",
            "socket_connection_setup_timeout_ms",
            "socket_options",
        ),
        AUTOMATIC,
    ),
}
NO_TASKS = "it is a setting of Kafka Streams, and a Consumer has no tasks; drop the option"
STREAMS_ONLY = {  # option of Kafka Streams -> why a StreamsConsumer lacks it, why a Consumer does
    "num_stream_threads": (
        "a StreamsConsumer is one member; start as many as you want threads",
        NO_TASKS,
    ),
    "processing_guarantee": (
        "the owner of the tasks processes and commits; drop the option",
        NO_TASKS,
    ),
    "commit_interval_ms": (
        "the owner of the tasks commits; or set auto_commit and auto_commit_interval_ms",
        "it is called auto_commit_interval_ms here",
    ),
    "state_dir": ("the owner of the tasks keeps their state; drop the option", NO_TASKS),
    "default_key_serde": (BYTES, BYTES),
    "default_value_serde": (BYTES, BYTES),
}


def why_foreign_or_none(name: str, *, has_tasks: bool) -> str | None:
    """Return why an option of other clients cannot be used here; None if no client has it.

    A name may be written with dots, as Kafka does, or with underscores. has_tasks: it was given to
    a StreamsConsumer.
    """
    underscored = name.replace(".", "_")
    if underscored in STREAMS_ONLY:
        return STREAMS_ONLY[underscored][0 if has_tasks else 1]
    by_prefix = (why for prefix, why in PREFIXES.items() if underscored.startswith(prefix))
    return FOREIGN.get(underscored) or next(by_prefix, None)
