"""The recovery of topics and logs at the start of a broker, from what is on its disk."""

from apportion.machine import Instant, Note
from apportion.node.bootstrap import BootstrapMetadata, record_bootstrap
from apportion.node.broker import BrokerContext
from apportion.store.disk import Damaged


def recover(
    broker: BrokerContext, now: Instant, fresh: bytes, given: BootstrapMetadata
) -> list[Note]:
    """Open the logs of all topics, cut torn tails off, and return a log line for each.

    Then the metadata that is given is recorded.

    All logs are put into the next flush, because what is read here may be in the page cache only.
    fresh: 16 random bytes, for the cluster id of a new data directory.
    Errors: Damaged where there are logs but no catalog that names them.
    """
    notes = delete_unknown_logs(broker)
    broker.partitions.recover(
        broker.topic_service.topics, now.wall_ms - broker.settings.producer_id_expiration_ms
    )
    for partition in broker.partitions:
        if lost_bytes := partition.log.truncated_bytes:
            name = f"{partition.topic.name}-{partition.index}"
            notes.append(Note("warning", f"{name} lost {lost_bytes} bytes that were half written"))
    # After the logs, whose unknown directories depend on what the catalog had at the start.
    broker.topic_service.finish_recovery(fresh)
    return notes + record_bootstrap(broker.topic_service, given)


def delete_unknown_logs(broker: BrokerContext) -> list[Note]:
    """Delete the logs of topics that the metadata log does not name, at a start of the broker.

    Such topics were deleted. If the metadata log has lost its end, which may have named them, the
    logs stay until the next start, and a log line says so.
    Errors: Damaged where there are logs but no metadata log that names them.
    """
    topic_service, partitions = broker.topic_service, broker.partitions
    # Otherwise a lost catalog would look like a new directory, and every log would be deleted
    # below.
    if not topic_service.cluster_id and not partitions.is_empty():
        raise Damaged(
            "catalog.log holds nothing that can be read, but there are logs of topics "
            "that it should name"
        )
    if topic_service.cut_bytes:
        lost = f"catalog.log lost {topic_service.cut_bytes} bytes that were half written; "
        return [Note("warning", f"{lost}logs that nothing names are kept for now")]
    partitions.delete_unknown(topic_service.topics)
    return []
