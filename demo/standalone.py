"""A Spark standalone cluster on this host: a Master and Workers, each a process of its own.

It takes nothing but pip's PySpark, whose scripts start no Master and no Worker; `spark-class` does.
Each Worker stands for a host: it is lost with its executors and their Python processes.
"""

import json
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from demo.applications import Application

DEPLOY = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"
EXECUTOR_MEMORY_MB = 512
TIMEOUT_S = 5.0


class StandaloneCluster:
    """A Master that is running, and the Workers that were added.

    nodes: by name, to be watched and ended like any other process. cores: those of a Worker, each
    for an executor of EXECUTOR_MEMORY_MB.
    """

    def __init__(self, logs: Path, scratch_directory: Path, cores: int) -> None:
        self.nodes: dict[str, Application] = {}
        self._logs, self._scratch_directory, self._cores = logs, scratch_directory, cores
        port, self._status_port = _free_ports(2)
        self.url = f"spark://127.0.0.1:{port}"
        self._start(
            "master", "master.Master", "--port", str(port), "--webui-port", str(self._status_port)
        )

    def add_worker(self, name: str) -> None:
        """Start a Worker; it joins the cluster once the Master answers."""
        self._start(
            name,
            "worker.Worker",
            *("--cores", str(self._cores), "--memory", f"{self._cores * EXECUTOR_MEMORY_MB}m"),
            *("--webui-port", "0", "--work-dir", str(self.work_directory(name))),
            self.url,
        )

    def work_directory(self, name: str) -> Path:
        """Return where the executors of this Worker run, each in a directory of its own."""
        return self._scratch_directory / name / "work"

    def lose_worker(self, name: str) -> int:
        """Kill a Worker and its executors at one instant; return how many processes they were."""
        return self.nodes[name].lose_host()

    def executors_of(self, name: str) -> int:
        """Return how many executors run on this Worker."""
        return sum(EXECUTOR in line for line in self.nodes[name].command_lines())

    def cores_by_worker(self) -> list[int]:
        """Return of each Worker in the cluster how many cores are in use, as the Master sees it."""
        return sorted(
            worker["coresused"]
            for worker in self._status()["workers"]
            if worker["state"] == "ALIVE"
        )

    def end(self) -> None:
        """Kill the Master and all Workers."""
        for node in self.nodes.values():
            node.lose_host()

    def _start(self, name: str, node_class: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "demo.node", f"{DEPLOY}.{node_class}"]
        command += ["--host", "127.0.0.1", *arguments]
        log = self._logs / f"{name}.log"
        self.nodes[name] = Application(name, command, log, self._scratch_directory / name)

    def _status(self) -> dict[str, Any]:
        """Return what the Master says of itself; no Workers until it has its pages."""
        url = f"http://127.0.0.1:{self._status_port}/json/"
        try:
            # Without the proxies of the environment: the Master is on this host.
            with build_opener(ProxyHandler({})).open(url, timeout=TIMEOUT_S) as answer:
                status: dict[str, Any] = json.load(answer)
                return status
        # A Master that has just begun to listen answers with its first page, which is no JSON.
        except (OSError, json.JSONDecodeError):
            return {"workers": []}


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on: a Master must know its own before it starts."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
