"""The way back to a state that the files confirm, after a failed step or a failed flush.

Both ways cut logs back and replay the coordinator shards whose logs were cut. They differ in how
far they go: `undo_unit` goes to the savepoints that writers took during one unit of work
(`FlushGate.begin_write`), `undo_unflushed` to what the last successful flush made durable.

While either runs, `is_running` is True. An error in that time is final: nothing is known of the
disk any more, so the node must end and start again from its files.
"""

from collections.abc import Callable, Iterable

from apportion.errors import Code
from apportion.machine import Arrived, Instant
from apportion.node.broker import BrokerContext
from apportion.node.config_entries import OFFSETS_TOPIC
from apportion.node.coordinators import Coordinators
from apportion.node.error_responses import error_response
from apportion.node.flush_gate import PendingReply
from apportion.node.partitions import Partition
from apportion.topics import IdPartition, Topic


class Rollback:
    """Cuts logs back and reloads the shards that depended on them."""

    __slots__ = ("_broker", "_coordinators", "_send", "is_running")

    def __init__(
        self,
        broker: BrokerContext,
        coordinators: Coordinators,
        send: Callable[[PendingReply], None],
    ) -> None:
        self._broker = broker
        self._coordinators = coordinators
        self._send = send
        self.is_running = False

    def undo_unit(self, now: Instant) -> list[Arrived]:
        """Undo the writes of the node's failed unit of work and reload its coordinator shards.

        Returns the requests that those shards had parked; they are for the caller to answer.
        """
        self.is_running = True
        topics, savepoints = self._broker.topic_service, self._broker.flush_gate.take_savepoints()
        # The topics first: where the creation of a topic is undone there is no log left to cut.
        if topics in savepoints:
            before = topics.topics
            topics.roll_back(savepoints[topics])
            self._drop_topics(
                [topic for topic in before if topics.topics.with_id(topic.id) is None]
            )
        for files, savepoint in savepoints.items():
            if type(files) is Partition and topics.topics.with_id(files.topic.id) is not None:
                files.roll_back(savepoint)
                self._wake_fetches(files)
        # The shards last: each is replayed from what is left of its log.
        parked: list[Arrived] = []
        for partition in self._coordinators.unconfirmed():
            parked += self._coordinators.reload(partition, now)
        self.is_running = False
        return parked

    def undo_unflushed(self, now: Instant) -> None:
        """Undo every write since the broker's last flush, and fail the replies that waited.

        The replies are retracted first: an error response shows no write that is in doubt.
        """
        self.is_running = True
        lost, replies = self._broker.flush_gate.flush_failed()
        for reply in replies:
            # Kafka's KAFKA_STORAGE_ERROR, upon which producers send the records again.
            body = error_response(reply.request, Code.KAFKA_STORAGE_ERROR)
            self._send(reply._replace(body=body))
        topics = self._broker.topic_service
        if topics in lost:
            self._drop_topics(topics.cut_back())
        for files in lost:
            if type(files) is Partition and topics.topics.with_id(files.topic.id) is not None:
                self._cut_back(files, now)
        self.is_running = False

    def _cut_back(self, partition: Partition, now: Instant) -> None:
        """Cut a partition back to its last good flush; reload its coordinator shard, if any."""
        partition.cut_back()
        self._wake_fetches(partition)
        # The shard knows of records that are gone, so it has to be read again.
        if partition.topic.name == OFFSETS_TOPIC:
            self._fail_parked(self._coordinators.reload(partition, now))

    def _drop_topics(self, topics: Iterable[Topic]) -> None:
        """Delete the logs of topics whose creation never reached the disk."""
        for topic in topics:
            if topic.name == OFFSETS_TOPIC:
                self._fail_parked(self._coordinators.close())
            self._broker.partitions.delete_logs(topic)

    def _fail_parked(self, parked: Iterable[Arrived]) -> None:
        """Answer parked requests with COORDINATOR_NOT_AVAILABLE, upon which clients retry."""
        for request in parked:
            self._send(
                PendingReply(
                    request.ticket, error_response(request, Code.COORDINATOR_NOT_AVAILABLE), request
                )
            )

    def _wake_fetches(self, partition: Partition) -> None:
        """Have the delayed fetches of a partition that was cut back tried again."""
        self._broker.delayed_fetches.partition_changed(
            IdPartition(partition.topic.id, partition.index)
        )
