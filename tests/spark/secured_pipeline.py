"""A broker where alice has to log in, and a pipeline whose queries are hers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apportion.broker import BrokerSecurity, EmbeddedBroker
from tests.spark.harness import Pipeline


@contextmanager
def secured_broker(security: BrokerSecurity) -> Iterator[EmbeddedBroker]:
    """A broker with short sessions."""
    with EmbeddedBroker(
        security=security,
        group_consumer_session_timeout_ms=6_000,
        group_consumer_heartbeat_interval_ms=500,
    ) as broker:
        yield broker


@contextmanager
def pipeline_of_alice(
    broker: EmbeddedBroker, directory: Path, name: str, partitions: int
) -> Iterator[Pipeline]:
    """Its queries are alice's, and its other clients the admin's."""
    properties = broker.client_properties("alice")
    pipeline = Pipeline(
        directory,
        broker.bootstrap,
        name,
        partitions,
        source={f"kafka.{name}": value for name, value in properties.items()},
        client=broker.client_options("admin"),
    )
    yield pipeline
    pipeline.close()
