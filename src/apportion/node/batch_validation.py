"""Validation of the record batches that producers send (Kafka's LogValidator).

The validator decides what a topic accepts, and in which form it is stored. A batch is judged by its
header and by the timestamps and keys of its records. No record becomes an object, and a batch that
is stored in another compression is compressed again as a whole. Because every client waits for
that, one request has a budget for it (`ValidationBudget`). A batch beyond the budget is refused
where its topic demands keys, a lower bound of timestamps or another compression; elsewhere it is
accepted by its header.
Source: Kafka's rules for `cleanup.policy`, `message.timestamp.*` and `compression.type`. The
validator knows no log and no producer state.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from apportion.errors import Code, DecodeError, Refused
from apportion.lazy_imports import lazy_module
from apportion.node.topic_rules import TopicRules
from apportion.settings import MAX_INT64
from apportion.wire.batch import HEADER_BYTES, BatchHeader, read_header
from apportion.wire.batch_rewrite import (
    recompress,
    renumbered,
    stamp_append_time,
    stamp_create_time,
)
from apportion.wire.compression import GZIP, NONE, DecompressionLimitExceeded, decompress
from apportion.wire.scan import RecordColumns, scan_records

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy_module("numpy")

# Of one request, because every client waits while it is inspected; Kafka takes batches of any size.
MAX_RECORDS = 1_000_000
MAX_BYTES = 1 << 25
# Each costs a sentence in the response, which would otherwise be many times as long as the request.
MAX_REPORTED = 10_000
GZIP_COST = 8
"""The cost of compressing a byte with gzip, where any other work on a byte costs 1: it takes a
second for 5 MB of some data.
"""
RENUMBERED_COST = 10
"""The cost of a record that gets another offset, where one that is only inspected costs 1: it takes
a quarter of a second for 100,000.
"""
NEVER_TOO_OLD_MS = NEVER_TOO_LATE_MS = MAX_INT64
"""The default of `message.timestamp.before.max.ms`, and the value by which nothing comes from the
future.
"""
NO_TIMESTAMP = -1
SCATTERED = "a compressed record batch whose records are not at consecutive offsets"


class ValidationBudget:
    """Budget for inspecting the batches of one Produce request: the part that is left.

    records: how many records, in batches of any kind; those that get other offsets count
    RENUMBERED_COST times.
    size_bytes: how many bytes to decompress or to compress again; gzip counts GZIP_COST times.
    reported: how many faulty records to report one by one; the message of a batch counts them all.
    """

    __slots__ = ("records", "reported", "size_bytes")

    def __init__(self) -> None:
        """Begin with the whole budget of one Produce request."""
        self.records = MAX_RECORDS
        self.size_bytes = MAX_BYTES
        self.reported = MAX_REPORTED

    def decompress(self, view: memoryview, header: BatchHeader, codec: int | None) -> bytes:
        """Return a produced batch's records, decompressed, and charge the Produce request's budget.

        codec: the compression to store the batch in, if it changes.
        Errors: BudgetExceeded, INVALID_RECORD. Either may have used up the budget, so nothing is
        left of it.
        """
        if header.count > self.records:
            raise BudgetExceeded(f"{header.count} records", is_alone=header.count > MAX_RECORDS)
        body, cost_per_byte = (
            view[HEADER_BYTES:],
            GZIP_COST
            if codec == GZIP
            else 0
            if header.compression == NONE and codec is None
            else 1,
        )
        max_bytes = self.size_bytes // cost_per_byte if cost_per_byte else len(body)
        try:
            plain = decompress(header.compression, body, max_bytes)
        except DecodeError as error:
            # A batch that had the whole budget is at fault itself. Any other one fits if it comes
            # alone.
            is_alone = self.size_bytes == MAX_BYTES
            self.size_bytes = 0
            if isinstance(error, DecompressionLimitExceeded):
                raise BudgetExceeded(f"more than {max_bytes} bytes", is_alone=is_alone) from None
            raise Refused(Code.INVALID_RECORD, str(error)) from None
        self.records -= header.count
        self.size_bytes -= cost_per_byte * len(plain)
        return plain

    def renumber(self, plain: bytes, count: int) -> bytes:
        """Return a produced batch's records at consecutive offsets, and charge for them once more.

        count: the records of the batch, which `decompress` has charged. Errors: BudgetExceeded.
        """
        cost = count * (RENUMBERED_COST - 1)
        if cost > self.records:
            raise BudgetExceeded(
                f"{count} records at other offsets than their places",
                is_alone=count * RENUMBERED_COST > MAX_RECORDS,
            )
        self.records -= cost
        return renumbered(plain, count)


class BudgetExceeded(Refused):
    """A batch that is too large to inspect within the budget of its request.

    The code is MESSAGE_TOO_LARGE, upon which producers split the batch, if it alone exceeds the
    whole budget, else REQUEST_TIMED_OUT, upon which they retry.
    """

    def __init__(self, what: str, *, is_alone: bool) -> None:
        """Create the error. what: the size of the batch, for the text.

        is_alone: the batch alone exceeds the whole budget of a Produce request.
        """
        code = Code.MESSAGE_TOO_LARGE if is_alone else Code.REQUEST_TIMED_OUT
        beside = "" if is_alone else ", beside the other batches of the request"
        super().__init__(
            code, f"a batch of {what}, which this topic's settings ask to look into{beside}"
        )


class RecordError(NamedTuple):
    """One refused record of a batch and the reason, for the Produce response (KIP-467)."""

    batch_index: int
    why: str


class RecordsRefused(Refused):
    """A batch that was refused because of single records, each of which is reported (KIP-467)."""

    def __init__(self, code: Code, why: str, faults: Sequence[RecordError]) -> None:
        super().__init__(code, why)
        self.errors = tuple(faults)


class ValidatedBatch(NamedTuple):
    """A batch in the form in which it is stored, and its header."""

    batch: bytearray
    header: BatchHeader


def validate_batch(
    view: memoryview,
    header: BatchHeader,
    rules: TopicRules,
    *,
    now_ms: int,
    budget: ValidationBudget,
) -> ValidatedBatch:
    """Return the batch of a Produce request as a topic of these rules stores it at `now_ms`.

    now_ms: wall clock. Kafka's LogValidator. Errors: INVALID_TIMESTAMP and INVALID_RECORD with the
    faulty records; BudgetExceeded for a batch that must be inspected and exceeds the budget;
    MESSAGE_TOO_LARGE also for one that exceeds `max.message.bytes` after compression;
    RECORD_LIST_TOO_LARGE for one larger than a segment.
    """
    # The claim is dropped where producers give the time, but one without any time is none.
    if header.timestamp_type and (rules.is_append_time or header.max_timestamp_ms == NO_TIMESTAMP):
        faults = [
            RecordError(index, "only the broker gives the time of the append")
            for index in range(header.count)[: budget.reported]
        ]
        budget.reported -= len(faults)
        raise RecordsRefused(
            Code.INVALID_TIMESTAMP, "a producer sends its own time, not that of the append", faults
        )
    codec = None if rules.codec == header.compression else rules.codec
    max_timestamp_ms = header.max_timestamp_ms
    # A copy, because offsets and timestamps are set in place, and the view is of the request's
    # frame.
    batch = bytearray(view)
    if codec is not None or _checks_records(rules):
        try:
            plain = budget.decompress(view, header, codec)
        except BudgetExceeded:
            # In any other case the header is believed: an upper bound of timestamps needs only the
            # largest one.
            if codec is not None or _needs_every_record(rules):
                raise
            if not _is_timely(header.max_timestamp_ms, rules, now_ms):
                raise Refused(
                    Code.INVALID_TIMESTAMP,
                    f"a record of {header.max_timestamp_ms} is too far in the future",
                ) from None
        else:
            scan = _scan(plain, header)
            _check_records(scan, rules, now_ms, budget)
            max_timestamp_ms = max(NO_TIMESTAMP, int(scan.timestamps_ms.max()))
            is_consecutive = bool((scan.offsets == np.arange(header.count)).all())
            if codec is not None:
                body = plain if is_consecutive else budget.renumber(plain, header.count)
                batch = recompress(header, body, codec)
            # Only there, as in Kafka: an uncompressed batch may have its records at any offsets.
            elif header.compression != NONE and not is_consecutive:
                raise Refused(Code.INVALID_RECORD, SCATTERED)
    # After the compression, which may make a batch larger: the limits are of what is stored.
    _check_size(batch, rules)
    if rules.is_append_time:
        return ValidatedBatch(batch, stamp_append_time(batch, now_ms))
    # Kafka takes both, and drops what is wrong
    if header.timestamp_type == 1 or max_timestamp_ms != header.max_timestamp_ms:
        return ValidatedBatch(batch, stamp_create_time(batch, max_timestamp_ms))
    return ValidatedBatch(batch, header if codec is None else read_header(batch))


def _needs_every_record(rules: TopicRules) -> bool:
    """Return whether only the records of a produced batch can tell if the batch is valid.

    Only they can where the topic demands keys (compaction), or has a lower bound of timestamps: the
    header has only the largest timestamp.
    """
    return rules.is_compacted or (
        not rules.is_append_time and rules.before_max_ms < NEVER_TOO_OLD_MS
    )


def _checks_records(rules: TopicRules) -> bool:
    """Return whether a topic demands anything that a single record of a Produce may lack."""
    return _needs_every_record(rules) or (
        not rules.is_append_time and rules.after_max_ms < NEVER_TOO_LATE_MS
    )


def _scan(plain: bytes, header: BatchHeader) -> RecordColumns:
    """Scan the decompressed records of a produced batch; refuse malformed ones.

    Errors: INVALID_RECORD.
    """
    try:
        return scan_records(plain, header)
    except DecodeError as error:
        raise Refused(Code.INVALID_RECORD, str(error)) from None


def _check_records(
    scan: RecordColumns, rules: TopicRules, now_ms: int, budget: ValidationBudget
) -> None:
    """Refuse a produced batch with records without a key or with a timestamp out of bounds.

    The Produce response reports each of these records (KIP-467).
    """
    keyless, outside = ~scan.has_key & rules.is_compacted, np.zeros(len(scan.has_key), np.bool_)
    if not rules.is_append_time:
        # both bounds within int64, since the defaults of the settings are as large as that
        min_ms = max(now_ms - rules.before_max_ms, -MAX_INT64 - 1)
        max_ms = min(now_ms + rules.after_max_ms, MAX_INT64)
        times_ms = scan.timestamps_ms
        outside = ((times_ms < min_ms) | (times_ms > max_ms)) & (times_ms != NO_TIMESTAMP)
        # One fault of each record counts, and in Kafka that is its key.
        outside &= ~keyless
    if not (keyless | outside).any():
        return
    faults = [
        RecordError(
            index,
            "a record of a compacted topic has a key"
            if keyless[index]
            else f"a timestamp of {scan.timestamps_ms[index]} is outside of what the topic takes",
        )
        for index in np.flatnonzero(keyless | outside)[: budget.reported].tolist()
    ]
    budget.reported -= len(faults)
    if outside.any():
        why = f"{outside.sum()} records of {len(outside)} have a time out of range"
        raise RecordsRefused(Code.INVALID_TIMESTAMP, why, faults)
    raise RecordsRefused(
        Code.INVALID_RECORD, f"{keyless.sum()} records of {len(keyless)} have no key", faults
    )


def _check_size(batch: bytearray, rules: TopicRules) -> None:
    """Refuse a produced batch that is too large in the form in which it would be stored.

    Errors: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
    """
    if len(batch) > rules.max_message_bytes:
        raise Refused(
            Code.MESSAGE_TOO_LARGE,
            f"{len(batch)} bytes to be stored where {rules.max_message_bytes} are allowed",
        )
    if len(batch) > rules.segment_bytes:
        raise Refused(
            Code.RECORD_LIST_TOO_LARGE,
            f"{len(batch)} bytes to be stored in segments of {rules.segment_bytes}",
        )


def _is_timely(timestamp_ms: int, rules: TopicRules, now_ms: int) -> bool:
    """Return whether a produced batch's timestamp is within `message.timestamp.*.max.ms`."""
    return (
        timestamp_ms == NO_TIMESTAMP
        or -rules.before_max_ms <= timestamp_ms - now_ms <= rules.after_max_ms
    )
