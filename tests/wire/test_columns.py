"""Arrays as columns, and the texts of Java: what goes at once and what goes one by one are the same
bytes.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import DecodeError, EncodeError
from apportion.wire.codec import read, read_whole, write
from apportion.wire.fields import array, chars, columns, int16, int32, message, string, text, utf


@message()
class Row:
    """A row with a text that is mostly null."""

    number: int = int32()
    name: str | None = string(nullable=0, default=None)
    late: int = int16(since=1, default=-1)


@message(versions=range(2))
class Rows:
    """An array of rows, one after another."""

    rows: tuple[Row, ...] = array(Row)


@message(versions=range(2))
class Columns:
    """The same array as columns."""

    rows: tuple[tuple[object, ...], ...] = columns(Row)


@message()
class Texts:
    """Every kind of text that is not Kafka's own."""

    plain: str = text()
    modified: str = utf()
    wide: str = chars()
    wide_or_none: str | None = chars(nullable=0, default=None)


ROWS = st.lists(
    st.tuples(st.integers(-5, 5), st.none() | st.text(max_size=3), st.integers(-5, 5)), max_size=6
)


@pytest.mark.parametrize("version", [0, 1])
@given(rows=ROWS)
def test_columns_are_the_bytes_of_the_rows(
    version: int, rows: list[tuple[int, str | None, int]]
) -> None:
    rows = [(number, name, late if version else -1) for number, name, late in rows]
    written = write(
        Rows(rows=tuple(Row(number=number, name=name, late=late) for number, name, late in rows)),
        version,
    )
    by_columns = Columns(rows=tuple(zip(*rows, strict=True)) or ((), (), ()))
    assert write(by_columns, version) == written
    assert read_whole(Columns, version, written) == by_columns


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (b"\0\0\0\3" + bytes(12), "Columns v0: rows: it says 3 where 12 bytes are left"),
        (b"\xff\xff\xff\xff", "Columns v0: rows: it is null"),
        (b"\0\0\0\1\0\0\0\1\xff\xfe", "Columns v0: rows.name: it says -2 where 0 bytes are left"),
        (
            b"\0\0\0\2\0\0\0\1\0\7" + bytes(6),
            "Columns v0: rows.name: it says 7 where 6 bytes are left",
        ),
    ],
)
def test_an_error_in_decoding_columns_names_the_field(frame: bytes, sentence: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(Columns, 0, frame)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (((1, 2), (None,), (-1, -1)), "rows: its columns differ in length"),
        (((1,), (None,), (7,)), "rows.late: this version has no such field"),
        (((2**40,), (None,), (-1,)), "rows: a value does not fit"),
        (((2**40,), ("a",), (-1,)), "rows.number: a value does not fit"),
    ],
)
def test_columns_that_a_version_cannot_say_are_refused(
    rows: tuple[tuple[int, ...], tuple[str | None, ...], tuple[int, ...]], sentence: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        write(Columns(rows=rows), 0)
    assert str(caught.value) == f"Columns v0: {sentence}"


@given(st.text(), st.text(), st.text(), st.none() | st.text(min_size=1))
def test_texts_come_back_as_they_went(
    plain: str, modified: str, wide: str, wide_or_none: str | None
) -> None:
    value = Texts(plain=plain, modified=modified, wide=wide, wide_or_none=wide_or_none)
    assert read_whole(Texts, 0, write(value, 0)) == value


def test_texts_are_said_as_java_says_them() -> None:
    written = write(
        Texts(plain="é", modified="a\0é\U0001f600", wide="é\U0001f600", wide_or_none=None), 0
    )
    assert written == (
        b"\0\0\0\2\xc3\xa9"  # UTF-8
        b"\0\x0ba\xc0\x80\xc3\xa9\xed\xa0\xbd\xed\xb8\x80"  # modified UTF-8
        b"\0\0\0\3\0\xe9\xd8\x3d\xde\x00"  # UTF-16, counted in units
        b"\0\0\0\0"  # null
    )


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (b"\0\0\0\0\0\1\x80", "modified: it is not modified UTF-8"),
        (b"\0\0\0\0\0\4\xf0\x9f\x98\x80", "modified: it is not modified UTF-8"),
        (b"\0\0\0\0\0\3\xed\xa0\xbd", "modified: it is not modified UTF-8"),
        (b"\0\0\0\0\0\4a", "modified: it says 4 where 1 bytes are left"),
        (b"\0\0\0\0\0\0\0\0\0\1\0", "wide: it says 1 where 1 bytes are left"),
        (b"\0\0\0\0\0\0\0\0\0\1\xd8\0", "wide: it is not UTF-16-BE"),
        (
            b"\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff",
            "wide_or_none: it says -1 where 0 bytes are left",
        ),
    ],
)
def test_bytes_that_are_no_text_of_java_are_refused(frame: bytes, sentence: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(Texts, 0, frame)
    assert str(caught.value) == f"Texts v0: {sentence}"


def test_texts_that_cannot_be_said_are_refused() -> None:
    for value, sentence in [
        (Texts(modified="a" * 65_536), "modified: a value does not fit"),
        (Texts(wide_or_none=""), "wide_or_none: it is empty, which would be null"),
    ]:
        with pytest.raises(EncodeError) as caught:
            write(value, 0)
        assert str(caught.value) == f"Texts v0: {sentence}"
