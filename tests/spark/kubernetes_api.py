"""An API server of Kubernetes that grants everything and remembers it; it runs no pod."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request to create or change an object: the path of the API, and the object."""

    path: str
    body: Any


@contextmanager
def kubernetes_api() -> Iterator[tuple[str, list[Asked]]]:
    """Provide the server's URL, and what it was asked so far."""
    asked: list[Asked] = []

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(Asked(self.path.partition("?")[0], body))
            text = json.dumps({**body, "metadata": {**body["metadata"], "uid": "1"}}).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_PATCH = do_POST

        def log_message(self, format: str, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
