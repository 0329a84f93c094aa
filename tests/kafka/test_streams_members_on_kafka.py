"""Python processes in a Streams group, on a real Apache Kafka: every scenario of
tests/client/streams_scenarios.py.
"""

import pytest

import apportion
from apportion.errors import Code, Refused
from tests.client.shared_scenarios import adopt

adopt(globals(), "streams_scenarios")


def test_a_process_that_wants_a_consumer_group_ends_before_it_joins(bootstrap: str) -> None:
    with (
        apportion.StreamsConsumer(
            bootstrap, "words", topology=[{"sources": ["t"]}], group_protocol="consumer"
        ) as process,
        pytest.raises(Refused) as refusal,
    ):
        while True:
            process.poll(100)
    assert refusal.value.code is Code.UNSUPPORTED_VERSION
    assert refusal.value.why == (
        "this broker has no client-side assignors, as no Apache Kafka has: use "
        "group_protocol='classic', with which Kafka Streams works on it"
    )
