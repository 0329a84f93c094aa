"""A web server with one answer at a time, and the requests that it got."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any


class WebServer:
    """Answers every request with this status and body; a redirection leads to the body."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.body = status, body
        self.requests: list[dict[str, Any]] = []
        self.address = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        size = int(request.headers.get("Content-Length") or 0)
        body, login = request.rfile.read(size).decode(), request.headers["Authorization"]
        self.requests.append({"body": body, "authorization": login})
        request.send_response(self.status)
        if self.status == 302:
            request.send_header("Location", self.body.decode())
        request.send_header("Content-Length", str(len(self.body)))
        request.end_headers()
        request.wfile.write(self.body)


@contextmanager
def web_server(status: int, body: bytes) -> Iterator[WebServer]:
    """Run a server with this answer."""
    made = WebServer(status, body)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.answer(self)

        do_POST = do_GET

        def log_message(self, *_arguments: Any) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        made.address = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
