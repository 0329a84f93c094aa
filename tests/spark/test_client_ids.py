"""The name of a query's member, for brokers and tools."""

import os

import pytest

from apportion.spark.membership.client_ids import member_client_id
from apportion.spark.options.stream import SourceOptions

GIVEN = {"kafka.bootstrap.servers": "b:9092", "kafka.group.id": "g", "subscribe": "t"}


@pytest.mark.parametrize(
    ("host", "shown"),
    [("web7.example.org", "web7"), ("a b/c", "a-b-c"), ("h" * 70, "h" * 63)],
)
def test_a_query_without_a_name_is_told_apart_by_its_host_and_process(
    monkeypatch: pytest.MonkeyPatch, host: str, shown: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert member_client_id(SourceOptions.parse(GIVEN)) == (
        f"apportion-spark-g-{shown}-{os.getppid()}"
    )


def test_a_query_has_the_name_that_it_was_given() -> None:
    options = SourceOptions.parse({**GIVEN, "kafka.client.id": "flights-v2"})
    assert member_client_id(options) == "flights-v2"
