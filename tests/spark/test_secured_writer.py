"""Rows written to a secured broker by Spark, as a batch and as a stream: no file of the run has the
password.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from apportion.broker import AclOperation, BrokerSecurity, EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from tests.node.acl_requests import acl
from tests.spark.application import spark_session
from tests.spark.secrets import files_with, settings
from tests.spark.test_topic_producer import read

__all__ = ["settings"]

TOPIC = "written-under-guard"


class Guarded(NamedTuple):
    """A secured broker with the topic: the options of a write, its password, and a reader's
    configuration.
    """

    options: dict[str, str]
    password: str
    reader: dict[str, Any]


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    """Our broker, on which alice may write to the topic, and no more."""
    password = "a-password-of-alice-alone"
    security = BrokerSecurity(
        users={"admin": "a-password-of-the-admin", "alice": password},
        super_users=["User:admin"],
        acls=[acl(TOPIC, operation=AclOperation.WRITE)],
    )
    with EmbeddedBroker(security=security) as broker:
        cluster = Cluster(
            broker.bootstrap, security=client_security(broker.client_options("admin"))
        )
        cluster.create_topic(TOPIC, 1)
        cluster.close()
        given = broker.client_properties("alice")
        options = {f"kafka.{name}": value for name, value in given.items()}
        yield Guarded(options, password, broker.client_config("admin"))


def test_a_secured_write_leaves_no_password(
    guarded: Guarded, settings: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "one.json").write_text('{"key": "k", "value": "of a stream"}')
    spark = spark_session(**settings)
    try:
        spark.createDataFrame([("of a batch",)], "value string").write.format("apportion").mode(
            "append"
        ).options(topic=TOPIC, **guarded.options).save()
        rows = spark.readStream.schema("key string, value string").json(str(tmp_path / "rows"))
        query = (
            rows.writeStream.format("apportion")
            .options(topic=TOPIC, **guarded.options)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300), "the query goes on"
    finally:
        spark.stop()
    found = [(key, value) for _, key, value, _ in read(guarded.reader, TOPIC, 1)]
    assert found == [(None, b"of a batch"), (b"k", b"of a stream")]
    # The event log can be read, and has the plans of both.
    for plan in ("AppendData", "WriteToDataSourceV2"):
        assert files_with(tmp_path / "events", plan), plan
    assert files_with(tmp_path, guarded.password) == []
