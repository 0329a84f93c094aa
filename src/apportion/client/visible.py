"""Which fetched batches a reader may see under read_committed: no control batches, no aborted
transactions.

Only headers are read; records stay bytes. An aborted transaction covers its producer's
transactional batches from the transaction's first offset up to the producer's next control batch.
"""

from collections.abc import Iterable
from typing import NamedTuple

from apportion.wire.batch import HEADER, PREFIX_BYTES, BatchHeader, split_batches
from apportion.wire.messages.fetch import AbortedTransaction


class Visible(NamedTuple):
    """The batches that may be seen, in order, and the offset after everything that was looked
    at.
    """

    batches: tuple[memoryview, ...]
    next_offset: int


def visible(
    records: bytes | memoryview,
    aborted: Iterable[AbortedTransaction],
    position: int,
    before: int | None = None,
) -> Visible:
    """Return the batches with data at or after `position` that start below `before`.

    The first may start below `position` and the last may reach beyond `before`: the caller drops
    those records.
    """
    pending = sorted(((said.first_offset, said.producer_id) for said in aborted), reverse=True)
    aborting: dict[int, bool] = {}
    seen: list[memoryview] = []
    next_offset = position
    for batch in split_batches(records):
        fields = HEADER.unpack_from(batch)
        header = BatchHeader(fields[0], fields[1] + PREFIX_BYTES, *fields[2:])
        if before is not None and header.base_offset >= before:
            next_offset = max(next_offset, before)
            break
        while pending and pending[-1][0] <= header.last_offset:
            aborting[pending.pop()[1]] = True
        hidden = header.is_transactional and header.producer_id in aborting
        if header.is_control:
            aborting.pop(header.producer_id, None)
        elif header.last_offset >= position and not hidden:
            seen.append(batch)
        next_offset = max(next_offset, header.last_offset + 1)
    return Visible(tuple(seen), next_offset)
