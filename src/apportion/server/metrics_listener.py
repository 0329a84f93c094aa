"""The HTTP listener of metrics, of a broker or of Spark queries: GET /metrics for Prometheus.

It answers one request on each connection, small and soon: a peer that sends too much, or too
slowly, or does not read, is refused or cut off. Nothing here can stop the broker, or the query.
There is no TLS, login or ACL, whatever the broker's listeners have, and nothing can be changed.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar

from apportion.server.sockets import is_reachable

M = TypeVar("M")

log = logging.getLogger("apportion.server")

REQUEST_BYTES = 8192  # of request line and headers
REQUEST_SECONDS = 5  # from the connection to the last byte of the response
MAX_CONNECTIONS = 16
END_OF_HEAD = b"\r\n\r\n"
PLAIN = "text/plain; charset=utf-8"
UNGUARDED = (
    "metrics are reachable from other machines, without TLS, login or ACLs: any client that "
    "connects may read {shown} (docs/security.md)"
)


class Response(NamedTuple):
    """One HTTP response."""

    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN

    def encode(self) -> bytes:
        """Return the response as it is sent; the connection closes after it."""
        lines = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Connection: close",
            # RFC 9110 demands it of a 405.
            *(["Allow: GET"] if self.status is HTTPStatus.METHOD_NOT_ALLOWED else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class RequestRefused(Exception):
    """A request that gets another status than 200; the text is one sentence for its client."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class MetricsFormat(NamedTuple, Generic[M]):
    """One text of the metrics: its content type, and the function that writes it."""

    content_type: str
    write: Callable[[M], bytes]


def requested_path(head: bytes, formats: Mapping[str, Any]) -> str:
    """Return the path that a request asks for.

    head: the request up to the end of its headers, which are not looked at.
    formats: what there is, by path.
    Errors: RequestRefused for anything but GET of a path that there is.
    """
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "This is no request of HTTP/1.1.")
    method, target, _ = words
    path = target.partition("?")[0]
    if path not in formats:
        raise RequestRefused(HTTPStatus.NOT_FOUND, f"There is only {' and '.join(formats)}.")
    if method != "GET":
        raise RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, "Metrics can only be read, with GET.")
    return path


class MetricsListener(Generic[M]):
    """The listener of metrics on the event loop that runs it."""

    def __init__(
        self, read: Callable[[], Awaitable[M]], formats: Mapping[str, MetricsFormat[M]], shown: str
    ) -> None:
        """Keep the function that reads the metrics; `start` listens.

        formats: of the metrics, by path. shown: what people learn of them, for a warning.
        """
        self._read, self._formats, self._shown = read, formats, shown
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self, listener: socket.socket) -> None:
        """Answer requests on a socket that is bound."""
        if is_reachable(listener):
            log.warning("%s", UNGUARDED.format(shown=self._shown))
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=REQUEST_BYTES)

    async def stop(self) -> None:
        """Close the listener and its connections, whatever they wait for."""
        if self._server is not None:
            self._server.close()
        for writer in self._connections.values():
            writer.transport.abort()
        if self._connections:
            await asyncio.wait(list(self._connections))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection, and close it."""
        task = asyncio.current_task()
        assert task is not None, "asyncio runs each connection as a task"
        is_full = len(self._connections) >= MAX_CONNECTIONS
        self._connections[task] = writer
        # `drain` then waits for all of the response, so that a peer that does not read is cut off.
        writer.transport.set_write_buffer_limits(0)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await self._answer(reader, is_full=is_full)
                writer.write(response.encode())
                await writer.drain()
            writer.close()
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            writer.transport.abort()  # nobody waits for a response
        finally:
            del self._connections[task]

    async def _answer(self, reader: asyncio.StreamReader, *, is_full: bool) -> Response:
        """Return the response to a request, an error's too."""
        try:
            if is_full:
                raise RequestRefused(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"There are {MAX_CONNECTIONS} connections for metrics already.",
                )
            path = requested_path(await _read_head(reader), self._formats)
            content_type, write = self._formats[path]
            metrics = await self._read()
            # Of many groups it takes long, and the broker has clients that wait.
            return Response(HTTPStatus.OK, await asyncio.to_thread(write, metrics), content_type)
        except RequestRefused as refusal:
            return Response(refusal.status, f"{refusal}\n".encode())
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            raise
        except Exception as error:
            # A bug of ours, which must not become more than that for the broker.
            log.error("could not read the metrics: %r", error)
            return Response(
                HTTPStatus.INTERNAL_SERVER_ERROR, b"The metrics could not be read; see the log.\n"
            )


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Return a request up to the end of its headers. Errors: RequestRefused if they are too long.

    Raises IncompleteReadError if the peer closes the connection before.
    """
    try:
        return await reader.readuntil(END_OF_HEAD)
    except asyncio.LimitOverrunError:
        raise RequestRefused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"The request has more than {REQUEST_BYTES} bytes of headers.",
        ) from None
