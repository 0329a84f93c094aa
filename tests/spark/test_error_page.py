"""Every message of docs/spark-errors.md is provoked by a test."""

import ast
from pathlib import Path

import pytest

from apportion.spark.options.stream import SourceOptions
from apportion.spark.options.values import OptionError
from tests.spark.error_page import assert_on_page, messages


def provoked() -> set[str]:
    """What is wrong, by the tests that compare a message with the page."""
    strings = set[str]()
    for path in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
    return strings


def test_every_message_of_the_page_is_provoked() -> None:
    assert [wrong for wrong in messages() if wrong not in provoked()] == []


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse(
            {"kafka.bootstrap.servers": "localhost", "kafka.group.id": "g", "subscribe": "t"}
        )
    assert_on_page("an address without a port", refused.value)


def test_a_message_that_is_not_the_pages_fails() -> None:
    with pytest.raises(AssertionError):
        assert_on_page("an address without a port", "write each broker as host")
