"""Apache Kafka's own kafka-configs.sh prints the same for our broker as for a real Kafka."""

from collections.abc import Callable, Iterator

import pytest

from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka

GROUP = "mail"
SESSION = "consumer.session.timeout.ms"


@pytest.fixture(scope="module")
def brokers(kafka: RealKafka) -> Iterator[tuple[str, str]]:
    """Where our broker and the real one listen."""
    with EmbeddedBroker(group_consumer_session_timeout_ms=6_000) as broker:
        yield broker.bootstrap, kafka.bootstrap


def test_the_tool_alters_and_describes_a_group_alike(
    brokers: tuple[str, str], config_tool: Callable[..., list[str]]
) -> None:
    group = ("--entity-type", "groups", "--entity-name", GROUP)
    printed = [
        [
            config_tool(bootstrap, "--alter", *group, "--add-config", f"{SESSION}=20000"),
            config_tool(bootstrap, "--describe", *group),
            config_tool(bootstrap, "--alter", *group, "--delete-config", SESSION),
            config_tool(bootstrap, "--describe", *group),
        ]
        for bootstrap in brokers
    ]
    assert printed[0] == printed[1]
    assert f"  {SESSION}=20000 sensitive=false" in printed[0][1][1]
