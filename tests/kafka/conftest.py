"""One real Apache Kafka for the whole run of the tests in this directory."""

import itertools
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from apportion.testing.kafka import JVM_OPTIONS, KafkaMissing, RealKafka, jars_of, java_program
from tests.kafka.differential.side import Side
from tests.kafka.secured import Secured, running, secured_kafka

if TYPE_CHECKING:
    from tests.spark.harness import Pipeline

_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _quick_spark(quick_spark_home: None) -> None:
    """Every test here that starts Spark has the quick one."""


@pytest.fixture(scope="session")
def jars(lane_missing: Callable[[str], NoReturn]) -> Path:
    """The jars of Apache Kafka; without Maven the lane is missing."""
    try:
        return jars_of(Path(__file__).with_name("pom.xml"))
    except KafkaMissing as problem:
        lane_missing(str(problem))


@pytest.fixture(scope="session")
def kafka(
    jars: Path, tmp_path_factory: pytest.TempPathFactory, lane_missing: Callable[[str], NoReturn]
) -> Iterator[RealKafka]:
    """A running RealKafka; without Java the lane is missing. Each test makes topics and groups of
    its own.
    """
    try:
        broker = RealKafka(
            jars, tmp_path_factory.mktemp("kafka"), {"group.min.session.timeout.ms": "100"}
        )
        broker.start()
    except KafkaMissing as problem:
        lane_missing(str(problem))
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def pipeline(kafka: RealKafka, tmp_path: Path) -> "Iterator[Pipeline]":
    """A topic of 4 partitions on the RealKafka, a table, and applications between them."""
    # Imported here: most tests in this directory do without Spark.
    from tests.spark.harness import Pipeline

    made = Pipeline(tmp_path, kafka.bootstrap, f"on-kafka-{next(_numbers)}", 4)
    yield made
    made.close()


@pytest.fixture
def bootstrap(kafka: RealKafka) -> str:
    """Where the real Kafka listens."""
    return kafka.bootstrap


@pytest.fixture(scope="session")
def config_tool(jars: Path) -> Callable[..., list[str]]:
    """`config_tool(bootstrap, *arguments)` gives the lines that kafka-configs.sh prints."""

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


@pytest.fixture(scope="session")
def acl_tool(lane_missing: Callable[[str], NoReturn]) -> Callable[..., list[str]]:
    """`acl_tool(bootstrap, *arguments)` gives the blocks that kafka-acls.sh prints, in order."""
    try:
        jars = jars_of(Path(__file__).with_name("pom-tools.xml"))
    except KafkaMissing as problem:
        lane_missing(str(problem))

    def run(bootstrap: str, *arguments: str) -> list[str]:
        command = ("-cp", f"{jars.resolve()}/*", "org.apache.kafka.tools.AclCommand")
        done = subprocess.run(
            [java_program(), *JVM_OPTIONS, *command, "--bootstrap-server", bootstrap, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        # Java has both the resources and their ACLs in hash tables.
        blocks = re.split(r"\n\s*\n", done.stdout.strip())
        return sorted("\n".join(sorted(map(str.strip, each.splitlines()))) for each in blocks)

    return run


@pytest.fixture(scope="session")
def secured(
    jars: Path, tmp_path_factory: pytest.TempPathFactory, lane_missing: Callable[[str], NoReturn]
) -> Iterator[Secured]:
    """A running RealKafka with secured listeners, which has one record in `TOPIC`."""
    try:
        with running(secured_kafka(jars, tmp_path_factory.mktemp("secured"))) as made:
            yield made
    except KafkaMissing as problem:
        lane_missing(str(problem))


@pytest.fixture
def group(sides: tuple[Side, Side]) -> str:
    """The name of a group that both brokers of the module's `sides` see for the first time; their
    scripts begin anew.
    """
    for side in sides:
        side.begin()
    return f"group-{time.time_ns()}"


def until(holds: Callable[..., bool], limit_s: float = 30) -> None:
    """What must come true has come true."""
    give_up = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)  # deadlines are real time on a foreign broker
