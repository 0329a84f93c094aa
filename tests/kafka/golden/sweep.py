"""One request of ours for every API and version that we speak: the answers are the real Kafka's, in
every version.

The requests stand in sweep.txt, in this order: later ones see what earlier ones left. One that not
every version has begins with the versions, `0-3` or `4-`. TOPIC is the id of the topic NAME,
VERSION the request's version and NEXT the one after it.
"""

import importlib
import pkgutil
import re
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apportion.wire.messages as messages
from apportion.wire.batch import encode_batch
from apportion.wire.codec import read, write
from apportion.wire.messages.delete_topics import DeleteTopicsRequest
from apportion.wire.messages.metadata import MetadataResponse
from apportion.wire.table import APIS
from tests.kafka.golden.proxy import exactly
from tests.kafka.golden.security import SECURITY_BODIES
from tests.message_texts import request_of as from_text
from tests.messages import request

NAME = "birds"
Body = Callable[[int, bytes], Any]
"""A request of its version and the topic's id."""
LINE = re.compile(r"(?:(\d+)-(\d*) )?((\w+).*)")
VERSIONS = {api.name: api.request.__versions__ for api in APIS.values()}


def produced(version: int, topic: bytes) -> Any:
    """One good record, and one for a partition that is not there."""
    batch = encode_batch([(b"k", b"v", (("h", b"x"),))], timestamp_ms=1_700_000_000_000)
    parts = [{"index": index, "records": batch} for index in (0, 99)]
    data = [{"name": NAME, "topic_id": topic, "partition_data": parts}]
    return request("Produce", acks=-1, timeout_ms=5000, topic_data=data)


def written() -> dict[str, Body]:
    """What makes the request of each API in sweep.txt."""
    texts: dict[str, dict[int, str]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        match = LINE.fullmatch(line)
        assert match is not None, line
        first, last, text, name = match.groups()
        of_api = VERSIONS[name]
        chosen = range(int(first or of_api[0]), int(last or of_api[-1]) + 1)
        texts.setdefault(name, {}).update(dict.fromkeys(chosen, text))

    def body(of_version: dict[int, str]) -> Body:
        def make(version: int, topic: bytes) -> Any:
            text = of_version.get(version) or of_version[min(of_version)]
            text = text.replace("VERSION", str(version)).replace("NEXT", str(version + 1))
            return from_text(text, {"TOPIC": topic})

        return make

    return {name: body(of_version) for name, of_version in texts.items()}


BODIES: list[Body] = [*(written() | {"Produce": produced}).values(), *SECURITY_BODIES]


def requests_and_responses() -> dict[int, dict[str, Any]]:
    """API key -> {"request": class, "response": class}, from every message module there is."""
    table: dict[int, dict[str, Any]] = {}
    for module in pkgutil.iter_modules(messages.__path__):
        for each in vars(importlib.import_module(f"{messages.__name__}.{module.name}")).values():
            if getattr(each, "__type__", "") in ("request", "response"):
                table.setdefault(each.__key__, {})[each.__type__] = each
    return table


def sweep(bootstrap: str) -> Iterator[str]:
    """Each request in each version has been sent and answered; yields what the broker would not
    answer.
    """
    host, port = bootstrap.split(":")
    table, topic = requests_and_responses(), topic_id(bootstrap)
    for body in BODIES:
        kind = type(body(0, topic))
        # what the version after it has made
        for version in sorted(kind.__versions__, reverse=kind is DeleteTopicsRequest):
            asked = body(version, topic)
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                try:
                    ask(connection, asked, version)
                except (EOFError, OSError) as error:
                    yield f"{kind.__name__} v{version}: {error!r}"
    assert {body(0, topic).__key__ for body in BODIES} <= set(table)


def ask(connection: socket.socket, request: Any, version: int) -> bytes:
    """The response frame to one request."""
    cls = type(request)
    header = (
        struct.pack(">hhih", cls.__key__, version, 7, 5)
        + b"sweep"
        + (b"\0" if version >= cls.__flexible__ else b"")
    )
    frame = header + write(request, version)
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    return exactly(connection, struct.unpack(">i", exactly(connection, 4))[0])


def topic_id(bootstrap: str) -> bytes:
    """The id of the topic NAME."""
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        frame = ask(connection, request("Metadata", topics=[{"name": NAME}]), 12)
    return bytes(read(MetadataResponse, 12, frame, 5)[0].topics[0].topic_id)
