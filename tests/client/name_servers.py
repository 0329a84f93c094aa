"""Name servers for tests: what `getaddrinfo` answers of which names."""

import socket
from types import FunctionType
from typing import Any

import pytest

NO_SUCH_NAME = (socket.EAI_NONAME, "Name or service not known")
NO_ANSWER = (socket.EAI_AGAIN, "Temporary failure in name resolution")


def answer_with(monkeypatch: pytest.MonkeyPatch, **errors: tuple[int, str]) -> None:
    """Let the look-up of these names fail so, and any other be as it is."""
    real: Any = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **named: Any) -> Any:
        if host in errors:
            raise socket.gaierror(*errors[host])
        return real(host, *arguments, **named)

    # A connection tells by the module that raises an error from which call it is.
    of_socket = FunctionType(
        look_up.__code__, {**globals(), "__name__": "socket"}, closure=look_up.__closure__
    )
    monkeypatch.setattr(socket, "getaddrinfo", of_socket)
