"""Compression: round trips, foreign framings, and memory that a bomb cannot grow."""

import contextlib
import gzip
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import DecodeError
from apportion.wire.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    DecompressionBuffer,
    compress,
    decompress,
)

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
PACKED = [GZIP, SNAPPY, LZ4, ZSTD]
LINES = b"".join(b"line %d of a text that repeats itself\n" % (i * i % 977) for i in range(6000))


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=300), times=st.sampled_from([0, 1, 2, 500]))
def test_compressed_bytes_are_decompressed_unchanged(codec: int, data: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, data * times), len(data) * times) == data * times


@pytest.mark.parametrize("codec", CODECS)
def test_a_room_serves_many_sizes(codec: int) -> None:
    room = DecompressionBuffer()
    for size in (0, 1, 200_000, 70, 65_536):
        assert (
            room.decompress(codec, memoryview(compress(codec, LINES[:size])), 1 << 20)
            == LINES[:size]
        )


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (GZIP, gzip.compress(LINES[:1000]) + gzip.compress(LINES[1000:])),
        (SNAPPY, bytes(cramjam.snappy.compress_raw(LINES))),
        (LZ4, bytes(cramjam.lz4.compress(LINES, level=1))),
        (
            ZSTD,
            bytes(cramjam.zstd.compress(LINES[:500], level=1))
            + bytes(cramjam.zstd.compress(LINES[500:], level=1)),
        ),
    ],
)
def test_framings_of_other_writers_are_read(codec: int, data: bytes) -> None:
    assert decompress(codec, data, len(LINES)) == LINES


def test_lz4_frames_are_valid_for_the_reference_decoder() -> None:
    assert bytes(cramjam.lz4.decompress(compress(LZ4, LINES))) == LINES
    assert compress(LZ4, LINES)[4] & 0x20, "Java's reader takes independent blocks only"


@pytest.mark.parametrize("codec", CODECS)
def test_one_byte_more_than_the_limit_is_refused(codec: int) -> None:
    data = compress(codec, LINES)
    assert decompress(codec, data, len(LINES)) == LINES
    with pytest.raises(DecodeError):
        decompress(codec, data, len(LINES) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(DecodeError):
        decompress(codec, bomb, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (4 << 20) + 2 * len(bomb)


@pytest.mark.parametrize("codec", PACKED)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_data_is_a_decode_error_or_other_bytes(codec: int, data: st.DataObject) -> None:
    """No codec but gzip checks its bytes, so damage may also give other bytes, never more than
    allowed.
    """
    whole = bytearray(compress(codec, LINES[:2000]))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, min(len(whole) - 1, 80)))] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with contextlib.suppress(DecodeError):
        assert len(decompress(codec, damaged, 4000)) <= 4000


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("cut", [0, 1, 5, 20, -1])
def test_truncated_data_is_a_decode_error(codec: int, cut: int) -> None:
    data = compress(codec, LINES[:2000])
    if (codec, cut) == (SNAPPY, 0):
        assert decompress(codec, b"", 10) == b""
        return
    with pytest.raises(DecodeError):
        decompress(codec, data[:cut], 4000)


def test_an_unknown_codec_is_refused_both_ways() -> None:
    with pytest.raises(ValueError, match="number 5"):
        compress(5, b"")
    with pytest.raises(DecodeError, match="number 5"):
        decompress(5, b"", 10)
