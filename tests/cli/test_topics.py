"""`apportion topics describe --configs`."""

import json
from contextlib import closing

from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker


def test_every_setting_of_a_topic_is_shown_with_its_source() -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        cluster.create_topic("t", 2, config={"retention.ms": "5000"})
        command = ["topics", "describe", "t", "--configs", "--bootstrap", broker.bootstrap]
        shown = CliRunner().invoke(app, command)
        report = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert (shown.exit_code, rows[0][0], rows[1]) == (0, "t:", ["SETTING", "VALUE", "FROM"])
    assert ["retention.ms", "5000", "topic"] in rows
    assert ["segment.bytes", "1073741824", "default"] in rows
    assert {"name": "retention.ms", "value": "5000", "source": "topic"} in report["configs"]
    assert len(report["partitions"]) == 2
