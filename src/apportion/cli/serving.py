"""The command `apportion serve`: a broker in the foreground until SIGTERM or Ctrl-C.

The broker's log goes to stderr; stdout gets one line, when clients can connect.
"""

import asyncio
import logging
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from apportion.cli.failures import UNUSABLE
from apportion.machine import PLAINTEXT_LISTENER
from apportion.node.listeners import Advertised
from apportion.node.settings import (
    BrokerSettings,
    SettingRefused,
    check_address,
    check_listeners,
    values_of_pairs,
)
from apportion.server.assignors import broker_settings
from apportion.server.data_directory import refuse_foreign_directory
from apportion.server.server import Server, loop_factory
from apportion.store.disk import Damaged

OPEN_FILES = 1 << 16  # connections and logs together; a shell's usual limit is 1,024


def run(listen: str, data_dir: Path, pairs: list[str], metrics: str | None = None) -> int:
    """Run a broker until a signal ends it; return the exit code.

    0 after a signal; 2, with one sentence on stderr, if it could not start. pairs: the values of
    `--set`, each NAME=VALUE. metrics: the address of metrics; None for none.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    # Before the broker starts: each partition has open files, and a shell's usual limit is soon
    # reached.
    raise_open_files_limit(OPEN_FILES)
    try:
        # Checked by its own name first: as the setting `listeners` the error would name what the
        # user did not type.
        check_listeners(listen, "--listen")
        for pair in pairs:
            if pair.partition("=")[0].strip() == "listeners":
                raise SettingRefused("listeners is given as --listen.")
        if metrics is not None:
            check_address(metrics, "--metrics")
            pairs = [*pairs, f"apportion.metrics.listen={metrics}"]
        settings = broker_settings(values_of_pairs([f"listeners={listen}", *pairs]))
        refuse_foreign_directory(data_dir)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(settings, data_dir))
    except (SettingRefused, Damaged, OSError) as error:
        print(f"apportion serve: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return UNUSABLE
    return 0


def raise_open_files_limit(limit: int) -> None:
    """Raise this process's limit of open files to `limit`, or to what the system grants."""
    # Never lowered, and never beyond the hard limit, which needs privileges.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    granted = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    if soft != resource.RLIM_INFINITY and soft < granted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))


async def _serve(settings: BrokerSettings, data_dir: Path) -> None:
    """Run a broker until SIGTERM or SIGINT; print its addresses once it listens."""
    server = Server(settings, data_dir)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # SIGTERM is what service managers send: requests in flight are answered and everything is
        # flushed.
        loop.add_signal_handler(number, server.end)
    await server.start()
    # Flushed at once: scripts wait for this line in a pipe.
    print(f"listening on {_told(server.advertised)}", flush=True)
    await server.run_until_ended()


def _told(advertised: Advertised) -> str:
    """Return the addresses for clients: HOST:PORT of the one plain listener, or all with names."""
    if list(advertised) == [PLAINTEXT_LISTENER]:
        return str(advertised[PLAINTEXT_LISTENER])
    return ", ".join(f"{name}://{address}" for name, address in advertised.items())
