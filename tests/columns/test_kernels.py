"""The compiled functions: their numbers are Kafka's varints, and they work where nothing can be
cached.
"""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.columns.kernels import (
    MALFORMED,
    ROWS,
    compile_on_first_use,
    decode_records,
    read_varint,
    read_varlong,
)


def zigzag_varint(number: int) -> bytes:
    """The shortest varint of a signed number, by the definition."""
    zigzag, out = abs(2 * number) - (number < 0), []
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*out, zigzag])


def read(kernel: Any, data: bytes, end: int | None = None) -> tuple[int, int]:
    """What `kernel` reads at the start of `data`, which ends at `end`."""
    number, at = kernel(
        np.frombuffer(data, np.uint8), np.uint64(0), np.uint64(len(data) if end is None else end)
    )
    return int(number), int(at)


@settings(max_examples=300, deadline=None)
@given(
    small=st.integers(-(1 << 31), (1 << 31) - 1),
    large=st.integers(-(1 << 63), (1 << 63) - 1),
    rest=st.binary(max_size=3),
)
def test_every_number_is_read_and_every_cut_one_is_bad(small: int, large: int, rest: bytes) -> None:
    for kernel, number in ((read_varint, small), (read_varlong, small), (read_varlong, large)):
        data = zigzag_varint(number)
        assert read(kernel, data + rest) == (number, len(data))
        assert read(kernel, data, len(data) - 1) == (0, int(MALFORMED))


def test_bits_beyond_those_of_a_number_are_dropped() -> None:
    assert read(read_varint, b"\x82\x80\x80\x80\x70") == (1, 5)
    assert read(read_varlong, b"\x82" + b"\x80" * 8 + b"\x7e") == (1, 10)


def test_numbers_of_too_many_bytes_are_bad() -> None:
    for kernel, data in (
        (read_varint, b"\x80\x80\x80\x80\x80\x00"),
        (read_varint, b"\xff" * 30),
        (read_varlong, b"\x80" * 10 + b"\x00"),
        (read_varlong, b"\xff" * 30),
    ):
        assert read(kernel, data) == (0, int(MALFORMED))


def test_a_function_without_a_cache_directory_is_compiled_all_the_same() -> None:
    """Numba finds no directory for source that lies in no file, just as in a read-only home."""
    scope: dict[str, Any] = {}
    exec("def doubled(number):\n    return 2 * number", scope)
    assert compile_on_first_use(scope["doubled"])(21) == 42


@settings(max_examples=1500, deadline=None)
@given(body=st.binary(max_size=60), count=st.integers(0, 4))
def test_arbitrary_bytes_never_make_the_kernel_write_past_its_columns(
    body: bytes, count: int
) -> None:
    """The columns have exactly the promised room, between guards that must keep their values."""
    octets = np.frombuffer(body, np.uint8)
    keys, values = np.full((2, len(body) + 32), 0xA5, np.uint8)
    longs, ints = np.full((2, count + 4), -77, np.int64), np.full((5, count + 5), -77, np.int32)
    ints[:2, 0] = 0
    bits, tally = np.full((2, 2), 0xFF, np.uint8), np.zeros(9, np.int64)
    facts = (count, 0, 1 << 20, 0, 0, 0, 1 << 40)
    if not decode_records(octets, facts, longs, ints, bits, keys, values, tally):
        assert tally[ROWS] == 0
    assert (keys[len(body) :] == 0xA5).all()
    assert (values[len(body) :] == 0xA5).all()
    assert (longs[:, count:] == -77).all()
    assert (ints[:, count + 1 :] == -77).all()
