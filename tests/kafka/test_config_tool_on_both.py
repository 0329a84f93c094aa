"""Apache Kafka's own kafka-configs.sh prints the same for our broker as for a real Kafka."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import JVM_OPTIONS, RealKafka

GROUP = "mail"
SESSION = "consumer.session.timeout.ms"


@pytest.fixture(scope="module")
def brokers(kafka: RealKafka) -> Iterator[tuple[str, str]]:
    """Where our broker and the real one listen."""
    with EmbeddedBroker(group_consumer_session_timeout_ms=6_000) as broker:
        yield broker.bootstrap, kafka.bootstrap


@pytest.fixture(scope="module")
def tool(jars: Path) -> Callable[..., list[str]]:
    """`tool(bootstrap, *arguments)` gives the lines that kafka-configs.sh prints."""

    def run(bootstrap: str, *arguments: str) -> list[str]:
        done = subprocess.run(
            [
                *("java", *JVM_OPTIONS, "-cp", f"{jars.resolve()}/*", "kafka.admin.ConfigCommand"),
                *("--bootstrap-server", bootstrap, *arguments),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        # Without the stack of its own classes.
        return [line for line in done.stdout.splitlines() if not line.startswith("\t")]

    return run


def test_the_tool_alters_and_describes_a_group_alike(
    brokers: tuple[str, str], tool: Callable[..., list[str]]
) -> None:
    group = ("--entity-type", "groups", "--entity-name", GROUP)
    printed = [
        [
            tool(bootstrap, "--alter", *group, "--add-config", f"{SESSION}=20000"),
            tool(bootstrap, "--describe", *group),
            tool(bootstrap, "--alter", *group, "--delete-config", SESSION),
            tool(bootstrap, "--describe", *group),
        ]
        for bootstrap in brokers
    ]
    assert printed[0] == printed[1]
    assert f"  {SESSION}=20000 sensitive=false" in printed[0][1][1]
