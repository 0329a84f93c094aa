"""A schema registry for tests: the few paths of its REST API that the official client asks for; and
the official serializer of Avro.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

SUBJECT_NOT_FOUND, SCHEMA_NOT_FOUND = 40401, 40403


class Registry(ThreadingHTTPServer):
    """Subjects with their versions; a schema's id is its place in the list of all."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.refuses_with = 0
        """A status of HTTP with which every request is refused; 0 for none."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def register(self, subject: str, schema: dict[str, Any]) -> dict[str, Any]:
        kept = {
            "schema": schema["schema"],
            "schemaType": schema.get("schemaType", "AVRO"),
            "references": schema.get("references", []),
        }
        if kept not in self.schemas:
            self.schemas.append(kept)
        schema_id = self.schemas.index(kept) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return {"id": schema_id}

    def version(self, subject: str, number: str) -> dict[str, Any] | None:
        versions = self.subjects.get(subject, [])
        position = len(versions) if number == "latest" else int(number)
        if not 0 < position <= len(versions):
            return None
        schema_id = versions[position - 1]
        known = {"subject": subject, "version": position, "id": schema_id}
        return known | self.schemas[schema_id - 1]


class Answers(BaseHTTPRequestHandler):
    """The answers to the requests of one connection."""

    server: Registry

    def do_GET(self) -> None:
        match self.path.partition("?")[0].strip("/").split("/"):
            case ["subjects", subject, "versions", number]:
                self._answer(self.server.version(subject, number), SUBJECT_NOT_FOUND)
            case ["schemas", "ids", number]:
                known = self.server.schemas[int(number) - 1 :][:1]
                self._answer(known[0] if known else None, SCHEMA_NOT_FOUND)
            case _:
                self._answer(None, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match self.path.partition("?")[0].strip("/").split("/"):
            case ["subjects", subject, "versions"]:
                self._answer(self.server.register(subject, body), 404)
            case _:
                self._answer(None, 404)

    def _answer(self, found: dict[str, Any] | None, error: int) -> None:
        body = {"error_code": error, "message": "not found"} if found is None else found
        status = self.server.refuses_with
        if status:
            body = {"error_code": status, "message": "refused"}
        raw = json.dumps(body).encode()
        self.send_response(status or (404 if found is None else 200))
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def schema_registry() -> Iterator[Registry]:
    """A registry that runs until the end."""
    with Registry() as registry:
        thread = Thread(target=registry.serve_forever)
        thread.start()
        try:
            yield registry
        finally:
            registry.shutdown()
            thread.join()


def at(subject: str) -> SerializationContext:
    """The place of a value whose subject has that name."""
    return SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)


def avro_bytes(client: SchemaRegistryClient, subject: str, schema: Any, value: Any) -> bytes:
    written = AvroSerializer(client, json.dumps(schema))(value, at(subject))
    assert isinstance(written, bytes)
    return written
