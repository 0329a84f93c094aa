"""A Spark Connect server as a process, and a session of it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.application import QUICK_JVM
from tests.spark.harness import ROOT, SPARK_SUBMIT, until

SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "ERROR",
}


@contextmanager
def connect_server(log: Path) -> Iterator[str]:
    """Provide the address of a server for `SparkSession.builder.remote`; it ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [
        word
        for name, value in {**SETTINGS, "spark.connect.grpc.binding.port": str(port)}.items()
        for word in ("--conf", f"{name}={value}")
    ]
    command = [
        SPARK_SUBMIT,
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--driver-memory", "768m"),
        *words,
    ]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path},
            start_new_session=True,
        )

    def listens() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")[-4_000:]
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens, what="the Connect server")
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


@contextmanager
def connect_session(address: str) -> Iterator[SparkSession]:
    """Provide a session of its own, and leave the environment of this process as it was."""
    before = dict(os.environ)  # Spark notes there that the process is a Connect client
    session = SparkSession.builder.remote(address).create()
    try:
        yield session
    finally:
        session.stop()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server of this module listens."""
    with connect_server(tmp_path_factory.mktemp("connect") / "server.log") as address:
        yield address


@pytest.fixture(scope="module")
def spark(address: str) -> Iterator[SparkSession]:
    """A session of the module's server, in place of one in this process."""
    with connect_session(address) as session:
        yield session
