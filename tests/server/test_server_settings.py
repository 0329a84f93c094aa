"""Settings that sockets obey: where the broker listens, and where clients are sent."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from apportion.node.listeners import Address
from apportion.node.settings import BrokerSettings
from apportion.server.sockets import bind_listeners, bind_socket


def test_clients_are_told_the_address_that_is_advertised() -> None:
    with ExitStack() as undo:
        for advertised, told in (("elsewhere:1234", "elsewhere"), ("", "127.0.0.1")):
            settings = BrokerSettings.of(
                {"listeners": "127.0.0.1:0", "advertised.listeners": advertised}
            )
            [bound] = bind_listeners(settings.listening(), undo)
            port = 1234 if advertised else bound.socket.getsockname()[1]
            assert bound.advertised == Address(told, port)


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (("::1", "127.0.0.1"), "127.0.0.1"),
        (("127.0.0.1", "127.0.0.2", "::1"), "127.0.0.1"),
        (("::1",), "::1"),
    ],
)
def test_a_name_is_bound_at_its_first_address_of_ipv4_if_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
    addresses: tuple[str, ...],
    expected: str,
    lane_missing: Callable[[str], None],
) -> None:
    if not socket.has_ipv6:
        lane_missing("this machine has no IPv6")
    resolve = socket.getaddrinfo

    def resolved(_name: str, port: int, **kind: Any) -> list[Any]:
        return [each for address in addresses for each in resolve(address, port, **kind)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with bind_socket("a-name", 0) as bound:
        assert bound.getsockname()[0] == expected


def test_the_wildcard_of_ipv6_accepts_both_kinds_of_addresses(
    lane_missing: Callable[[str], None],
) -> None:
    if not socket.has_ipv6:
        lane_missing("this machine has no IPv6")
    with bind_socket("::", 0) as bound:
        bound.listen()
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, bound.getsockname()[1]), timeout=10).close()


def test_a_name_that_nobody_knows_is_in_the_error() -> None:
    with pytest.raises(OSError, match=r"cannot listen on no-such-host\.invalid:0: "):
        bind_socket("no-such-host.invalid", 0)
