"""Kafka Streams' own metadata classes in a process beside us: the driver of Metadata.java."""

import json
from pathlib import Path
from typing import Any

from apportion.streams.metadata.model import AssignmentInfo, SubscriptionInfo
from tests.kafka.java import QUICK_START, JavaProgram
from tests.streams.metadata import in_json, out_of_json


class Refusal(Exception):
    """Java threw; the text is what it said."""


class Oracle(JavaProgram):
    """Java's metadata classes. jars: of Kafka Streams."""

    def __init__(self, jars: Path) -> None:
        super().__init__(Path(__file__).with_name("Metadata.java"), jars, *QUICK_START)

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
        self.tell(json.dumps(ask))
        response: dict[str, Any] = json.loads(self.answer())
        if "refused" in response:
            raise Refusal(response["refused"])
        return response
