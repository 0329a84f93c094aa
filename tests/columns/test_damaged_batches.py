"""Batches with random damage and a right CRC: never another row than the plain decoder's."""

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.columns import read
from apportion.columns.plain_rows import PlainBudget
from apportion.errors import DecodeError
from apportion.wire.batch import encode_batch
from tests.columns.rows import HEADERS, OCTETS, Endless, arrow_rows, expected_rows

BUDGETS = {"kernels": PlainBudget(0), "plain Python": Endless()}


def check(batch: bytes, headers: bool) -> None:
    """The rows of the batch, if it has any, are those of the plain decoder."""
    try:
        rows = arrow_rows(batch, headers=headers)
    except DecodeError:
        return
    assert rows == expected_rows([batch], headers=headers)


@settings(max_examples=1500, deadline=None)
@given(
    data=st.data(),
    codec=st.sampled_from([0, 0, 0, 1, 2, 3, 4]),
    triples=st.lists(st.tuples(OCTETS, OCTETS, HEADERS), max_size=5),
)
def test_damage_with_a_right_crc_is_read_as_the_plain_decoder_reads_it(
    data: st.DataObject,
    codec: int,
    triples: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
) -> None:
    batch = bytearray(encode_batch(triples, timestamp_ms=5, compression=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    batch = batch[: data.draw(st.integers(61, len(batch)))]
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    for budget in BUDGETS.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read, "budget", budget)
            for headers in (False, True):
                check(bytes(batch), headers)
