"""The topics of this broker: how they are created, grown, deleted and configured.

Source of the rules: Kafka's checks for CreateTopics, DeleteTopics and CreatePartitions, and of
automatic creation by Metadata. It knows no requests and responses.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.node.config_entries import OFFSETS_TOPIC, topic_entries
from apportion.node.delayed_fetches import DelayedFetches
from apportion.node.flush_gate import FlushGate
from apportion.node.live_settings import ALL_BROKERS, LiveSettings, own_settings_of_all
from apportion.node.partitions import TOPICS, Partitions
from apportion.node.settings import BrokerSettings
from apportion.node.topic_rules import TopicRules, topic_rules
from apportion.node.topic_settings import check_settings
from apportion.store.metadata_log import BROKER, EMPTY_END, GROUP, TOPIC, MetadataLog
from apportion.topics import NAME_LENGTH, IdPartition, Topic, TopicId, Topics, is_topic_name
from apportion.wire.uuids import uuid_text

INTERNAL_TOPICS = (OFFSETS_TOPIC, "__transaction_state", "__share_group_state")
DEFAULT_COUNT = -1  # a partition count that stands for num.partitions
MAX_NEW_PARTITIONS = 10_000
PRODUCER_ID_BLOCK = 1000  # producer ids are taken from the catalog in blocks of this size
OFFSETS_TOPIC_CONFIG = {"cleanup.policy": "compact", "compression.type": "producer"}


class AlteredResource(NamedTuple):
    """All own settings that a topic, a group or a broker is to have (`store.metadata_log`)."""

    kind: str
    name: str
    own: Mapping[str, str]


class TopicService:
    """All topics with ids and partition counts, all altered settings; cluster id and producer ids.

    Every change is recorded in the metadata log, durable at `flush_seq`. The logs of a deleted
    topic are deleted after that.
    live: the settings that hold now. durable: what is on the disk of the metadata log for certain.
    """

    __slots__ = (
        "_delayed_fetches",
        "_deleted",
        "_flush_gate",
        "_flushing",
        "_flushing_deleted",
        "_metadata_log",
        "_partitions",
        "_producer_ids",
        "_rules",
        "durable",
        "flush_seq",
        "has_retention",
        "live",
    )

    def __init__(
        self,
        metadata_log: MetadataLog,
        settings: BrokerSettings,
        flush_gate: FlushGate,
        partitions: Partitions,
        delayed_fetches: DelayedFetches,
    ) -> None:
        self._metadata_log = metadata_log
        self.live = LiveSettings.read(metadata_log, settings)
        self._flush_gate = flush_gate
        self._partitions = partitions
        self._delayed_fetches = delayed_fetches
        self._rules: dict[TopicId, TopicRules] = {}
        # a topic, perhaps one deleted since, has retention: its records are deleted by age or size
        self.has_retention = False
        self._deleted: list[Topic] = []
        self._flushing_deleted: list[Topic] = []
        self.durable = self._flushing = EMPTY_END
        self._producer_ids = (0, 0)  # the next producer id, and the end of the block it is from
        self.flush_seq = 0

    @property
    def topics(self) -> Topics:
        """The present topics; some may not be durable yet."""
        return self._metadata_log.topics

    @property
    def for_shards(self) -> tuple[Topics, LiveSettings]:
        """The topics and settings that every coordinator shard has to know."""
        return self.topics, self.live

    def differs_from(self, announced: tuple[Topics, LiveSettings]) -> bool:
        """Return whether the shards have to be told of other topics or settings than these.

        By identity: after a rollback they may equal those before, and some shards, but not all,
        have been told of those in between.
        """
        topics, live = announced
        return self._metadata_log.topics is not topics or self.live is not live

    @property
    def cluster_id(self) -> str:
        """The cluster id that the data directory got when it was new."""
        return self._metadata_log.cluster_id or ""

    @property
    def cut_bytes(self) -> int:
        """Return how many bytes at the end of the catalog could not be read at the start."""
        return self._metadata_log.truncated_bytes

    def finish_recovery(self, fresh: bytes) -> None:
        """Give a new data directory its cluster id, and put the metadata log into the next flush.

        fresh: 16 random bytes for the id.
        """
        if self._metadata_log.cluster_id is None:
            self._metadata_log.name_cluster(uuid_text(fresh))
        self.has_retention = any(self.rules(topic).has_retention for topic in self.topics)
        self._wrote()

    def cut_back(self) -> list[Topic]:
        """Return to the topics on the disk after a failed flush, and return the lost topics."""
        before = self.topics
        # The block of producer ids may not be on the disk: a new one is claimed, so no id is given
        # out twice.
        self._deleted, self._producer_ids = [], (0, 0)
        self._metadata_log = self._metadata_log.truncated(self.durable.size_bytes)
        # A deletion may be durable although `on_flushed` has failed since: its logs still have to
        # go.
        self._flushing_deleted = [
            topic for topic in self._flushing_deleted if self.topics.with_id(topic.id) is None
        ]
        self._wrote()
        lost = [topic for topic in before if self.topics.with_id(topic.id) is None]
        self._reread_settings()
        for topic in lost:
            self._wake_fetches(topic)
        return lost

    def savepoint(self) -> int:
        """Return where the catalog ends now, for `roll_back`."""
        return self._metadata_log.size_bytes

    def roll_back(self, savepoint: int) -> None:
        """Cut the metadata log back to its first `savepoint` bytes, and read the topics again."""
        self._metadata_log = self._metadata_log.truncated(savepoint)
        self._deleted = [topic for topic in self._deleted if self.topics.with_id(topic.id) is None]
        self._reread_settings()
        self._producer_ids = (0, 0)
        self._wrote()

    def validate(
        self, name: str, count: int, config: Mapping[str, str | None], fresh: bytes
    ) -> Topic:
        """Return the topic as it would be created, with the id `fresh`, for CreateTopics.

        Errors: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, POLICY_VIOLATION,
        INVALID_CONFIG, as in Kafka.
        """
        if self.topics.named(name) is not None:
            raise Refused(Code.TOPIC_ALREADY_EXISTS, f"there is a topic {name} already")
        check_name(name)
        # Kafka's metric names replace dots by underscores, so it refuses such names, too.
        metric_name = name.replace(".", "_")
        for other in self.topics:
            if other.name.replace(".", "_") == metric_name:
                raise Refused(
                    Code.INVALID_TOPIC_EXCEPTION,
                    f"{name} and {other.name} differ only in '.' and '_'",
                )
        if count == DEFAULT_COUNT:
            count = self.live.broker.num_partitions
        if count < 1:
            raise Refused(
                Code.INVALID_PARTITIONS, f"a topic has at least one partition, not {count}"
            )
        check_new_partitions(count)
        check_settings(config)
        return Topic(name, fresh, count)

    def create(self, topic: Topic, config: Mapping[str, str | None]) -> None:
        """Create the topic; it is durable at `flush_seq`."""
        self._flush_gate.begin_write(self)
        # Before the catalog names the topic: a directory without a name is deleted at the next
        # start, a name without a directory would fail.
        self._partitions.make_directory(topic)
        self._metadata_log.create_topic(
            topic, {name: value for name, value in config.items() if value is not None}
        )
        self.has_retention |= self.rules(topic).has_retention
        self._wrote()

    def auto_create_or_none(self, name: str, fresh: bytes) -> Topic | None:
        """Create a topic that Metadata names, with defaults; None if the name is not allowed."""
        if name == OFFSETS_TOPIC:
            return self.ensure_offsets_topic(fresh)
        # There are no transactions and no share groups that would use them.
        if name in INTERNAL_TOPICS:
            return None
        try:
            topic = self.validate(name, DEFAULT_COUNT, {}, new_topic_id(fresh, name))
        except Refused:
            return None
        self.create(topic, {})
        return topic

    def ensure_offsets_topic(self, fresh: bytes) -> Topic:
        """Return `__consumer_offsets`; create it if it does not exist."""
        existing = self.offsets_topic_or_none()
        if existing is not None:
            return existing
        topic = Topic(OFFSETS_TOPIC, fresh, self.live.broker.offsets_topic_num_partitions)
        self.create(topic, OFFSETS_TOPIC_CONFIG)
        return topic

    def offsets_topic_or_none(self) -> Topic | None:
        """Return `__consumer_offsets`; None until a client looks for a coordinator.

        A Metadata request that names it and may create topics creates it, too.
        """
        return self._metadata_log.topics.named(OFFSETS_TOPIC)

    def delete(self, topic: Topic) -> None:
        """Delete the topic, for DeleteTopics; its logs follow when that is durable.

        Errors: INVALID_REQUEST for an internal topic, TOPIC_DELETION_DISABLED.
        """
        if topic.name in INTERNAL_TOPICS:
            raise Refused(Code.INVALID_REQUEST, f"{topic.name} belongs to the broker")
        if not self.live.broker.delete_topic_enable:
            raise Refused(Code.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        self._flush_gate.begin_write(self)
        self._metadata_log.delete_topic(topic.name)
        self._rules.pop(topic.id, None)
        # The logs stay until the deletion is durable: after a crash the topic would exist without
        # its records.
        self._deleted.append(topic)
        self._wake_fetches(topic)
        self._wrote()

    def grow(self, topic: Topic, count: int) -> None:
        """Raise the topic's partition count to `count`, for CreatePartitions.

        Errors: INVALID_REQUEST for an internal topic, POLICY_VIOLATION.
        """
        if topic.name in INTERNAL_TOPICS:
            raise Refused(
                Code.INVALID_REQUEST,
                f"the partition count of {topic.name} decides where groups are and cannot change",
            )
        check_new_partitions(count - topic.partitions)
        self._flush_gate.begin_write(self)
        self._metadata_log.add_partitions(topic.name, count)
        self._wrote()

    def allocate_producer_id(self) -> int:
        """Return a producer id that was never given out; that is durable at `flush_seq`."""
        next_id, end = self._producer_ids
        # a crash loses the rest of a block, so an id is never given out twice
        if next_id == end:
            self._flush_gate.begin_write(self)
            block = self._metadata_log.claim_producer_ids(PRODUCER_ID_BLOCK)
            next_id, end = block.start, block.stop
            self._wrote()
        self._producer_ids = (next_id + 1, end)
        return next_id

    def own_settings(self, kind: str, name: str) -> dict[str, str]:
        """Return the own settings of a topic, a group, a broker or all (`store.metadata_log`)."""
        if (kind, name) == (BROKER, ALL_BROKERS):
            return own_settings_of_all(self._metadata_log, self.live.started_with)
        return self._metadata_log.config_of(name, kind)

    def configured(self, kind: str) -> list[str]:
        """Return the names of the resources of a kind that have own settings, in order."""
        return self._metadata_log.configured(kind)

    def configure(self, altered: Sequence[AlteredResource]) -> None:
        """Give topics, groups and brokers these own settings and no others.

        They hold from now on, and are durable at `flush_seq`.
        """
        if not altered:
            return
        self._flush_gate.begin_write(self)
        for each in altered:
            self._metadata_log.configure(each.kind, each.name, each.own)
        # One pass for all of a request, which may name thousands of topics and groups.
        if any(each.kind == BROKER for each in altered):
            self._reread_settings()
        else:
            groups = {each.name: each.own for each in altered if each.kind == GROUP}
            if groups:
                self.live = self.live.with_groups(groups)
            self._obey_settings(
                topic
                for each in altered
                if each.kind == TOPIC and (topic := self.topics.named(each.name)) is not None
            )
        self._wrote()

    @property
    def metadata_log(self) -> MetadataLog:
        """The metadata log as it is now, to read; after a rollback it is another object."""
        return self._metadata_log

    def record(self, changes: Callable[[MetadataLog], None]) -> None:
        """Have the metadata log record changes of no topic; they are durable at `flush_seq`."""
        self._flush_gate.begin_write(self)
        changes(self._metadata_log)
        self._wrote()

    def rules(self, topic: Topic) -> TopicRules:
        """Return the topic's settings as the broker uses them, parsed once after each change."""
        rules = self._rules.get(topic.id)
        if rules is None:
            own = self._metadata_log.config_of(topic.name)
            values = {
                entry.name: entry.value or "" for entry in topic_entries(topic.name, own, self.live)
            }
            rules = self._rules[topic.id] = topic_rules(values)
        return rules

    def is_internal(self, name: str) -> bool:
        """Return whether only the broker writes the topic."""
        return name in INTERNAL_TOPICS

    def take_unsynced_paths(self) -> tuple[str, ...]:
        """Return the files of the metadata log that the next flush must cover.

        `note_durable` is about the present end of the log, and `on_flushed` about the topics
        deleted until now.
        """
        self._flushing_deleted, self._deleted = self._flushing_deleted + self._deleted, []
        self._flushing = self._metadata_log.end
        return (*self._metadata_log.take_unsynced_paths(), TOPICS)

    def note_durable(self) -> None:
        """Note how much of the metadata log the flush has covered."""
        self.durable = self._flushing

    def on_flushed(self) -> None:
        """Delete the logs of topics whose deletion is durable now."""
        # Only those that this flush covered; a topic deleted since then waits for the next one.
        while self._flushing_deleted:
            self._partitions.delete_logs(self._flushing_deleted[0])
            # Only now: after a failure the next flush comes back to it.
            del self._flushing_deleted[0]

    def _reread_settings(self) -> None:
        """Have the broker, groups, topics and logs obey the metadata log as it is now."""
        self.live = LiveSettings.read(self._metadata_log, self.live.started_with)
        self._rules.clear()
        self._obey_settings(self.topics)

    def _obey_settings(self, topics: Iterable[Topic]) -> None:
        """Have these topics and their logs obey the settings of the metadata log as it is now."""
        altered = Topics(topics)
        for topic in altered:
            self._rules.pop(topic.id, None)
        self._partitions.apply_layouts(altered)
        self.has_retention |= any(self.rules(topic).has_retention for topic in altered)

    def _wake_fetches(self, topic: Topic) -> None:
        for index in range(topic.partitions):
            self._delayed_fetches.partition_changed(IdPartition(topic.id, index))

    def _wrote(self) -> None:
        self.flush_seq = self._flush_gate.wrote(self)


def new_topic_id(fresh: bytes, name: str) -> bytes:
    """Return a topic id that is unique to this step and this name."""
    # A machine draws no random numbers: one fresh id comes with each request, which may create many
    # topics.
    return blake2b(name.encode(), key=fresh, digest_size=16).digest()


def check_new_partitions(count: int) -> None:
    """Refuse to create more partitions at once than Kafka would. Errors: POLICY_VIOLATION."""
    if count > MAX_NEW_PARTITIONS:
        raise Refused(
            Code.POLICY_VIOLATION,
            f"{count} partitions at once are too many: up to {MAX_NEW_PARTITIONS} can be made",
        )


def check_name(name: str) -> None:
    """Refuse a topic name that Kafka does not allow. Errors: INVALID_TOPIC_EXCEPTION."""
    if not is_topic_name(name):
        raise Refused(
            Code.INVALID_TOPIC_EXCEPTION,
            f"{name[:NAME_LENGTH]!r} is no topic name: up to {NAME_LENGTH} letters, "
            "digits, '.', '_' and '-', but not '.' or '..'",
        )
