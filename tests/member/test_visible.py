"""What a reader may see of fetched bytes."""

from collections.abc import Sequence

from apportion.member.cluster_queries.visible import Visible, visible
from apportion.wire.batch import encode_batch
from apportion.wire.messages.fetch import AbortedTransaction

TRANSACTIONAL, CONTROL = 16, 32


def batch(base_offset: int, count: int = 2, producer_id: int = -1, attributes: int = 0) -> bytes:
    """A batch with these attributes; its CRC is not looked at here."""
    raw = bytearray(
        encode_batch(
            [(None, b"v", ())] * count,
            base_offset=base_offset,
            timestamp_ms=0,
            producer_id=producer_id,
            producer_epoch=0,
        )
    )
    raw[22] |= attributes
    return bytes(raw)


def seen(
    batches: list[bytes],
    position: int = 0,
    before: int | None = None,
    aborted: Sequence[tuple[int, int]] = (),
) -> tuple[list[int], int]:
    """The base offsets of what is visible, and the next offset."""
    result = visible(
        b"".join(batches),
        [AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in aborted],
        position,
        before,
    )
    return [int.from_bytes(view[:8], "big") for view in result.batches], result.next_offset


def test_nothing_fetched_is_nothing_visible() -> None:
    assert visible(b"", (), 7) == Visible((), 7)


def test_whole_batches_from_the_position_to_before_the_end() -> None:
    batches = [batch(0), batch(2), batch(4), batch(6)]
    assert seen(batches) == ([0, 2, 4, 6], 8)
    assert seen(batches, position=3) == ([2, 4, 6], 8)
    assert seen(batches, position=3, before=5) == ([2, 4], 6)
    assert seen(batches, position=2, before=4) == ([2], 4)


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    assert seen([batch(0), batch(2)[:-1]]) == ([0], 2)


def test_a_hole_before_the_end_is_stepped_over() -> None:
    assert seen([batch(0), batch(10)], position=2, before=5) == ([], 5)


def test_markers_are_not_shown_but_stepped_over() -> None:
    assert seen(
        [batch(0, producer_id=1, attributes=TRANSACTIONAL), batch(2, 1, 1, TRANSACTIONAL | CONTROL)]
    ) == ([0], 3)


def test_an_aborted_transaction_is_hidden_to_its_marker_and_nothing_else_is() -> None:
    batches = [
        # committed later: not in the list of the aborted
        batch(0, producer_id=1, attributes=TRANSACTIONAL),
        batch(2, producer_id=2, attributes=TRANSACTIONAL),
        batch(4),
        batch(6, producer_id=2, attributes=TRANSACTIONAL),
        batch(8, 1, 2, TRANSACTIONAL | CONTROL),
        batch(9, producer_id=2, attributes=TRANSACTIONAL),
        batch(11, producer_id=2),
    ]
    assert seen(batches, aborted=[(2, 2)]) == ([0, 4, 9, 11], 13)
    assert seen(batches, aborted=[(2, 2), (2, 9)]) == ([0, 4, 11], 13)
