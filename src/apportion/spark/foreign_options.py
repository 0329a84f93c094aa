"""Options of Spark's own Kafka source and its clients that ours cannot have, with the reason."""

NO_SERIALIZER = "this is a source; drop the option"
BATCH_READS = "it is for batch reads; a stream with trigger(availableNow=True) reads up to now"
STREAMS = "it limits the micro-batches of a stream; drop the option"
REFUSED = {  # option -> why it cannot be used with a real group member
    "assign": (
        "the group decides which partitions this stream reads; use subscribe, or a batch read"
    ),
    "kafka.enable.auto.commit": (
        "the source commits a batch when Spark has committed it; drop the option"
    ),
    "kafka.auto.offset.reset": (
        "use startingOffsets, which applies where the group has no committed offset"
    ),
    "kafka.key.deserializer": (
        "keys are bytes; decode them with Spark functions and drop the option"
    ),
    "kafka.value.deserializer": (
        "values are bytes; decode them with Spark functions and drop the option"
    ),
    "kafka.key.serializer": NO_SERIALIZER,
    "kafka.value.serializer": NO_SERIALIZER,
    "kafka.interceptor.classes": "interceptors do not exist here; drop the option",
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
REFUSED_IN_BATCH_READS = {  # what has another reason in a batch read
    **{name: why for name, why in REFUSED.items() if name != "assign" and why != BATCH_READS},
    "kafka.enable.auto.commit": "a batch read commits nothing; drop the option",
    "kafka.auto.offset.reset": "use startingOffsets",
    "groupIdPrefix": "a batch read joins no group; drop the option",
    "kafka.partition.assignment.strategy": "a batch read joins no group; drop the option",
    "maxOffsetsPerTrigger": STREAMS,
    "minOffsetsPerTrigger": STREAMS,
    "maxTriggerDelay": STREAMS,
}
