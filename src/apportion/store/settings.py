"""The settings of a log, with the defaults of a broker's topics."""

from typing import NamedTuple

from apportion.settings import MAX_INT64


class LogSettings(NamedTuple):
    """The settings of a log: `segment.bytes`, `index.interval.bytes`, `segment.ms`, and our own.

    growth_bytes: a file that is written grows by steps of this size, so that most syncs need not
        record a new size.
    segment_ms: by how much the timestamps of a segment's batches may be later than that of its
        first one.
    """

    segment_bytes: int = 1_073_741_824
    index_interval_bytes: int = 4096
    growth_bytes: int = 1 << 18
    segment_ms: int = MAX_INT64
