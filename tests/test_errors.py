"""Every code of the protocol is there, and says the same of retrying as an independent list."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from apportion.assign.by_name import by_topic
from apportion.errors import UNKNOWN_TOPIC, Code, Refused, raised_at, with_foreign_line
from apportion.readable import foreign_text

LOCAL = (Code.SSL_HANDSHAKE_FAILED,)
"""Codes that clients have for themselves."""
NEWER_THAN_THE_ORACLE = {
    134: ("group_deletion_failed", False),
    135: ("streams_topology_description_update_failed", False),
    136: ("controller_id_not_registered", False),
}
"""Those of Kafka 4.4.0, as its own client names them."""


def test_codes_names_and_retriability_are_the_oracles() -> None:
    ours = {code.value: (code.name.lower(), code.retriable) for code in Code if code not in LOCAL}
    oracles = {code.value: (code.name, code.retriable) for code in ErrorCode}
    assert ours == NEWER_THAN_THE_ORACLE | oracles


def test_every_code_has_one_plain_sentence_of_its_own() -> None:
    sentences = [code.sentence for code in Code]
    assert all(
        sentence[0].isupper() and sentence.endswith(".") and len(sentence) < 100
        for sentence in sentences
    )
    assert len({*sentences}) == len(sentences)


@pytest.mark.parametrize(
    ("value", "code"), [(110, Code.FENCED_MEMBER_EPOCH), (-1, Code.UNKNOWN_SERVER_ERROR)]
)
def test_a_number_finds_its_code(value: int, code: Code) -> None:
    assert Code.of(value) is code is Code(value)


def test_a_number_without_a_name_is_an_unknown_server_error() -> None:
    assert Code.of(9_999) is Code.UNKNOWN_SERVER_ERROR


def test_no_response_has_a_clients_own_code() -> None:
    assert [Code.of(code) for code in LOCAL] == [Code.UNKNOWN_SERVER_ERROR]


def test_a_topic_is_unknown_by_its_id_or_by_its_name() -> None:
    named = [code for code in Code if code.name.startswith("UNKNOWN_TOPIC_")]
    assert sorted(UNKNOWN_TOPIC) == named == [3, 100]


def test_a_refusal_says_its_code_and_why() -> None:
    assert (
        str(Refused(Code.INVALID_REQUEST, "MemberId is empty."))
        == "INVALID_REQUEST: MemberId is empty."
    )
    assert Refused(Code.NON_EMPTY_GROUP).why == Code.NON_EMPTY_GROUP.sentence


def test_an_error_is_located_where_it_was_raised_and_not_where_it_passed() -> None:
    def fail() -> None:
        raise ValueError("here")

    with pytest.raises(ValueError, match="here") as raised:
        fail()
    line = fail.__code__.co_firstlineno + 1
    assert raised_at(raised.value) == f"test_errors.py:{line}"


def test_an_error_that_was_never_raised_has_no_line() -> None:
    assert raised_at(ValueError("nowhere")) == "?"


class Interrupting:
    """An object whose text cannot be had, which this package then asks for."""

    def __repr__(self) -> str:
        raise KeyboardInterrupt


def read_json() -> None:
    json.loads("{")


def show() -> None:
    foreign_text(Interrupting())


def group_three() -> None:
    by_topic(cast("Any", 3))


@pytest.mark.parametrize(
    ("raises", "line"),
    [
        (read_json, f"test_errors.py:{read_json.__code__.co_firstlineno + 1}"),
        (show, f"test_errors.py:{Interrupting.__repr__.__code__.co_firstlineno + 1}"),
        (group_three, f"test_errors.py:{group_three.__code__.co_firstlineno + 1}"),
    ],
    ids=["in the standard library", "in what this package called", "in this package"],
)
def test_a_text_names_the_last_line_of_foreign_code(raises: Callable[[], None], line: str) -> None:
    with pytest.raises(BaseException) as raised:
        raises()
    assert with_foreign_line("it failed", raised.value) == f"it failed ({line})"


def test_a_text_names_no_line_where_no_foreign_code_was_called() -> None:
    assert with_foreign_line("it failed", ValueError("nowhere")) == "it failed"
