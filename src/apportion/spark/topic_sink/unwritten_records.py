"""The sentences for records that cannot be written: what happened, where, and what to do."""

from typing import Any

from apportion.errors import Code, Refused
from apportion.exports import install_command
from apportion.member.permissions import denial_or_none, grant
from apportion.security.acls import AclOperation

NO_LIBRARY = (
    "writing to a topic needs the package confluent-kafka in the Python of the driver and of every "
    f"executor: there, {install_command('spark')}"
)
NO_PRODUCER_ID = (
    "CLUSTER_AUTHORIZATION_FAILED: this client's principal may write to no topic at all; "
    f"{grant('WRITE', AclOperation.WRITE, '--topic TOPIC')}, and old brokers want --operation "
    "IdempotentWrite --cluster besides"
)
REPLICAS = "see min.insync.replicas of the topic, and that its brokers run"
REMEDIES = {  # by the codes of brokers
    Code.MESSAGE_TOO_LARGE: (
        "raise max.message.bytes of the topic and kafka.max.request.size for large records, or "
        "lower kafka.batch.size for batches of small ones"
    ),
    Code.RECORD_LIST_TOO_LARGE: "lower kafka.batch.size, or raise segment.bytes of the topic",
    Code.INVALID_RECORD: (
        "a compacted topic takes no record without a key: fill the column key; the log of the "
        "broker may say more"
    ),
    Code.NOT_ENOUGH_REPLICAS: REPLICAS,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: REPLICAS,
    Code.UNKNOWN_TOPIC_OR_PARTITION: "the topic may have been deleted: see that it is there",
    Code.UNSUPPORTED_COMPRESSION_TYPE: "choose another kafka.compression.type",
}
OF_LIBRDKAFKA = {  # by the names of its own codes
    "_MSG_TIMED_OUT": (
        "not acknowledged within kafka.delivery.timeout.ms: see that the brokers run and that "
        "the topic has leaders, or raise the timeout"
    ),
    "_UNKNOWN_PARTITION": "there is no such partition: add partitions, or choose another one",
    "_UNKNOWN_TOPIC": "the topic may have been deleted: see that it is there",
    "_AUTHENTICATION": "the broker does not accept the login any more: see kafka.sasl.jaas.config",
    "_SSL": "no TLS with the broker: see the options kafka.ssl.*",
}


def topic_sentence(topic: str, refusal: Refused) -> str:
    """Return why a topic cannot be looked up."""
    return f"topic {topic}: {_with_remedy(topic, refusal)}"


def record_sentence(error: Any, topic: str, partition: int | None) -> str:
    """Return why a record was not written. error: confluent-kafka's.

    partition: None, or negative, if none was chosen yet.
    """
    place = f"topic {topic}"
    if partition is not None and partition >= 0:
        place += f", partition {partition}"
    if error.code() < 0:
        return f"{place}: {_own_sentence(error)}"
    return f"{place}: {_with_remedy(topic, Refused(Code.of(error.code())))}"


def producer_sentence(error: Any) -> str:
    """Return why a producer cannot go on, whatever the record."""
    if error.code() == Code.CLUSTER_AUTHORIZATION_FAILED:
        return NO_PRODUCER_ID
    if error.code() < 0:
        return _own_sentence(error)
    code = Code.of(error.code())
    return f"{code.name}: {code.sentence.removesuffix('.')} ({error.str()})"


def _own_sentence(error: Any) -> str:
    """Return an error that librdkafka itself has found."""
    name = error.name()
    return f"{name}: {OF_LIBRDKAFKA.get(name, error.str().removeprefix('Local: '))}"


def _with_remedy(topic: str, refusal: Refused) -> str:
    """Return the error of a broker, and what to do about it."""
    denial = denial_or_none("Produce", refusal.code, [topic])
    if denial is not None:
        return f"{refusal.code.name}: {denial}"
    remedy, text = REMEDIES.get(refusal.code), str(refusal)
    return text if remedy is None else f"{text.removesuffix('.')}: {remedy}"
