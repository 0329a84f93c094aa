"""A broker where alice has to log in, and a pipeline whose queries are hers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apportion.broker import BrokerSecurity, EmbeddedBroker
from tests.spark.harness import Pipeline


@contextmanager
def pipeline_of_alice(
    security: BrokerSecurity, directory: Path, name: str, partitions: int
) -> Iterator[tuple[EmbeddedBroker, Pipeline]]:
    """Its queries are alice's, and its other clients the admin's; sessions are short."""
    with EmbeddedBroker(
        security=security,
        group_consumer_session_timeout_ms=6_000,
        group_consumer_heartbeat_interval_ms=500,
    ) as broker:
        properties = broker.client_properties("alice")
        pipeline = Pipeline(
            directory,
            broker.bootstrap,
            name,
            partitions,
            source={f"kafka.{name}": value for name, value in properties.items()},
            client=broker.client_options("admin"),
        )
        yield broker, pipeline
        pipeline.close()
