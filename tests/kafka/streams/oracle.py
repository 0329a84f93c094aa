"""Kafka Streams' own metadata classes in a process beside us: the driver of Metadata.java."""

import json
import subprocess
from pathlib import Path
from typing import Any

from apportion.streams.metadata.model import AssignmentInfo, SubscriptionInfo
from apportion.testing.kafka import java_program
from tests.streams.metadata import in_json, out_of_json


class Refusal(Exception):
    """Java threw; the text is what it said."""


class Oracle:
    """Java's metadata classes, from `with` to its end. jars: of Kafka Streams."""

    def __init__(self, jars: Path) -> None:
        program = Path(__file__).with_name("Metadata.java")
        command = [
            java_program(),
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{jars.resolve()}/*",
            str(program),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input is its end

    def write(self, info: SubscriptionInfo | AssignmentInfo) -> tuple[bytes, bytes]:
        """What Java writes, and the same with those entries in order that Java took from hash
        tables. Raises Refusal.
        """
        response = self._ask(write=in_json(info))
        return bytes.fromhex(response["bytes"]), bytes.fromhex(response["ordered"])

    def read(self, kind: str, data: bytes) -> SubscriptionInfo | AssignmentInfo:
        """What Java reads in these bytes of a "subscription" or an "assignment". Raises Refusal."""
        return out_of_json(self._ask(read=kind, bytes=data.hex())["value"])

    def _ask(self, **ask: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._process.stdin.write(json.dumps(ask) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"Java ended: {self._process.stderr.read()}"
        response: dict[str, Any] = json.loads(line)
        if "refused" in response:
            raise Refusal(response["refused"])
        return response
