"""What a start of `apportion serve` imports, and what it leaves for the first client."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apportion.wire.messages.api_versions import ApiVersionsRequest
from tests.server.peer import Peer

NOT_AT_A_START = (
    "numpy",  # the assignors, and the check of what is produced
    "apportion.assign.fair",
    "re2",  # regular expressions of groups
    "email",  # the package crc32c
    "pydantic",  # Typer's conversion of options
    "rich",  # what Typer prints
    "cryptography",  # TLS and tokens
    "prometheus_client",  # metrics
    "apportion.client",
    "apportion.member",
    "apportion.sim",
)


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Run a broker that writes what it imports to the file `imports`; yield its address."""
    serve = [sys.executable, "-X", "importtime", "-m", "apportion.cli.main", "serve"]
    where = ["--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")]
    with (directory / "imports").open("w") as imports:
        process = subprocess.Popen(
            [*serve, *where], stdout=subprocess.PIPE, stderr=imports, text=True
        )
        try:
            assert process.stdout is not None
            yield process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0


def imported(directory: Path) -> list[str]:
    """Return those of NOT_AT_A_START that the broker has imported."""
    lines = (directory / "imports").read_text().splitlines()
    names = {line.rpartition("|")[2].strip() for line in lines if "|" in line}
    # Of what `import_module` imports, the interpreter lists only the modules below it.
    return [
        each
        for each in NOT_AT_A_START
        if any(name == each or name.startswith(f"{each}.") for name in names)
    ]


def test_a_start_imports_nothing_that_only_later_work_needs(tmp_path: Path) -> None:
    with serving(tmp_path):
        pass
    assert imported(tmp_path) == []


def test_the_first_client_begins_the_imports_of_the_first_group(tmp_path: Path) -> None:
    with serving(tmp_path) as address, Peer(address) as peer:
        peer.ask(ApiVersionsRequest(), 0)
        peer.answer(ApiVersionsRequest, 0)
    # The broker ends after its threads, so all imports are done.
    assert imported(tmp_path) == ["numpy", "apportion.assign.fair", "re2"]
