"""A real Apache Kafka for tests and the demo: one process, KRaft combined mode, free ports, gone at
the end.

It decides how a throw-away broker is configured and started, and refuses to know what is asked of
it. The jars come from Maven by a pom that its caller names; Kafka's own tool formats the storage;
`kafka.Kafka` is the process.
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
from types import TracebackType

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
    # a new target in the heartbeat that needs it, as before KIP-1263
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "log.cleaner.enable": "false",
}

JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class KafkaMissing(Exception):
    """A real Kafka cannot run here; the text is a sentence that says what is lacking."""


def jars_of(pom: Path) -> Path:
    """The directory with the jars that `pom` names, under `target/` beside it; fetched by Maven the
    first time.

    Raises KafkaMissing without Maven, and when Maven fails.
    """
    jars = pom.parent / "target" / f"jars-{sha256(pom.read_bytes()).hexdigest()[:12]}"
    if jars.is_dir():
        return jars
    if not shutil.which("mvn"):
        raise KafkaMissing("Maven (mvn) is not on the PATH; it fetches the jars of Apache Kafka.")
    # two Mavens would write to one local repository
    with locked(Path(gettempdir()) / f"apportion-maven-{os.getuid()}.lock"):
        if not jars.is_dir():
            _fetch(pom, jars)
    return jars


def _fetch(pom: Path, jars: Path) -> None:
    """Put the jars that `pom` names into the directory `jars`. Raises KafkaMissing."""
    unfinished = jars.with_name(f"{jars.name}.{os.getpid()}")
    goal = [
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={unfinished.resolve()}",
    ]
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(pom), *goal],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise KafkaMissing(
            "Maven could not fetch the jars of Apache Kafka: "
            f"{last_lines(done.stdout + done.stderr, 8)}"
        )
    with suppress(OSError):  # another user of this machine was faster: theirs is as good
        unfinished.rename(jars)
    shutil.rmtree(unfinished, ignore_errors=True)


class RealKafka:
    """One Apache Kafka, from `with` to its end. `bootstrap` is where it listens, `version` which
    one it is.

    jars: from `jars_of`. directory: empty or not there yet; logs and data live in it and are the
    caller's to delete.
    settings: lines of server.properties, over SETTINGS. Raises KafkaMissing without Java and when
    the broker does not start.
    """

    def __init__(
        self, jars: Path, directory: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory.absolute()  # Kafka's own working directory is another
        self.bootstrap = ""
        self.version = version_of(jars)
        self._classpath = f"{jars.resolve()}/*"
        self._settings = SETTINGS | dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "RealKafka":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def log(self) -> Path:
        """The file that the broker writes its lines to."""
        return self.directory / "kafka.log"

    def start(self) -> None:
        """The broker answers on `bootstrap`; its storage is formatted the first time and kept on a
        later start.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        if not properties.exists():
            broker, controller = free_ports(2)
            self.bootstrap = f"127.0.0.1:{broker}"
            lines = {**layout(broker, controller, self.directory / "data"), **self._settings}
            properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
            self._format(properties)
        self._process = self._launch(properties)
        try:
            self._wait_for_answer(within_s=120)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """No process of this broker is left."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def log_tail(self, lines: int = 40) -> str:
        """The last lines that the broker wrote."""
        return last_lines(self.log.read_text(errors="replace") if self.log.exists() else "", lines)

    def _format(self, properties: Path) -> None:
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            CLUSTER_ID,
            "--config",
            str(properties),
        ]
        done = subprocess.run(
            [*self._java(), *tool], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise KafkaMissing(
                f"Kafka's storage tool failed:\n{last_lines(done.stdout + done.stderr, 25)}"
            )

    def _launch(self, properties: Path) -> "subprocess.Popen[bytes]":
        # Where the system can, the broker dies with us even if we are killed.
        guard = [setpriv, "--pdeathsig", "KILL"] if (setpriv := shutil.which("setpriv")) else []
        command = [
            *guard,
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

    def _wait_for_answer(self, within_s: float) -> None:
        """The broker has answered a request: it is unfenced and takes every other. Raises
        KafkaMissing.
        """
        assert self._process is not None
        until = time.monotonic() + within_s
        while not answers(self.bootstrap):
            if self._process.poll() is not None:
                raise KafkaMissing(
                    f"Kafka ended with code {self._process.returncode} before it was "
                    f"ready:\n{self.log_tail()}"
                )
            if time.monotonic() > until:
                raise KafkaMissing(
                    f"Kafka did not answer within {within_s:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(0.1)

    def _java(self) -> list[str]:
        return [java_program(), *JVM, "-cp", self._classpath]


def layout(broker: int, controller: int, data: Path) -> dict[str, str]:
    """The properties of one process that is broker and controller at once, on two ports of the
    loopback.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data.resolve()),
    }


def java_program() -> str:
    """The `java` of JAVA_HOME, else of the PATH. Raises KafkaMissing."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(java)
    if not found:
        raise KafkaMissing(
            "There is no Java: set JAVA_HOME to a Java 17 or newer, or have java on the PATH."
        )
    return found


def version_of(jars: Path) -> str:
    """The version of Kafka among `jars`, from the name of its client's jar."""
    for jar in sorted(jars.glob("kafka-clients-*.jar")):
        if found := re.fullmatch(r"kafka-clients-(.+)\.jar", jar.name):
            return found[1]
    raise KafkaMissing(f"There is no kafka-clients jar in {jars}.")


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def answers(bootstrap: str) -> bool:
    """Whether a broker there answers ApiVersions v0; a listener that is not ready yet does not."""
    host, _, port = bootstrap.rpartition(":")
    request = struct.pack(">hhih", 18, 0, 1, -1)  # key, version, correlation id, no client id
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def last_lines(text: str, count: int) -> str:
    """The end of `text`."""
    return "\n".join(text.rstrip().splitlines()[-count:])
