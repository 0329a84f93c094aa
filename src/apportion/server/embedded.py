"""A broker inside this process, on a thread of its own: for tests, notebooks and demos."""

import asyncio
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, Unpack

from apportion.coord.metrics import BrokerMetrics
from apportion.node.bootstrap import NOTHING
from apportion.node.settings import SettingRefused
from apportion.server.assignors import broker_settings
from apportion.server.broker_options import BrokerOptions
from apportion.server.embedded_security import BrokerSecurity, EmbeddedSecurity
from apportion.server.server import Server, loop_factory

START_TIMEOUT_S = 60
METRICS_TIMEOUT_S = 60
ADDRESS_REMEDY = (
    "give the address as listeners='127.0.0.1:19092'; without it a free port is picked, and "
    "`bootstrap` has the address"
)
DIRECTORY_REMEDY = "give the directory as data_dir"
REMEDIES = {  # what people try as a setting -> what to do instead
    **dict.fromkeys(
        ("port", "host", "listen", "listener", "bootstrap", "bootstrap_servers"), ADDRESS_REMEDY
    ),
    **dict.fromkeys(("log_dir", "log_dirs"), DIRECTORY_REMEDY),
    "metrics": (
        "give the address of metrics as apportion_metrics_listen='127.0.0.1:0'; the method "
        "metrics() needs none"
    ),
    "topics": (
        "topics are made by any Kafka admin client once the broker runs, or when a producer first "
        "names them, with num_partitions partitions each"
    ),
}


class EmbeddedBroker:
    """A broker in this process; it runs from its creation until `close` or the end of a `with`.

    bootstrap: the address for clients, as host:port; of the first listener, if there are several.
    addresses: those of all listeners, by the listener's name.
    metrics_address: the address at which metrics are read over HTTP, as host:port; "" if there is
    none, which is the default (`apportion_metrics_listen`).
    data_dir: the directory of topics and groups; None for one that is deleted at the end.
    security: a protocol, "SSL", "SASL_PLAINTEXT" or "SASL_SSL", or a `BrokerSecurity`; None for
    none. `client_options` has what clients then need, and docs/security.md an example.
    settings: Kafka's, with underscores for dots: `EmbeddedBroker(num_partitions=3,
    group_consumer_session_timeout_ms=6000)`; docs/settings.md lists them.
    Raises SettingRefused, OSError where the address is in use, and DiskError where another broker
    has the directory.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        security: str | BrokerSecurity | None = None,
        **settings: Unpack[BrokerOptions],
    ) -> None:
        """Start the broker on a thread of its own; return once it listens.

        Raises TimeoutError if it has not started in time.
        """
        for name in settings:
            if (remedy := REMEDIES.get(name.replace(".", "_"))) is not None:
                raise SettingRefused(
                    f"there is no setting {name!r} of an EmbeddedBroker: {remedy}."
                )
        if data_dir is not None and not isinstance(data_dir, str | os.PathLike):
            raise SettingRefused(f"data_dir must be a path, not {data_dir!r}.")
        given: dict[str, Any] = {"listeners": "127.0.0.1:0", **settings}
        self._security = (
            None if security is None else EmbeddedSecurity(security, str(given["listeners"]))
        )
        try:
            secured = self._security.settings() if self._security is not None else {}
            self._settings = broker_settings(given | secured)
        except BaseException:
            self._delete_keys()
            raise
        self._process = os.getpid()
        own = tempfile.mkdtemp(prefix="apportion-") if data_dir is None else None
        self._data_dir = own or str(data_dir)
        # Also at the end of the program. Not tempfile.TemporaryDirectory: a child that was forked
        # would delete it at its own end.
        self._delete_temporary_directory = weakref.finalize(
            self, _delete_directory, own, self._process
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self.bootstrap = ""
        self.addresses: dict[str, str] = {}
        self.metrics_address = ""
        self._thread = threading.Thread(target=self._run, name="apportion-broker", daemon=True)
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S):
            raise TimeoutError(
                f"the broker on {self._data_dir} has not started within {START_TIMEOUT_S} seconds"
            )
        self._raise_failure()

    def __repr__(self) -> str:
        state = "" if self._thread.is_alive() else ", ended"
        return f"<EmbeddedBroker at {self.bootstrap}{state}>"

    def __enter__(self) -> Self:
        """Return the embedded broker, which runs since its creation; raise if it has ended."""
        if not self._thread.is_alive():
            raise RuntimeError(
                "this broker has ended: make another EmbeddedBroker, with the same "
                "data_dir to continue with its data"
            )
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the embedded broker: all writes are durable, and a temporary directory is deleted.

        Does nothing if the broker has stopped, and in a process that was forked: the broker runs in
        the parent.
        """
        if self._process != os.getpid():
            return
        if self._loop is not None and self._server is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # the loop has just ended by itself
                self._loop.call_soon_threadsafe(self._server.end)
        # The directory may be deleted only after the broker has closed its files.
        self._thread.join()
        self._delete_files()

    def metrics(self) -> BrokerMetrics:
        """Return the metrics of the broker and of its groups, as they are now.

        Raises RuntimeError if the broker has ended.
        """
        if self._loop is None or self._server is None or not self._thread.is_alive():
            raise RuntimeError("this broker has ended: it has no metrics any more")
        reading = asyncio.run_coroutine_threadsafe(self._server.metrics(), self._loop)
        return reading.result(METRICS_TIMEOUT_S)

    @property
    def ca_location(self) -> str:
        """The file of the CA certificate that clients must trust; "" without TLS of `security`."""
        return "" if self._security is None else self._security.ca_location

    @property
    def users(self) -> Mapping[str, str]:
        """The passwords of the users of `security`, by name."""
        return {} if self._security is None else dict(self._security.users)

    def client_options(
        self, user: str | None = None, *, mechanism: str | None = None
    ) -> dict[str, Any]:
        """Return the options of `security` for a Consumer, a StreamsConsumer, and others.

        The names are librdkafka's, with underscores for dots. user: the first one, if there are
        any; with client certificates and OAUTHBEARER, any name, which a new certificate or token
        has.
        Raises ValueError for a user, or a mechanism, that there is not.
        """
        return {} if self._security is None else self._security.client_options(user, mechanism)

    def token(self, user: str, lifetime_s: float = 3_600, **claims: Any) -> str:
        """Return a token of the user for OAUTHBEARER, if `security` has that mechanism.

        Any user will do. lifetime_s: negative for a token that is over. claims: what it says
        besides, such as aud. Raises ValueError without the mechanism.
        """
        if self._security is None:
            raise ValueError("a broker without security has no tokens")
        return self._security.token(user, lifetime_s, claims)

    def client_config(
        self, user: str | None = None, *, mechanism: str | None = None
    ) -> dict[str, Any]:
        """Return the configuration of a client of librdkafka, such as confluent-kafka's.

        It has the address, too. Raises ValueError as `client_options`.
        """
        options = self.client_options(user, mechanism=mechanism)
        # oauth_cb is confluent-kafka's own, and has no dots.
        named = {
            name if callable(value) else name.replace("_", "."): value
            for name, value in options.items()
        }
        return {"bootstrap.servers": self.bootstrap} | named

    def client_properties(
        self, user: str | None = None, *, mechanism: str | None = None
    ) -> dict[str, str]:
        """Return the properties of Kafka's Java clients and tools, for a file of theirs.

        They have the address, too. Raises ValueError as `client_options`, and for tokens that are
        signed, which properties cannot have.
        """
        own = {} if self._security is None else self._security.client_properties(user, mechanism)
        return {"bootstrap.servers": self.bootstrap} | own

    def _run(self) -> None:
        """Run the embedded broker's event loop, on the broker's own thread."""
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        # Before the start is done, __init__ waits and raises the error in its caller's thread.
        except BaseException as error:
            if self._started.is_set():
                raise
            self._failure = error
            self._started.set()

    async def _serve(self) -> None:
        """Start the embedded broker's server, and run it until `close`, on the broker's thread."""
        self._loop = asyncio.get_running_loop()
        given = NOTHING if self._security is None else self._security.bootstrap()
        self._server = server = Server(self._settings, self._data_dir, given)
        first = await server.start()
        self.addresses = {name: str(each) for name, each in server.advertised.items()}
        self.bootstrap = str(first)
        if server.metrics_address is not None:
            self.metrics_address = str(server.metrics_address)
        # After the address is set: __init__ reads it as soon as this event is.
        self._started.set()
        await server.run_until_ended()

    def _raise_failure(self) -> None:
        """Raise in the user's thread what made the start of the embedded broker fail, if it did."""
        if self._failure is not None:
            self._thread.join()
            self._delete_files()
            raise self._failure

    def _delete_keys(self) -> None:
        if self._security is not None:
            self._security.close()

    def _delete_files(self) -> None:
        self._delete_keys()
        self._delete_temporary_directory()


def _delete_directory(path: str | None, process: int) -> None:
    """Delete an embedded broker's temporary directory, in the process that made it."""
    if path is not None and process == os.getpid():
        shutil.rmtree(path, ignore_errors=True)
