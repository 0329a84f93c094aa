"""Real Apache Kafkas, which all workers of a run share, and the tools of Kafka."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

import pytest

from apportion.testing.kafka import KafkaMissing, RealKafka, jars_of
from tests.kafka.differential.compare import side_by_side
from tests.kafka.differential.side import Side
from tests.kafka.java import tool_output
from tests.kafka.secured import Secured
from tests.kafka.standing import StandingKafkas

if TYPE_CHECKING:
    from tests.spark.harness import Pipeline


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


@pytest.fixture(scope="session", autouse=True)
def _kafkas(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> StandingKafkas:
    """The Kafkas of this run, of which this worker is a user from its first test here on."""
    directory = tmp_path_factory.getbasetemp()
    if hasattr(pytestconfig, "workerinput"):
        directory = directory.parent  # above those of each worker
    return StandingKafkas(directory / "standing")


@pytest.fixture(scope="session")
def standing(
    _kafkas: StandingKafkas, jars: Path, lane_missing: Callable[[str], NoReturn]
) -> Callable[[str], RealKafka]:
    """`standing(kind)`: the Kafka of that kind which all workers of this run share. Each test makes
    topics and groups of its own. Without Java the lane is missing.
    """

    def attached(kind: str) -> RealKafka:
        try:
            return _kafkas.attached(kind, jars)
        except KafkaMissing as problem:
            lane_missing(str(problem))

    return attached


@pytest.fixture(scope="session")
def kafka(standing: Callable[[str], RealKafka]) -> RealKafka:
    """A running Kafka with the settings that tests want, and without security."""
    return standing("plain")


@pytest.fixture
def pipeline(kafka: RealKafka, tmp_path: Path) -> "Iterator[Pipeline]":
    """A topic of 4 partitions on the RealKafka, a table, and applications between them."""
    # Imported here: most tests in this directory do without Spark.
    from tests.spark.harness import Pipeline

    made = Pipeline(tmp_path, kafka.bootstrap, f"on-kafka-{uuid4().hex[:8]}", 4)
    yield made
    made.close()


@pytest.fixture
def bootstrap(kafka: RealKafka) -> str:
    """Where the real Kafka listens."""
    return kafka.bootstrap


@pytest.fixture(scope="session")
def tools(lane_missing: Callable[[str], NoReturn]) -> Path:
    """The jars of Kafka's command-line tools; without Maven the lane is missing."""
    try:
        return jars_of(Path(__file__).with_name("pom-tools.xml"))
    except KafkaMissing as problem:
        lane_missing(str(problem))


@pytest.fixture(scope="session")
def config_tool(tools: Path) -> Callable[..., list[str]]:
    """`config_tool(bootstrap, *arguments)` gives the lines that kafka-configs.sh prints."""

    def run(bootstrap: str, *arguments: str) -> list[str]:
        given = ("--bootstrap-server", bootstrap, *arguments)
        printed = tool_output(tools, "org.apache.kafka.tools.ConfigCommand", *given, check=False)
        # Without the stack of its own classes.
        return [line for line in printed.splitlines() if not line.startswith("\t")]

    return run


@pytest.fixture(scope="session")
def acl_tool(tools: Path) -> Callable[..., list[str]]:
    """`acl_tool(bootstrap, *arguments)` gives the blocks that kafka-acls.sh prints, in order."""

    def run(bootstrap: str, *arguments: str) -> list[str]:
        given = ("--bootstrap-server", bootstrap, *arguments)
        printed = tool_output(tools, "org.apache.kafka.tools.AclCommand", *given)
        # Java has both the resources and their ACLs in hash tables.
        blocks = re.split(r"\n\s*\n", printed.strip())
        return sorted("\n".join(sorted(map(str.strip, each.splitlines()))) for each in blocks)

    return run


@pytest.fixture(scope="module")
def secured(standing: Callable[[str], RealKafka], request: pytest.FixtureRequest) -> Secured:
    """The running Kafka with secured listeners, and one record in `TOPIC`, of the kind that the
    module names in SECURED: "guarded" where it deletes ACLs that it did not create.
    """
    broker = standing(getattr(request.module, "SECURED", "secured"))
    return Secured(broker, broker.directory)


@pytest.fixture(scope="module")
def sides(
    standing: Callable[[str], RealKafka], request: pytest.FixtureRequest
) -> Iterator[tuple[Side, Side]]:
    """Our broker with the settings ALIKE of the module, and the real one of the kind that it names
    in KAFKA, with the topics that scripts share.
    """
    kafka = standing(getattr(request.module, "KAFKA", "plain"))
    with side_by_side(kafka, **getattr(request.module, "ALIKE", {})) as both:
        yield both


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
