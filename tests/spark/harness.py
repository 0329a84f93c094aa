"""Applications, events and exact results for the Spark failure tests."""

import os
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar

import pyspark
from confluent_kafka import Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.member.assignors.serde import decode_assignment
from apportion.member.batch.span import parse_span
from apportion.spark.processes.stop_requests import request_or_none
from apportion.topics import partitions_of
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from demo import host

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
SPARK_SUBMIT = str(Path(pyspark.__file__).with_name("bin") / "spark-submit")
SUBMITTED = "from tests.spark.application import main\n\nmain()\n"
PATIENCE_S = 300  # Spark alone takes two minutes to start where others use the cores


def until(
    ready: Callable[[], T | Literal[False] | None],
    seconds: int = PATIENCE_S,
    what: str = "it",
    also: "Sequence[Application]" = (),
) -> T:
    """The first true answer of `ready`. Fails after `seconds`, or when one of the applications
    `also` has ended.
    """
    deadline = time.monotonic() + seconds
    while not (answer := ready()):
        for application in also:
            application.refuse_end()
        if time.monotonic() > deadline:
            logs = "\n".join(application.tail() for application in also)
            raise AssertionError(f"waited {seconds} s for {what}\n{logs}")
        time.sleep(0.1)
    return answer


class Application:
    """One Spark application in a process of its own."""

    def __init__(
        self, pipeline: "Pipeline", name: str, checkpoint: str | None = None, **options: Any
    ) -> None:
        self.name, self.gates = name, pipeline.path / f"gates-{name}"
        for gate in ("reading", "written", "planning"):
            (self.gates / gate).mkdir(parents=True, exist_ok=True)
        self.checkpoint = pipeline.path / f"checkpoint-{checkpoint or name}"
        given = {
            "bootstrap": pipeline.bootstrap,
            "group": pipeline.group,
            "topic": pipeline.topic,
            "table": str(pipeline.table),
            "checkpoint": str(self.checkpoint),
            "gates": str(self.gates),
            **options,
        }
        enter = given.pop("enter", ())  # a command that runs the one after it
        command = [sys.executable, "-m", "tests.spark.application"]
        if given.pop("submit", False):
            script = pipeline.path / f"{name}.py"
            script.write_text(SUBMITTED)
            command = [SPARK_SUBMIT, str(script)]
        extra, settings = given.pop("source", {}), given.pop("spark", {})
        words = [word for key, value in given.items() for word in (f"--{key}", value)]
        words += [
            word
            for key, value in {"kafka.client.id": name, **extra}.items()
            for word in ("--option", f"{key}={value}")
        ]
        words += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        # What spark-submit starts does not look where it was started.
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._log = pipeline.path / f"{name}.log"
        self._expected_end = False
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*enter, *command, *words],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path},
                start_new_session=True,
            )

    def tail(self) -> str:
        return f"--- {self.name}\n" + "\n".join(
            self._log.read_text(errors="replace").splitlines()[-40:]
        )

    def refuse_end(self) -> None:
        assert self._expected_end or self.process.poll() is None, (
            f"{self.name} ended by itself\n{self.tail()}"
        )

    def close_gate(self, gate: str) -> None:
        for trace in (self.gates / gate).glob("entered*"):
            trace.unlink()
        (self.gates / gate / "closed").touch()

    def open_gate(self, gate: str) -> None:
        (self.gates / gate / "closed").unlink(missing_ok=True)

    def wait_at(self, gate: str, seconds: int = PATIENCE_S, processes: int = 1) -> None:
        """Returns once so many of its processes wait at the gate."""
        until(
            lambda: len(self.processes_at(gate)) >= processes,
            seconds,
            f"{self.name} at the gate {gate}",
            [self],
        )

    def processes_at(self, gate: str) -> set[int]:
        """The pids of those that came to the gate since it was closed."""
        return {
            int(trace.name.removeprefix("entered-"))
            for trace in (self.gates / gate).glob("entered-*")
        }

    def until_triggered(self, times: int, seconds: int = PATIENCE_S) -> None:
        """Returns once the source has answered so many more triggers; it is started with the
        option planning="gated".
        """
        before = self._triggers_answered()
        until(
            lambda: self._triggers_answered() >= before + times,
            seconds,
            f"{times} more triggers of {self.name}",
            [self],
        )

    def _triggers_answered(self) -> int:
        answered = self.gates / "planning" / "answered"
        return answered.stat().st_size if answered.exists() else 0

    def until_asked_to_stop(self, seconds: int = PATIENCE_S) -> None:
        """Returns once the driver has asked the source to plan no further batch."""
        newest = self.checkpoint / "offsets" / str(self.batches("offsets")[-1])
        span = parse_span(newest.read_text().splitlines()[-1])
        until(lambda: request_or_none(span.id), seconds, f"{self.name} asked to stop", [self])

    def batches(self, kind: str = "commits") -> list[int]:
        """The numbers of the batches in Spark's own log."""
        return sorted(
            int(entry.name) for entry in (self.checkpoint / kind).glob("*") if entry.name.isdigit()
        )

    def lose(self) -> None:
        """Every process of the application is killed at one instant."""
        self._expected_end = True
        host.kill_host(self.process.pid)
        self.process.wait(10)

    def stop(self) -> None:
        self._expected_end = True
        self.process.terminate()
        assert self.process.wait(60) == 0, self.tail()

    def wait_for_end(self, seconds: int = PATIENCE_S, *, code: int = 0) -> None:
        self._expected_end = True
        assert self.process.wait(seconds) == code, self.tail()


class Pipeline:
    """One topic, one group, one table, and the applications of one test."""

    def __init__(
        self,
        path: Path,
        bootstrap: str,
        name: str,
        partitions: int,
        source: dict[str, str] | None = None,
        *,
        client: dict[str, Any] | None = None,
    ) -> None:
        """source: options of every application's source, over which those of a single one go.
        client: what its other clients need of security, in the names of a Consumer.
        """
        self.source = source or {}
        security = client or {}
        self.path, self.bootstrap, self.group, self.topic = (
            path,
            bootstrap,
            f"{name}-group",
            f"{name}-topic",
        )
        self.table = path / "table"
        self.cluster = Cluster(bootstrap, security=client_security(security))
        self.partitions = partitions_of(self.cluster.create_topic(self.topic, partitions))
        quiet = {"log_level": 0}  # a broker that a test has killed is no news
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": "lz4",
                "enable.idempotence": True,
                **quiet,
                **{name.replace("_", "."): value for name, value in security.items()},
            }
        )
        self.produced: dict[tuple[int, int], str] = {}
        self.applications: list[Application] = []

    def start(self, name: str, **options: Any) -> Application:
        application = Application(
            self, name, **{**options, "source": {**self.source, **options.get("source", {})}}
        )
        self.applications.append(application)
        return application

    def produce(self, count: int, partition: int | None = None, tail_bytes: int = 0) -> None:
        """`count` more events, spread evenly; they are acknowledged. tail_bytes: random bytes in
        each, as letters.
        """
        random = Random(0)
        failed: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error:
                failed.append(error)
            else:
                self.produced[message.partition(), message.offset()] = message.value().decode()

        for number in range(count):
            where = partition if partition is not None else number % len(self.partitions)
            value = f"event {len(self.produced)} {number}".encode()
            if tail_bytes:
                value += b" " + b64encode(random.randbytes(tail_bytes))
            self.producer.produce(self.topic, value, partition=where, on_delivery=delivered)
        assert self.producer.flush(90) == 0, failed
        assert not failed, failed

    def rows(self) -> list[tuple[int, int, str]]:
        """(partition, offset, value) of every row of the table, sorted."""
        try:
            table = DeltaTable(str(self.table)).to_pyarrow_table()
        except TableNotFoundError:
            return []
        return sorted(
            (row["partition"], row["offset"], row["value"])
            for row in table.select(["partition", "offset", "value"]).to_pylist()
        )

    def orphans(self) -> list[str]:
        """Parquet files that the table does not refer to."""
        held = {Path(uri).name for uri in DeltaTable(str(self.table)).file_uris()}
        return sorted(path.name for path in self.table.glob("*.parquet") if path.name not in held)

    def expected(
        self, keep: Callable[[int, int], bool] = lambda partition, offset: True
    ) -> list[tuple[int, int, str]]:
        return sorted(
            (*position, value) for position, value in self.produced.items() if keep(*position)
        )

    def until_written(self, seconds: int = PATIENCE_S) -> None:
        """Every produced event is in the table (or more than that)."""
        until(
            lambda: len(self.rows()) >= len(self.produced),
            seconds,
            f"{len(self.produced)} rows, got {len(self.rows())}",
            self.applications,
        )

    def until_committed(self, seconds: int = PATIENCE_S) -> None:
        """The group knows that every produced event is in the table: the last batch has ended."""
        until(
            lambda: self.total_committed() >= len(self.produced),
            seconds,
            f"{len(self.produced)} committed, got {self.total_committed()}",
            self.applications,
        )

    def owners(self) -> dict[int, str]:
        """partition -> client id of its owner, as the coordinator describes it."""
        if self.source.get("kafka.group.protocol") == "classic":
            (group,) = self.cluster.call(
                DescribeGroupsRequest(groups=(self.group,)), coordinator=self.group
            ).groups
            given = {
                member.client_id: member.member_assignment
                for member in group.members
                if len(member.member_assignment)
            }
            return {
                number: who
                for who, blob in given.items()
                for parts in decode_assignment(blob).partitions
                for number in parts.partitions
            }
        request = ConsumerGroupDescribeRequest(group_ids=(self.group,))
        (group,) = self.cluster.call(request, coordinator=self.group).groups
        return {
            number: member.client_id
            for member in group.members
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        }

    def until_owned_by(self, *names: str, seconds: int = PATIENCE_S) -> dict[int, str]:
        """Every partition has an owner and the owners are exactly these."""
        return until(
            lambda: (
                len(owned := self.owners()) == len(self.partitions)
                and {*owned.values()} == {*names}
                and owned
            ),
            seconds,
            f"owners {names}, have {self.owners()}",
            self.applications,
        )

    def committed(self) -> dict[int, int | None]:
        return {
            partition.partition: offset
            for partition, offset in self.cluster.committed(self.group, self.partitions).items()
        }

    def total_committed(self) -> int:
        """The sum of the group's offsets; all topics here begin at 0."""
        return sum(offset or 0 for offset in self.committed().values())

    def close(self) -> None:
        for application in self.applications:
            application.lose()
        self.cluster.close()
