"""Options of Spark's own Kafka sink and its producer that a write cannot have, with the reason."""

from apportion.spark.options.foreign import NO_PROVIDERS

BYTES = "keys and values are bytes or text already; drop the option"
ALL_OR_NOTHING = "writes are not transactional: they are at least once; drop the option"
LIBRARY = "librdkafka, which sends the records, has no such setting; drop the option"
CONNECTIONS = "librdkafka looks after its connections by itself; drop the option"
ONE_PARTITIONER = (
    "records with a key go where Kafka's own partitioner puts them; give a column partition to put "
    "them elsewhere"
)
FOR_READING = "it is for reading; drop the option"
REFUSED_FOR_WRITING = {
    "path": "a topic is no path; give its name as option topic",
    "includeHeaders": "a column headers is written whenever it is there; drop the option",
    "kafka.key.serializer": BYTES,
    "kafka.value.serializer": BYTES,
    "kafka.interceptor.classes": "interceptors do not exist here; drop the option",
    "kafka.partitioner.class": ONE_PARTITIONER,
    "kafka.partitioner.ignore.keys": ONE_PARTITIONER,
    "kafka.partitioner.adaptive.partitioning.enable": ONE_PARTITIONER,
    "kafka.partitioner.availability.timeout.ms": ONE_PARTITIONER,
    "kafka.partitioner.rack.aware": ONE_PARTITIONER,
    "kafka.transactional.id": ALL_OR_NOTHING,
    "kafka.transaction.timeout.ms": ALL_OR_NOTHING,
    "kafka.transaction.two.phase.commit.enable": ALL_OR_NOTHING,
    "kafka.max.block.ms": "a task waits for as long as kafka.delivery.timeout.ms; set that",
    "kafka.client.dns.lookup": CONNECTIONS,
    "kafka.client.rack": "a record goes to the leader of its partition; drop the option",
    "kafka.reconnect.backoff.ms": CONNECTIONS,
    "kafka.reconnect.backoff.max.ms": CONNECTIONS,
    "kafka.send.buffer.bytes": CONNECTIONS,
    "kafka.receive.buffer.bytes": CONNECTIONS,
    "kafka.socket.connection.setup.timeout.ms": CONNECTIONS,
    "kafka.socket.connection.setup.timeout.max.ms": CONNECTIONS,
    "kafka.bootstrap.resolve.timeout.ms": LIBRARY,
    "kafka.metadata.cluster.check.enable": LIBRARY,
    "kafka.metadata.max.idle.ms": LIBRARY,
    "kafka.metadata.recovery.strategy": LIBRARY,
    "kafka.metadata.recovery.rebootstrap.trigger.ms": LIBRARY,
    "kafka.enable.metrics.push": LIBRARY,
    "kafka.auto.include.jmx.reporter": LIBRARY,
    "kafka.config.providers": NO_PROVIDERS,
    "kafka.metric.reporters": LIBRARY,
    "kafka.metrics.num.samples": LIBRARY,
    "kafka.metrics.recording.level": LIBRARY,
    "kafka.metrics.sample.window.ms": LIBRARY,
}
LEFT_ALONE = ("checkpointlocation",)
"""Options of a stream that are Spark's own; Spark hands them to its sink, too."""
