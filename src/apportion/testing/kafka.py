"""A real Apache Kafka for tests and the demo: one process in KRaft combined mode, on free ports.

The jars come from Maven, by a pom that the caller names; Kafka's own tool formats the storage; the
process is `kafka.Kafka`. This module configures and starts a throw-away broker.
"""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

from apportion.testing.lock import locked

CLUSTER_ID = "apportionRealKafkaAAAA"  # 22 characters of URL-safe base64, as Kafka wants them

SETTINGS = {  # where a throw-away broker differs from Kafka's defaults
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    # Compute a new target in the heartbeat that needs it, as before KIP-1263.
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "log.cleaner.enable": "false",
    # Keep records of any age: a test's may be of 1970, and the first check for records older than
    # log.retention.ms (7 days) would delete them, whenever it comes.
    "log.retention.ms": "-1",
}

JVM_OPTIONS = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
)


class KafkaMissing(Exception):
    """A real Kafka cannot run here; the text says what is missing, in one sentence."""


def jars_of(pom: Path) -> Path:
    """Return a directory with the jars that `pom` names, under `target/` beside it.

    Maven fetches them the first time. Raises KafkaMissing without Maven, and when Maven fails.
    """
    jars = pom.parent / "target" / f"jars-{sha256(pom.read_bytes()).hexdigest()[:12]}"
    if jars.is_dir():
        return jars
    if not shutil.which("mvn"):
        raise KafkaMissing("Maven (mvn) is not on the PATH; it fetches the jars of Apache Kafka.")
    # Only one Maven at a time may write to the local repository.
    with locked(Path(gettempdir()) / f"apportion-maven-{os.getuid()}.lock"):
        if not jars.is_dir():
            _fetch(pom, jars)
    return jars


def _fetch(pom: Path, jars: Path) -> None:
    """Let Maven copy the jars that `pom` names to the directory `jars`. Raises KafkaMissing."""
    draft = jars.with_name(f"{jars.name}.{os.getpid()}")
    goal = [
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={draft.resolve()}",
    ]
    output = output_if_failed(["mvn", "-q", "-B", "-f", str(pom), *goal])
    if output is not None:
        shutil.rmtree(draft, ignore_errors=True)
        raise KafkaMissing(
            f"Maven could not fetch the jars of Apache Kafka: {last_lines(output, 8)}"
        )
    with suppress(OSError):  # another process was faster: its directory is as good
        draft.rename(jars)
    shutil.rmtree(draft, ignore_errors=True)


class RealKafka:
    """One process of Apache Kafka, as a context manager that starts and kills it.

    bootstrap: the address where it listens. addresses: those of its further listeners, by their
    names. version: Kafka's.
    jars: from `jars_of`. directory: for logs and data; the caller deletes it. settings: lines of
    server.properties, which replace those of SETTINGS. listeners: the names of further listeners,
    and the security protocol of each. Raises KafkaMissing without Java and when the broker does not
    start.
    """

    def __init__(
        self,
        jars: Path,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the settings; `start` starts Kafka."""
        self.directory = directory.absolute()  # Kafka's own working directory is another
        self.bootstrap = ""
        self.addresses: dict[str, str] = {}
        self._listeners = dict(listeners or {})
        self.version = version_of(jars)
        self._classpath = f"{jars.resolve()}/*"
        self._settings = SETTINGS | dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "RealKafka":
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()

    @property
    def log(self) -> Path:
        """The file that the broker writes its lines to."""
        return self.directory / "kafka.log"

    def start(self) -> None:
        """Start Apache Kafka and wait until it answers on `bootstrap`.

        The first start formats the storage and picks the ports; a later one keeps both.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        if not properties.exists():
            broker, controller, *further = free_ports(2 + len(self._listeners))
            self.bootstrap = f"127.0.0.1:{broker}"
            lines = kraft_properties(broker, controller, self.directory / "data")
            for (name, protocol), port in zip(self._listeners.items(), further, strict=True):
                self.addresses[name] = f"127.0.0.1:{port}"
                lines["listeners"] += f",{name}://{self.addresses[name]}"
                lines["listener.security.protocol.map"] += f",{name}:{protocol}"
            lines |= self._settings
            properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
            self._format(properties)
        self._process = self._launch(properties)
        try:
            self._wait_for_answer(timeout_s=120)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill Kafka's process group with SIGKILL; does nothing if it is not running."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of the broker's log."""
        return last_lines(self.log.read_text(errors="replace") if self.log.exists() else "", lines)

    def _format(self, properties: Path) -> None:
        """Format the log directories with Kafka's storage tool, as KRaft requires.

        Raises KafkaMissing with the tool's output if that fails.
        """
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            CLUSTER_ID,
            "--config",
            str(properties),
        ]
        output = output_if_failed([*self._java(), *tool])
        if output is not None:
            raise KafkaMissing(f"Kafka's storage tool failed:\n{last_lines(output, 25)}")

    def _launch(self, properties: Path) -> "subprocess.Popen[bytes]":
        """Start Kafka's process, in a session of its own, with its output in the log file."""
        # Where the system can, the broker dies with us even if we are killed.
        setpriv = shutil.which("setpriv")
        die_with_parent = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        command = [
            *die_with_parent,
            *self._java(),
            "-Dorg.apache.logging.log4j.level=INFO",
            "kafka.Kafka",
            str(properties),
        ]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
            )

    def _wait_for_answer(self, timeout_s: float) -> None:
        """Wait until Kafka answers a request: then it is unfenced and serves all others.

        It opens its listeners one after the other, so each is waited for. Raises KafkaMissing if it
        ends before, or at the timeout.
        """
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while not (
            answers_requests(self.bootstrap) and all(map(_listens, self.addresses.values()))
        ):
            if self._process.poll() is not None:
                raise KafkaMissing(
                    f"Kafka ended with code {self._process.returncode} before it was "
                    f"ready:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise KafkaMissing(
                    f"Kafka did not answer within {timeout_s:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(0.1)

    def _java(self) -> list[str]:
        return [java_program(), *JVM_OPTIONS, "-cp", self._classpath]


def _listens(address: str) -> bool:
    """Return whether a connection to this address is accepted."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), 1):
        return True
    return False


def kraft_properties(broker: int, controller: int, data: Path) -> dict[str, str]:
    """Return server.properties of a process that is broker and controller at once (KRaft).

    broker, controller: ports of the loopback. data: the directory of the logs.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data.resolve()),
    }


def output_if_failed(
    command: list[str],
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str | None:
    """Run the command; return all its output if it fails, else None.

    directory, environment: of the command; None for those of this process.
    """
    completed = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return completed.stdout + completed.stderr if completed.returncode else None


def java_program() -> str:
    """Return the path of the `java` that runs Apache Kafka: of JAVA_HOME, else of the PATH.

    Raises KafkaMissing.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    program = shutil.which(java)
    if not program:
        raise KafkaMissing(
            "There is no Java: set JAVA_HOME to a Java 17 or newer, or have java on the PATH."
        )
    return program


def version_of(jars: Path) -> str:
    """Return Kafka's version, from the file name of the client's jar in `jars`."""
    for jar in sorted(jars.glob("kafka-clients-*.jar")):
        if match := re.fullmatch(r"kafka-clients-(.+)\.jar", jar.name):
            return match[1]
    raise KafkaMissing(f"There is no kafka-clients jar in {jars}.")


def free_ports(count: int) -> list[int]:
    """Return as many different free ports of the loopback."""
    sockets = [socket.socket() for _ in range(count)]
    for listener in sockets:
        listener.bind(("127.0.0.1", 0))
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def answers_requests(bootstrap: str) -> bool:
    """Return whether a broker answers ApiVersions v0 there; one that is starting does not."""
    host, _, port = bootstrap.rpartition(":")
    request = struct.pack(">hhih", 18, 0, 1, -1)  # key, version, correlation id, no client id
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def last_lines(text: str, count: int) -> str:
    """Return the last `count` lines of a text."""
    return "\n".join(text.rstrip().splitlines()[-count:])
