"""The command `apportion serve`: a broker in the foreground until SIGTERM or Ctrl-C.

The broker's log goes to stderr; stdout gets one line, when clients can connect.
"""

import asyncio
import logging
import resource
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from apportion.cli.failures import UNUSABLE
from apportion.cli.properties import read_properties
from apportion.cli.scram_option import scram_user
from apportion.cli.short_collections import short_collections
from apportion.coord.config import dotted
from apportion.machine import PLAINTEXT_LISTENER
from apportion.node.bootstrap import BootstrapMetadata
from apportion.node.listeners import Advertised
from apportion.node.setting_texts import check_address, check_listeners, values_of_pairs
from apportion.node.settings import BrokerSettings, SettingRefused
from apportion.server.assignors import broker_settings
from apportion.server.data_directory import refuse_foreign_directory
from apportion.server.server import Server, loop_factory
from apportion.store.disk import Damaged

OPEN_FILES = 1 << 16  # connections and logs together; a shell's usual limit is 1,024


class ServeOptions(NamedTuple):
    """The options of `apportion serve`.

    pairs: those of `--set`, each NAME=VALUE. users: those of `--add-scram`. metrics, config: None
    where they are not given.
    """

    listen: str | None
    data_dir: Path
    pairs: list[str]
    users: list[str]
    metrics: str | None
    config: Path | None


def run(options: ServeOptions) -> int:
    """Run a broker until a signal ends it; return the exit code.

    0 after a signal; 2, with one sentence on stderr, if it could not start.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    # Before the broker starts: each partition has open files, and a shell's usual limit is soon
    # reached.
    raise_open_files_limit(OPEN_FILES)
    try:
        settings = broker_settings(_values(options))
        bootstrap = BootstrapMetadata(tuple(map(scram_user, options.users)))
        refuse_foreign_directory(options.data_dir)
        with short_collections(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(settings, options.data_dir, bootstrap))
    except (SettingRefused, Damaged, OSError) as error:
        print(f"apportion serve: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return UNUSABLE
    return 0


def _values(options: ServeOptions) -> dict[str, str]:
    """Return the values of settings by name: what an option says stands over the file.

    Errors: SettingRefused.
    """
    pairs = list(options.pairs)
    for pair in pairs:
        if pair.partition("=")[0].strip() == "listeners":
            raise SettingRefused("listeners is given as --listen.")
    # Checked by their own names: as settings their errors would name what nobody has typed.
    if options.listen is not None:
        check_listeners(options.listen, "--listen")
        pairs.append(f"listeners={options.listen}")
    if options.metrics is not None:
        check_address(options.metrics, "--metrics")
        pairs.append(f"apportion.metrics.listen={options.metrics}")
    given = values_of_pairs(pairs)
    names = [dotted(name) for name in given]
    of_file = _of_file(options.config).items()
    return {name: value for name, value in of_file if dotted(name) not in names} | given


def _of_file(path: Path | None) -> dict[str, str]:
    """Return the settings of a file. Errors: SettingRefused, if it cannot be read."""
    if path is None:
        return {}
    try:
        found = read_properties(path)
    except ValueError as error:
        raise SettingRefused(f"--config {str(path)!r} cannot be read: {error}.") from None
    for name, count in Counter(map(dotted, found)).items():
        if count > 1:
            raise SettingRefused(f"--config {str(path)!r} gives {name} in both spellings.")
    return found


def raise_open_files_limit(limit: int) -> None:
    """Raise this process's limit of open files to `limit`, or to what the system grants."""
    # Never lowered, and never beyond the hard limit, which needs privileges.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    granted = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    if soft != resource.RLIM_INFINITY and soft < granted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))


async def _serve(settings: BrokerSettings, data_dir: Path, bootstrap: BootstrapMetadata) -> None:
    """Run a broker until SIGTERM or SIGINT; print its addresses once it listens."""
    server = Server(settings, data_dir, bootstrap)
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
