"""Record batches that a real Kafka stores although no client makes them: of an uncompressed batch
it checks neither the offsets nor the timestamps of the header against the records.
"""

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c
from hypothesis import strategies as st

from apportion.wire.batch import CHECKED, HEADER, HEADER_BYTES, PREFIX_BYTES
from apportion.wire.compression import compress
from apportion.wire.record_fields import signed_varint

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
NULL = b"\1"
NO_DELTA = st.just(0)


class OddRecord(NamedTuple):
    """One record as its bytes have it.

    key, value: with their length before them, which may be any negative one for null. headers: the
    names, which need not be UTF-8; each has the value null.
    """

    offset_delta: int
    time_delta: int = 0
    attributes: int = 0
    key: bytes = NULL
    value: bytes = NULL
    headers: Sequence[bytes] = ()

    def encoded(self) -> bytes:
        """The record with its length before it."""
        body = b"".join(
            (
                bytes([self.attributes]),
                signed_varint(self.time_delta),
                signed_varint(self.offset_delta),
                self.key,
                self.value,
                signed_varint(len(self.headers)),
                *(signed_varint(len(name)) + name + NULL for name in self.headers),
            )
        )
        return signed_varint(len(body)) + body


def odd_batch(
    records: Sequence[OddRecord],
    *,
    base_offset: int = 0,
    first_ms: int = 0,
    max_ms: int = 0,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """The batch of these records with as many offsets, and with a right CRC."""
    body = b"".join(record.encoded() for record in records)
    if attributes & 7:
        body = compress(attributes & 7, body)
    checked = (attributes, len(records) - 1, first_ms, max_ms, *producer, len(records))
    crc = crc32c(CHECKED.pack(*checked) + body)
    size = HEADER_BYTES + len(body) - PREFIX_BYTES
    return HEADER.pack(base_offset, size, 0, 2, crc, *checked) + body


def at_deltas(*deltas: int, base_offset: int = 0) -> bytes:
    """The batch of records at these distances from its base offset; their values number them."""
    records = [
        OddRecord(delta, value=signed_varint(1) + b"%d" % number)
        for number, delta in enumerate(deltas)
    ]
    return odd_batch(records, base_offset=base_offset)


def odd_records(
    time_deltas: st.SearchStrategy[int] = NO_DELTA,
) -> st.SearchStrategy[list[OddRecord]]:
    """Up to four records whose offsets and fields are anything that a real Kafka stores."""
    deltas = st.integers(-3, 9) | INT32
    octets = st.binary(max_size=3).map(lambda some: signed_varint(len(some)) + some)
    nulls = st.integers(-9, -1).map(signed_varint)
    names = st.lists(st.binary(max_size=3), max_size=2)
    fields = (deltas, time_deltas, st.integers(0, 255), octets | nulls, octets | nulls, names)
    return st.lists(st.builds(OddRecord, *fields), min_size=1, max_size=4)
