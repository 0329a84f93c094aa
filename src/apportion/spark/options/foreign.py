"""Options of Spark's own Kafka source and its clients that ours cannot have, with the reason.

docs/from-format-kafka.md prints them.
"""

NO_SERIALIZER = "rows are read here, and nothing is serialized; drop the option"
BATCH_READS = "it is for batch reads; a stream with trigger(availableNow=True) reads up to now"
STREAMS = "it limits the micro-batches of a stream; drop the option"
AUTOMATIC = "it is chosen by itself here; drop the option"
NO_METRICS = "the client has no metrics of Kafka's; drop the option"
NO_JOIN = "a batch read joins no group; drop the option"
REQUEST_TIMEOUT = "requests are sent again for kafka.request.timeout.ms; drop the option"
NO_SHARES = "a query is a member of a consumer group, and of no share group; drop the option"
NO_PROVIDERS = (
    "no class of Java is asked for values; give the value itself, which the program may read where "
    "it likes"
)
REFUSED_EVERYWHERE = {  # option -> why no read can have it
    "checkpointLocation": "it is for writeStream; give it there",
    "kafka.config.providers": NO_PROVIDERS,
    "kafka.share.acknowledgement.mode": NO_SHARES,
    "kafka.share.acquire.mode": NO_SHARES,
    "topic": "it is for writes; name the topics to read in subscribe",
    "kafkaConsumer.pollTimeoutMs": (
        "a task waits two minutes for a broker that does not answer, or longer with a longer "
        "kafka.request.timeout.ms; drop the option"
    ),
    "fetchOffset.numRetries": REQUEST_TIMEOUT,
    "fetchOffset.retryIntervalMs": REQUEST_TIMEOUT,
    "partition.metadata.cache.ttl.ms": "metadata is fetched again where it is wrong; drop it",
    "kafka.key.deserializer": (
        "keys are bytes; decode them with Spark functions and drop the option"
    ),
    "kafka.value.deserializer": (
        "values are bytes; decode them with Spark functions and drop the option"
    ),
    "kafka.key.serializer": NO_SERIALIZER,
    "kafka.value.serializer": NO_SERIALIZER,
    "kafka.interceptor.classes": "interceptors do not exist here; drop the option",
    "kafka.client.rack": "records are read from the leaders of partitions; drop the option",
    "kafka.allow.auto.create.topics": "a read never makes a topic; drop the option",
    "kafka.exclude.internal.topics": (
        "a pattern may match internal topics; write the pattern so that it does not"
    ),
    "kafka.max.poll.records": (
        "a task reads its whole range; limit that by maxRecordsPerPartition, or a stream's batch "
        "by maxOffsetsPerTrigger"
    ),
    **dict.fromkeys(
        (
            "kafka.auto.include.jmx.reporter",
            "kafka.enable.metrics.push",
            "kafka.metric.reporters",
            "kafka.metrics.num.samples",
            "kafka.metrics.recording.level",
            "kafka.metrics.sample.window.ms",
        ),
        NO_METRICS,
    ),
    **dict.fromkeys(
        (
            "kafka.bootstrap.resolve.timeout.ms",
            "kafka.check.crcs",
            "kafka.client.dns.lookup",
            "kafka.connections.max.idle.ms",
            "kafka.default.api.timeout.ms",
            "kafka.fetch.max.bytes",
            "kafka.fetch.max.wait.ms",
            "kafka.fetch.min.bytes",
            "kafka.max.partition.fetch.bytes",
            "kafka.metadata.cluster.check.enable",
            "kafka.metadata.recovery.rebootstrap.trigger.ms",
            "kafka.metadata.recovery.strategy",
            "kafka.receive.buffer.bytes",
            "kafka.reconnect.backoff.max.ms",
            "kafka.reconnect.backoff.ms",
            "kafka.retry.backoff.max.ms",
            "kafka.retry.backoff.ms",
            "kafka.send.buffer.bytes",
            "kafka.socket.connection.setup.timeout.max.ms",
            "kafka.socket.connection.setup.timeout.ms",
        ),
        AUTOMATIC,
    ),
}
COMMITS_BATCHES = "the source commits a batch when Spark has committed it; drop the option"
REFUSED_IN_STREAMS = {  # option -> why it cannot be used with a real group member
    **REFUSED_EVERYWHERE,
    "kafka.enable.auto.commit": COMMITS_BATCHES,
    "kafka.auto.commit.interval.ms": COMMITS_BATCHES,
    "kafka.auto.offset.reset": (
        "use startingOffsets, which applies where the group has no committed offset"
    ),
    "groupIdPrefix": "the group is real and has one name; use kafka.group.id",
    "endingOffsets": BATCH_READS,
    "endingTimestamp": BATCH_READS,
    "endingOffsetsByTimestamp": BATCH_READS,
    "kafka.partition.assignment.strategy": (
        "the classic protocol is spoken here with cooperative-sticky alone, so that queries "
        "keep what stays with them; with KIP-848 the broker assigns, as "
        "kafka.group.remote.assignor says, or a query, as kafka.group.local.assignors says"
    ),
}
COMMITS_NOTHING = "a batch read commits nothing; drop the option"
REFUSED_IN_BATCH_READS = {  # option -> why it cannot be used without a membership
    **REFUSED_EVERYWHERE,
    "kafka.enable.auto.commit": COMMITS_NOTHING,
    "kafka.auto.commit.interval.ms": COMMITS_NOTHING,
    "kafka.auto.offset.reset": "use startingOffsets",
    "groupIdPrefix": NO_JOIN,
    "kafka.partition.assignment.strategy": NO_JOIN,
    "maxOffsetsPerTrigger": STREAMS,
    "minOffsetsPerTrigger": STREAMS,
    "maxTriggerDelay": STREAMS,
}
