"""Arrow arrays of Python values, made from buffers.

`pyarrow.array` and `pyarrow.scalar` would import pandas, if it is installed, only to see whether
they are given something of it: that takes as long as a hundred thousand records, and 40 MB.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

import pyarrow as pa


def number_array(kind: pa.DataType, code: str, numbers: Sequence[int]) -> pa.Array:
    """Return a column of numbers. code: their type as that of an `array.array`."""
    buffers = [None, pa.py_buffer(array(code, numbers))]
    return pa.Array.from_buffers(kind, len(numbers), buffers)


def binary_array(kind: pa.DataType, values: Sequence[bytes | None]) -> pa.Array:
    """Return a column of bytes or of text."""
    present = [value or b"" for value in values]
    buffers = [
        validity([value is not None for value in values]) if None in values else None,
        ends(map(len, present)),
        pa.py_buffer(b"".join(present)),
    ]
    return pa.Array.from_buffers(kind, len(values), buffers)


def ends(sizes: Iterable[int]) -> pa.Buffer:
    """Return Arrow's ends of values of these sizes, which begin with the start of the first."""
    return pa.py_buffer(array("i", accumulate(sizes, initial=0)))


def validity(are_valid: Sequence[bool]) -> pa.Buffer:
    """Return Arrow's bitmap, in which the first row is the lowest bit."""
    digits = "".join("1" if is_valid else "0" for is_valid in reversed(are_valid))
    return pa.py_buffer(int(digits or "0", 2).to_bytes(len(are_valid) // 8 + 1, "little"))
