"""The brokers, each a process of its own with an address and a processor time."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

from bench.peers.downloads import go_program, jars
from bench.peers.rows import OURS, PeerMissing
from bench.peers.secured import TlsListener, tls_listener

from apportion.testing.kafka import (
    CLUSTER_ID,
    KafkaMissing,
    answers_requests,
    free_ports,
    java_program,
    kraft_properties,
    last_lines,
    output_if_failed,
)

READY_S = 120
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

KAFKA_JVM = (  # as kafka-server-start.sh and kafka-run-class.sh have them
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
SESSION_MS = 600_000
SESSIONS = {  # a member at rest outlives the rounds of all other sides
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
}
KAFKA_SETTINGS = SESSIONS | {  # a cluster of one broker; the rest is Kafka's default
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # allows a group to have less than the default, which stays 5,000
    "group.consumer.min.heartbeat.interval.ms": "100",
}


class PeerBroker:
    """A running broker.

    bootstrap: its address. tls: its listener with TLS if it has one. syncs_if_told: whether it
    leaves a topic to the operating system unless flush.messages says otherwise, as Kafka does.
    """

    def __init__(self, process: "subprocess.Popen[Any]", bootstrap: str) -> None:
        """Take over a process that has begun."""
        self.process = process
        self.bootstrap = bootstrap
        self.tls: TlsListener | None = None
        self.syncs_if_told = False

    @property
    def port(self) -> int:
        """The port of the address."""
        return int(self.bootstrap.rpartition(":")[2])

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads, ended ones too, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_megabytes(self) -> float:
        """Return the memory of the process, in units of 1,000,000 bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * PAGE_BYTES / 1e6

    def stop(self) -> None:
        """End the process, by force after ten seconds."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Start(Protocol):
    """Start a broker that keeps its data in a directory. Raises PeerMissing."""

    def __call__(self, directory: Path) -> PeerBroker:
        """Return the broker, ready for clients."""


def start_ours(
    directory: Path, listen: str = "127.0.0.1:0", settings: Mapping[str, str] | None = None
) -> PeerBroker:
    """Start `apportion serve` with its defaults, but for long sessions and these settings."""
    words = ["-m", "apportion.cli.main", "serve", "--listen", listen]
    for pair in (SESSIONS | dict(settings or {})).items():
        words += ["--set", "=".join(pair)]
    return _announced([sys.executable, *words, "--data-dir", str(directory / "data")], directory)


def start_ours_at_5s(directory: Path) -> PeerBroker:
    """Start `apportion serve` with Kafka's heartbeat interval, however few members there are."""
    return start_ours(directory, settings={"apportion.heartbeat.budget.per.second": "0"})


def start_ours_with_tls(directory: Path) -> PeerBroker:
    """Start `apportion serve` with a TLS listener beside the plain one."""
    tls = tls_listener(directory)
    listen = f"SSL://{tls.bootstrap},PLAINTEXT://127.0.0.1:0"  # the address of the last is read
    broker = start_ours(directory, listen, tls.settings())
    broker.tls = tls
    return broker


def start_kfake(directory: Path) -> PeerBroker:
    """Start kfake, which keeps everything in memory."""
    return _announced([str(go_program("kfake"))], directory)


def start_synced_kfake(directory: Path) -> PeerBroker:
    """Start kfake with files that are synced before an answer."""
    return _announced([str(go_program("kfake")), f"data-dir={directory}/data"], directory)


def _launched(command: list[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a process that, where the system can, dies with this one even if that is killed."""
    setpriv = shutil.which("setpriv")
    die_with_parent = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
    return subprocess.Popen([*die_with_parent, *command], **options)


def _announced(command: list[str], directory: Path) -> PeerBroker:
    """Start a program that prints a line with its address at the end. Raises PeerMissing."""
    with (directory / "log").open("ab") as log:
        process = _launched(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    port = line.strip().rpartition(":")[2]
    broker = PeerBroker(process, f"127.0.0.1:{port}")
    if not port.isdigit():
        broker.stop()
        output = last_lines((directory / "log").read_text(), 6)
        raise PeerMissing(f"{Path(command[0]).name} did not start: {output}")
    return broker


def start_kafka_with_tls(directory: Path) -> PeerBroker:
    """Start Apache Kafka with a TLS listener beside the plain one."""
    return start_kafka(directory, tls_listener(directory))


def start_kafka(directory: Path, tls: TlsListener | None = None) -> PeerBroker:
    """Start Apache Kafka, one process with new storage, flags of its own scripts."""
    try:
        java = [java_program(), *KAFKA_JVM, "-cp", f"{jars('pom-kafka.xml').resolve()}/*"]
    except KafkaMissing as problem:
        raise PeerMissing(str(problem)) from problem
    port, controller = free_ports(2)
    lines = kraft_properties(port, controller, directory / "data") | KAFKA_SETTINGS
    if tls is not None:
        lines = tls.beside(lines)
    properties = directory / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    format_storage = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID]
    output = output_if_failed([*java, *format_storage, "--config", str(properties)])
    if output is not None:
        raise PeerMissing(f"Kafka's storage tool failed: {last_lines(output, 6)}")
    with (directory / "log").open("ab") as log:
        process = _launched(
            [*java, "-Dorg.apache.logging.log4j.level=WARN", "kafka.Kafka", str(properties)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
        )
    broker = PeerBroker(process, f"127.0.0.1:{port}")
    broker.tls = tls
    broker.syncs_if_told = True
    deadline = time.monotonic() + READY_S
    while not answers_requests(broker.bootstrap):
        if process.poll() is not None or time.monotonic() > deadline:
            broker.stop()
            raise PeerMissing(
                f"Kafka did not start: {last_lines((directory / 'log').read_text(), 6)}"
            )
        time.sleep(0.1)
    return broker


STARTS: dict[str, Start] = {
    OURS: start_ours,
    "ours_at_5s": start_ours_at_5s,
    "ours_with_tls": start_ours_with_tls,
    "kafka": start_kafka,
    "kafka_with_tls": start_kafka_with_tls,
    "kfake": start_kfake,
    "kfake_synced": start_synced_kfake,
}


class Brokers:
    """The brokers of a run, as a context manager: each starts when it is first asked for."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._running: dict[str, PeerBroker] = {}
        self._missing: dict[str, PeerMissing] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def get(self, name: str) -> PeerBroker:
        """Return the broker of this name in STARTS. Raises PeerMissing, each time anew."""
        if name in self._missing:
            raise self._missing[name]
        if name not in self._running:
            directory = tempfile.TemporaryDirectory(prefix=f"peers-{name}-")
            self._stack.enter_context(directory)
            try:
                broker = STARTS[name](Path(directory.name))
            except PeerMissing as problem:
                self._missing[name] = problem
                raise
            self._stack.callback(broker.stop)
            self._running[name] = broker
        return self._running[name]
