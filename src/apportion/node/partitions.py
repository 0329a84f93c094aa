"""The partitions of this broker: one log each, visible to consumers as far as it is on the disk.

A log is opened on first use.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from re import fullmatch

from apportion.errors import Code, Refused
from apportion.node.flush_gate import FlushGate
from apportion.node.producers import ProducerStates
from apportion.store.disk import Disk, DiskError
from apportion.store.log import Log
from apportion.store.settings import LogSettings
from apportion.topics import Topic, TopicId, Topics
from apportion.wire.batch import BatchHeader, join_encoded, read_header
from apportion.wire.batch_rewrite import set_base_offset

TOPICS = "topics"  # the directory of all logs
PRODUCER_ID_BYTE = 43  # the first byte of the producer id in a batch header
LEADER_EPOCH = 0  # of every partition, because one broker leads them all for ever


class Partition:
    """One partition. Readers see its records from `start_offset` to before `high_watermark`.

    flush_seq: the flush that covers everything appended so far.
    """

    __slots__ = (
        "_durable_from",
        "_durable_to",
        "_flushing_from",
        "_flushing_to",
        "flush_gate",
        "flush_seq",
        "high_watermark",
        "index",
        "log",
        "producers",
        "start_offset",
        "topic",
    )

    def __init__(self, topic: Topic, index: int, log: Log, flush_gate: FlushGate) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.flush_gate = flush_gate
        self.producers = ProducerStates()
        self.flush_seq = 0  # of the newest append
        self.start_offset = self._flushing_from = self._durable_from = log.start_offset
        self.high_watermark = self._flushing_to = self._durable_to = log.next_offset

    def append(self, batch: bytearray, header: BatchHeader, now_ms: int) -> int:
        """Append a Produce request's batch to the partition; return its base offset.

        The batch is durable when the flush of number `flush_seq` has succeeded.
        """
        self.flush_gate.begin_write(self)
        base_offset = self.log.next_offset
        set_base_offset(batch, base_offset, LEADER_EPOCH)
        self.log.append(
            batch,
            last_offset=base_offset + header.last_offset_delta,
            max_timestamp_ms=header.max_timestamp_ms,
        )
        # After the log, because a DiskError must leave the producer states as they were: the
        # producer sends the same sequence numbers again.
        self.producers.appended(header, base_offset, now_ms)
        self.flush_seq = self.flush_gate.wrote(self)
        return base_offset

    def append_records(self, records: Sequence[bytes], now_ms: int) -> None:
        """Append coordinator records to a partition of `__consumer_offsets` as one batch.

        records: each as `encode_record` returns it. The batch is durable when the flush of number
        `flush_seq` has succeeded.
        """
        self.flush_gate.begin_write(self)
        base_offset = self.log.next_offset
        batch = join_encoded(
            records, base_offset=base_offset, timestamp_ms=now_ms, leader_epoch=LEADER_EPOCH
        )
        self.log.append(batch, last_offset=base_offset + len(records) - 1, max_timestamp_ms=now_ms)
        self.flush_seq = self.flush_gate.wrote(self)

    def delete_before(self, offset: int) -> int:
        """Delete the records below `offset` for DeleteRecords, and return the new log start offset.

        The deletion is durable at `flush_seq`.
        Errors: OFFSET_OUT_OF_RANGE.
        """
        if not 0 <= offset <= self.high_watermark:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE,
                f"{self.topic.name}-{self.index} ends at {self.high_watermark}, before {offset}",
            )
        if offset > self.log.start_offset:
            self.flush_gate.begin_write(self)
            self.log.raise_start_offset(offset)
            self.flush_seq = self.flush_gate.wrote(self)
        return self.log.start_offset

    def delete_expired(self, offset: int) -> None:
        """Delete the records below `offset`, up to `high_watermark`, for retention.

        A segment that held nothing else takes no more batches.
        """
        self.flush_gate.begin_write(self)
        # The segment that is written is never deleted, because its name and its end determine the
        # next offset (decision 35). So an empty one takes its place.
        if offset == self.log.next_offset:
            self.log.roll_segment()
        self.delete_before(offset)

    def max_timestamp_or_none(self) -> tuple[int, int] | None:
        """Return offset and timestamp of the first visible record with the largest timestamp.

        Returns None in an empty log. For ListOffsets with MAX_TIMESTAMP.
        """
        largest_ms = self.log.largest_timestamp_ms(self.high_watermark)
        return None if largest_ms < 0 else self.log.offset_at_time(largest_ms, self.high_watermark)

    def read(self, offset: int, max_bytes: int) -> memoryview:
        """Return whole batches of the partition from `offset` up to the high watermark, for Fetch.

        The result is empty at the partition's end. max_bytes: the first batch may exceed it.
        Errors: OFFSET_OUT_OF_RANGE.
        """
        # Up to the log's end: between the high watermark and the end there are records, they are
        # only not on the disk yet.
        if not self.start_offset <= offset <= self.log.next_offset:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is outside {self.topic.name}-{self.index}",
            )
        if offset >= self.high_watermark:
            return memoryview(b"")
        return self.log.read(offset, max_bytes, self.high_watermark)

    def take_unsynced_paths(self) -> tuple[str, ...]:
        """Return the files that the flush gate's next flush must sync, each only once.

        The present ends of the log are remembered for `note_durable`.
        """
        # Now, not when the flush has ended: what is appended while the disk syncs belongs to the
        # next flush.
        self._flushing_from, self._flushing_to = self.log.start_offset, self.log.next_offset
        return self.log.take_unsynced_paths()

    def note_durable(self) -> None:
        """Note that the flush has covered what was written before `take_unsynced_paths`."""
        self._durable_from, self._durable_to = self._flushing_from, self._flushing_to

    def on_flushed(self) -> None:
        """Show consumers what the flush has covered of the partition; hide what was deleted."""
        self.start_offset, self.high_watermark = self._durable_from, self._durable_to
        # Files go only when the new start is durable (decision 35): a crash could otherwise bring
        # back a start whose records are gone.
        self.log.delete_before(self.start_offset)

    def savepoint(self) -> tuple[int, int]:
        """Return where the log ends and begins now, for `roll_back`."""
        return self.log.next_offset, self.log.start_offset

    def roll_back(self, savepoint: tuple[int, int]) -> None:
        """Cut the partition's log and producer states back to `savepoint`, after a failed step.

        Consumers see what they saw before.
        """
        self.log = self.log.truncated(*savepoint)
        # Or a batch that was cut away would be taken for stored when its producer sends it again.
        self.producers.roll_back(self.log.next_offset, self._stored_producers())
        self.flush_seq = self.flush_gate.wrote(self)

    def cut_back(self) -> None:
        """Cut the partition's log back to what is durable, after the disk refused a flush."""
        self.log = self.log.truncated(self._durable_to, self._durable_from)
        self._flushing_from, self._flushing_to = self._durable_from, self._durable_to
        self.producers.roll_back(self._durable_to, self._stored_producers())
        self.flush_seq = self.flush_gate.wrote(self)

    def remember_producers(self, since_ms: int) -> None:
        """Rebuild the partition's idempotent producer states from its log, at a broker's start.

        since_ms: producers that have appended nothing since then (wall ms) are left out.
        """
        self.producers = self._stored_producers()
        self.producers.forget_before(since_ms)

    def _stored_producers(self) -> ProducerStates:
        """Return the idempotent producers' states by the batches of the partition's log.

        Deleted batches that are still in the files count, because their producers may send them
        again.
        """
        producers = ProducerStates()
        for view in self.log.batches(0):
            # Only a batch with a producer id is decoded, and few have one: -1 stands for none, so
            # the sign bit tells.
            if view[PRODUCER_ID_BYTE] < 128:
                header = read_header(view)
                producers.appended(header, header.base_offset, header.max_timestamp_ms)
        return producers


class Partitions:
    """The open partitions, by topic id and index.

    layout: returns the log settings of a topic.
    """

    def __init__(
        self, disk: Disk, layout: Callable[[Topic], LogSettings], flush_gate: FlushGate
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._flush_gate = flush_gate
        self._open: dict[tuple[TopicId, int], Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        """Yield the open partitions, in the order in which they were opened."""
        return iter(list(self._open.values()))

    def open_partition(self, topic: Topic, index: int) -> Partition:
        """Open a partition's log unless it is open; return the partition, empty if it is new."""
        opened = self._open.get((topic.id, index))
        if opened is None:
            log = Log.open(self._disk, log_directory(topic, index), self._layout(topic))
            opened = self._open[topic.id, index] = Partition(topic, index, log, self._flush_gate)
        return opened

    def apply_layouts(self, topics: Topics) -> None:
        """Give the settings of these topics, which may have changed, to their open logs."""
        for partition in self._open.values():
            if topics.with_id(partition.topic.id) is not None:
                partition.log.settings = self._layout(partition.topic)

    def make_directory(self, topic: Topic) -> None:
        """Create the directory for the topic's logs; it is durable when TOPICS is."""
        self._disk.make_dir(topic_directory(topic.id.hex()))

    def written_indexes(self, topic: Topic) -> list[int]:
        """Return the indexes of the topic's partitions that were ever written."""
        names = self._disk.list_dir(topic_directory(topic.id.hex()))
        return sorted(int(name.rpartition("-")[2]) for name in names if fullmatch(r".*-\d+", name))

    def delete_logs(self, topic: Topic) -> None:
        """Close and delete the logs of a topic, for DeleteTopics.

        Files that the disk refuses to delete go at the next start. After any other failure a
        second call deletes what is left.
        """
        deleted = [partition for partition in self._open.values() if partition.topic.id == topic.id]
        for partition in deleted:
            # A flush would otherwise sync files that are gone.
            self._flush_gate.forget(partition)
        with suppress(DiskError):
            for partition in deleted:
                partition.log.delete()
            self._disk.delete(topic_directory(topic.id.hex()))
        # Last, so that a second call finds them.
        for partition in deleted:
            del self._open[topic.id, partition.index]

    def forget_producers(self, before_ms: int) -> None:
        """Forget the producers that have written nothing since then, in all open partitions."""
        for partition in self:
            partition.producers.forget_before(before_ms)

    def delete_unknown(self, topics: Topics) -> None:
        """Delete the log directories of topics that `topics` does not have, at a broker's start.

        A directory has the topic id as its name. A deletion that a crash has interrupted ends here.
        """
        for name in self._topic_directories():
            if topics.with_id(bytes.fromhex(name)) is None:
                self._delete_topic_directory(topic_directory(name))

    def is_empty(self) -> bool:
        """Return whether the disk has no log of any topic."""
        return not self._topic_directories()

    def recover(self, topics: Topics, producers_since_ms: int) -> None:
        """Open the partition logs of these topics at a start of the broker, for the next flush."""
        self._disk.make_dir(TOPICS)
        for topic in topics:
            self.make_directory(topic)
            for index in self.written_indexes(topic):
                partition = self.open_partition(topic, index)
                # From the log, because there is no snapshot of producers: a batch that is repeated
                # after a crash must still be recognised (KIP-98).
                partition.remember_producers(producers_since_ms)
                self._flush_gate.wrote(partition)

    def _topic_directories(self) -> list[str]:
        """Return the names of the topics' directories on the disk: their topic ids in hex."""
        return [name for name in self._disk.list_dir(TOPICS) if fullmatch("[0-9a-f]{32}", name)]

    def _delete_topic_directory(self, directory: str) -> None:
        """Delete a topic's directory, in which each partition's log is one more directory."""
        for log in self._disk.list_dir(directory):
            for name in self._disk.list_dir(f"{directory}/{log}"):
                self._disk.delete(f"{directory}/{log}/{name}")
            self._disk.delete(f"{directory}/{log}")
        self._disk.delete(directory)


def topic_directory(id_hex: str) -> str:
    """Return the path of the directory of a topic's partition logs, in the data directory.

    The directory is named by topic id, so a recreated topic never meets old files.
    """
    return f"{TOPICS}/{id_hex}"


def log_directory(topic: Topic, index: int) -> str:
    """Return the directory of a partition's log, named as in Kafka."""
    return f"{topic_directory(topic.id.hex())}/{topic.name}-{index}"
