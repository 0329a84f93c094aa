"""Values of any message in any version, drawn from its declaration."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from apportion.errors import Code
from apportion.wire.fields import Field

SIZES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
SCALARS = {kind: st.integers(*span) for kind, span in SIZES.items()} | {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=4) | st.sampled_from(["a" * 126, "é" * 64]),
    "text": st.text(max_size=4),
    "utf": st.text(max_size=4),
    "chars": st.text(min_size=1, max_size=4),
    "bytes": st.binary(max_size=4),
    "records": st.binary(max_size=300),
}
NEWEST_OF_KIO = Code.SHARE_SESSION_LIMIT_REACHED
"""Kafka 4.4 brought the codes after it."""
NARROW = {  # what a field can be so that every oracle can hold it
    # of those that a response may have
    "error_code": st.sampled_from(
        [code.value for code in Code if Code.of(code) is code and code <= NEWEST_OF_KIO]
    ),
    "retention_time_ms": st.integers(-(2**31), 2**31 - 1),
    "log_append_time_ms": st.integers(-1, 2**41),
    "session_lifetime_ms": st.integers(0, 2**41),
}


def _values_of(cls: Any, version: int) -> st.SearchStrategy[Any]:
    """A strategy for values of `cls` that the version can say."""
    present = {
        field.name: _field(field, version) for field in cls.__fields__ if field.is_in(version)
    }
    return st.builds(cls, **present)


def _field(field: Any, version: int) -> st.SearchStrategy[Any]:
    if field.kind == "struct":
        plain = _values_of(field.element, version)
    elif field.kind == "array" and isinstance(field.element, Field):
        item = _field(field.element, version)
        plain = st.lists(item, max_size=2).map(tuple) | item.map(lambda one: (one,) * 130)
    elif field.kind == "array":
        plain = st.lists(_values_of(field.element, version), max_size=2).map(tuple)
    elif field.kind == "columns":
        assert field.element is not None
        row = st.tuples(
            *(
                _field(each, version) if each.is_in(version) else st.just(each.default)
                for each in field.element.__fields__
            )
        )
        plain = st.lists(row, max_size=3).map(
            lambda rows: tuple(zip(*rows, strict=True)) or field.default
        )
    else:
        plain = NARROW.get(field.name, SCALARS[field.kind])
    return st.none() | plain if field.is_nullable(version) else plain


@pytest.fixture(scope="session")
def values_of() -> Callable[..., st.SearchStrategy[Any]]:
    """A function of a message class and a version: the strategy for its values."""
    return _values_of
