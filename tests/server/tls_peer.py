"""A broker with TLS on an event loop of the test's choice, and clients of bare bytes over TLS."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from apportion.machine import Caller
from apportion.node.settings import BrokerSettings
from apportion.server.request_receiver import RespondingConnection, ResponseSlot
from apportion.server.server import Server
from apportion.wire.messages.metadata import MetadataRequest
from tests.certificates import Authority, Issued, written
from tests.server.peer import Peer

AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker", ("127.0.0.1",))
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
TLS = {
    "listeners": "SSL://127.0.0.1:0",
    "ssl.keystore.certificate.chain": BROKER.chain_pem(),
    "ssl.keystore.key": BROKER.key_pem(),
}
MUTUAL = {
    **TLS,
    "ssl.client.auth": "required",
    "ssl.truststore.certificates": AUTHORITY.pem,
}


class WatchedServer(Server):
    """A server that remembers who has sent requests."""

    def __init__(self, settings: BrokerSettings, data_dir: Path) -> None:
        super().__init__(settings, data_dir)
        self.callers: list[Caller] = []

    def submit(
        self, connection: RespondingConnection, slot: ResponseSlot, request: Any, caller: Caller
    ) -> None:
        self.callers.append(caller)
        super().submit(connection, slot, request, caller)

    @property
    def principals(self) -> list[str]:
        return [caller.principal for caller in self.callers]


def with_server(
    data_dir: Path,
    settings: dict[str, Any],
    script: Callable[[WatchedServer], Any],
    loop: str = "uvloop",
) -> Any:
    """Run the script on a thread while a server with these settings runs; return its result."""

    async def run() -> Any:
        server = WatchedServer(BrokerSettings.of(settings), data_dir)
        await server.start()
        try:
            return await asyncio.to_thread(script, server)
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(run())


def address(server: Server, listener: str = "SSL") -> str:
    return str(server.advertised[listener])


def client_context(
    identity: Issued | None = None, version: str = "", directory: Path | None = None
) -> ssl.SSLContext:
    """The context of a client that trusts the test's authority."""
    context = ssl.create_default_context(cadata=AUTHORITY.pem)
    if identity is not None:
        assert directory is not None, "ssl reads keys from files"
        chain = written(directory, "client.pem", identity.key_pem() + identity.chain_pem())
        context.load_cert_chain(chain)
    if version:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    return context


class TlsPeer(Peer):
    """A client of bare bytes over TLS."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__(address)
        try:
            self.socket = (context or client_context()).wrap_socket(
                self.socket, server_hostname=address.rpartition(":")[0]
            )
        except BaseException:
            self.socket.close()
            raise


def asked(peer: Peer) -> Any:
    """The Metadata of no topics, which names the broker."""
    peer.ask(MetadataRequest(topics=()), 12)
    return peer.answer(MetadataRequest, 12)[1]


def closings(records: list[logging.LogRecord]) -> list[str]:
    """The log lines about closed connections, without the ports of clients."""
    lines = [record.getMessage() for record in records]
    begin = "closed the connection of 127.0.0.1:"
    return [line.removeprefix(begin).partition(": ")[2] for line in lines if line.startswith(begin)]
