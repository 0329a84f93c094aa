"""apportion.testing.lock: what is fetched once is fetched by one process at a time."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.testing.lock import locked

DIES = """
import os, sys
from pathlib import Path
from apportion.testing.lock import locked
with locked(Path(sys.argv[1])):
    os._exit(7)
"""


def test_a_lock_is_held_to_the_end_of_the_block_and_by_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with locked(path), path.open("a") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_process_that_dies_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert subprocess.run([sys.executable, "-c", DIES, str(path)]).returncode == 7
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
