"""What the writer reads of its query from the JVM, which is played here."""

from types import SimpleNamespace
from typing import Any

from apportion.member.batch.span import sorted_span
from apportion.security.client_security import ClientSecurity, TlsSettings
from apportion.security.key_stores import KeyStore, StoreKind
from apportion.spark.queries.introspection import SourceReading, readings
from apportion.topics import TopicIdPartition
from tests.spark.micro_batches import TOPIC_ID

SPAN = sorted_span("checkpoint", {TopicIdPartition("t", TOPIC_ID, 0): (0, 5)})


class Options:
    """The options of a source, as Java's map."""

    def __init__(self, **options: str) -> None:
        self.get = options.get
        self.containsKey = options.__contains__


def execution(options: Options) -> Any:
    """A running query with one apportion source."""
    offset = SimpleNamespace(
        isDefined=lambda: True, get=lambda: SimpleNamespace(json=SPAN.canonical_json)
    )
    leaf = SimpleNamespace(
        nodeName=lambda: "StreamingDataSourceV2ScanRelation",
        stream=lambda: "the stream",
        relation=lambda: SimpleNamespace(options=lambda: options),
    )
    leaves = SimpleNamespace(size=lambda: 1, apply=lambda _: leaf)
    return SimpleNamespace(
        availableOffsets=lambda: {"the stream": offset},
        logicalPlan=lambda: SimpleNamespace(collectLeaves=lambda: leaves),
    )


def test_a_batch_reads_how_its_source_is_secured_and_no_certificate() -> None:
    options = Options(
        **{
            "kafka.group.id": "g",
            "kafka.bootstrap.servers": "b:9092",
            "kafka.client.id": "etl",
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "gone-since-the-query-began.pem",
        }
    )
    trusted = KeyStore(StoreKind.PEM, "gone-since-the-query-began.pem")
    security = ClientSecurity(TlsSettings(trusted))
    assert readings(execution(options)) == [SourceReading("g", SPAN, "b:9092", security, "etl")]
