"""`apportion streams describe` on real applications of Kafka Streams: it says of them what they say
of themselves.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from tests.compat.java.history import until
from tests.compat.streams.application import Application
from tests.compat.streams.program import LEAVES, Instance, Streams

COPIES = ("standby", "warmup", "standby_or_warmup")


@pytest.fixture
def older(streams_classpath: Callable[[str], str], tmp_path: Path) -> Iterator[Streams]:
    """A JVM with a release that can still speak as 1.1."""
    program = Streams(streams_classpath("3.9.1"), tmp_path, "older")
    yield program
    program.end()


def described(application: Application) -> Any:
    """The report on the application's group."""
    arguments = [
        "streams",
        "describe",
        application.group,
        "--json",
        "--bootstrap",
        application.bootstrap,
    ]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def shares(report: dict[str, Any]) -> dict[str, tuple[int, int | None, list[str], list[str]]]:
    """{endpoint: version used, version supported, active tasks, copies}."""
    return {
        each["endpoint"]: (
            each["used"],
            each["supported"],
            [task["task"] for task in each["active"]],
            sorted(task["task"] for kind in COPIES for task in each[kind]),
        )
        for each in report["processes"]
    }


def test_a_group_is_described_as_its_instances_report_with_its_upgrade_blockers(
    bootstrap: str, older: Streams, tmp_path: Path
) -> None:
    application = Application(bootstrap, "words")

    def start(name: str, **config: Any) -> Instance:
        return application.start(older, name, tmp_path, num_standby_replicas=1, **LEAVES, **config)

    with application.flow():
        one, two = start("one", upgrade_from="1.1"), start("two")
        application.settled(one, two, standbys=1)
        held = described(application)
        assert shares(held) == {
            "one:1": (2, None, one.active, one.standby),
            "two:1": (11, 11, two.active, two.standby),
        }
        assert held["copies"] == "standby_or_warmup"
        (first,) = (each["process"] for each in held["processes"] if each["endpoint"] == "one:1")
        metadata = held["metadata"]
        assert [metadata[key] for key in ("used", "understood", "possible", "held_back_by")] == [
            2,
            2,
            11,
            [first],
        ]
        one.leave()
        one = start("one")
        application.settled(one, two, standbys=1)

    assert application.counted().agrees()
    until(lambda: described(application)["lag"] == 0, "all that was counted is committed")
    free = described(application)
    assert shares(free) == {
        "one:1": (11, 11, one.active, one.standby),
        "two:1": (11, 11, two.active, two.standby),
    }
    assert (free["metadata"]["used"], free["metadata"]["held_back_by"]) == (11, [])
    assert {
        row["partitions"][0]["topic"] for each in free["processes"] for row in each["active"]
    } == {
        application.source,
        application.between,
    }
    for each in (one, two):
        each.leave()
    assert (described(application)["state"], described(application)["processes"]) == ("Empty", [])
