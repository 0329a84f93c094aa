"""The filter of read_committed: it drops control batches and those of aborted transactions.

A broker returns every batch up to the last stable offset, with the aborted transactions among them,
and leaves the filtering to the client (KIP-98).

Only headers are read; records stay bytes. An aborted transaction covers its producer's
transactional batches from the transaction's first offset up to the producer's next control batch.
"""

from collections.abc import Iterable
from typing import NamedTuple

from apportion.wire.batch import HEADER, PREFIX_BYTES, BatchHeader, split_batches
from apportion.wire.messages.fetch import AbortedTransaction


class Visible(NamedTuple):
    """Batches that a reader may see, in order, and the offset after all that were fetched."""

    batches: tuple[memoryview, ...]
    next_offset: int


def visible(
    records: bytes | memoryview,
    aborted: Iterable[AbortedTransaction],
    position: int,
    end: int | None = None,
) -> Visible:
    """Return the batches with data at or after `position` that start below `end`.

    records, aborted: from one partition's part of a Fetch response. The first batch may start below
    `position` and the last may reach beyond `end`: the caller drops those records.
    """
    # Aborted transactions that begin further on, the next one last; then the producers of those
    # that have begun.
    pending = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
    aborting: dict[int, bool] = {}
    seen: list[memoryview] = []
    next_offset = position
    for batch in split_batches(records):
        fields = HEADER.unpack_from(batch)
        header = BatchHeader(fields[0], fields[1] + PREFIX_BYTES, *fields[2:])
        if end is not None and header.base_offset >= end:
            next_offset = max(next_offset, end)
            break
        # Begun by first offset, ended by the marker: one producer may have several transactions in
        # a response, committed and aborted ones in turn.
        while pending and pending[-1][0] <= header.last_offset:
            aborting[pending.pop()[1]] = True
        is_aborted = header.is_transactional and header.producer_id in aborting
        if header.is_control:  # the abort marker ends the producer's transaction
            aborting.pop(header.producer_id, None)
        elif header.last_offset >= position and not is_aborted:
            seen.append(batch)
        # Hidden batches count as well, or the position would stay in front of them for ever.
        next_offset = max(next_offset, header.last_offset + 1)
    return Visible(tuple(seen), next_offset)
