"""The settings of one topic in the form that the broker uses, parsed once.

The rules decide nothing: `node/batch_validation.py` accepts batches by these rules,
`node/retention.py` deletes by them, and a log is laid out by them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.store.settings import LogSettings
from apportion.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD

CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
FOREVER = -1
"""Of `retention_ms` and `retention_bytes`: no limit."""


class TopicRules(NamedTuple):
    """The settings of a topic that are obeyed, under Kafka's names for them.

    codec: the compression of every stored batch; None: the one that its producer chose.
    before_max_ms, after_max_ms: `message.timestamp.before.max.ms` and `.after.max.ms`.
    """

    is_compacted: bool
    is_deleted: bool
    codec: int | None
    is_append_time: bool
    before_max_ms: int
    after_max_ms: int
    max_message_bytes: int
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int

    @property
    def has_retention(self) -> bool:
        """Return whether records are deleted by age or by size."""
        return self.is_deleted and (self.retention_ms >= 0 or self.retention_bytes >= 0)

    @property
    def layout(self) -> LogSettings:
        """The topic settings that shape its logs' files: segment size and age, index interval.

        Given to a partition's log when the broker opens it.
        """
        return LogSettings(
            segment_bytes=self.segment_bytes,
            index_interval_bytes=self.index_interval_bytes,
            segment_ms=self.segment_ms,
        )


def topic_rules(values: Mapping[str, str]) -> TopicRules:
    """Return the settings of a topic in the form that the broker uses.

    values: all of Kafka's names for topic settings, to checked values.
    """
    policies = [policy.strip() for policy in values["cleanup.policy"].split(",")]
    return TopicRules(
        is_compacted="compact" in policies,
        is_deleted="delete" in policies,
        codec=CODECS.get(values["compression.type"]),
        is_append_time=values["message.timestamp.type"] == "LogAppendTime",
        before_max_ms=int(values["message.timestamp.before.max.ms"]),
        after_max_ms=int(values["message.timestamp.after.max.ms"]),
        max_message_bytes=int(values["max.message.bytes"]),
        retention_ms=int(values["retention.ms"]),
        retention_bytes=int(values["retention.bytes"]),
        segment_bytes=int(values["segment.bytes"]),
        segment_ms=int(values["segment.ms"]),
        index_interval_bytes=int(values["index.interval.bytes"]),
    )
