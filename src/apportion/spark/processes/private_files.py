"""The private directory of this host through which the processes of a Spark application talk.

The driver's Python and the query's source are processes of one user on one host, and Spark has no
channel between them: the one leaves a file that the other looks for. Both must have the same
temporary directory (TMPDIR).
"""

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from apportion.spark.errors import PlainError

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
LOCKED = (".batch", ".batch-draft")
"""How the names of files end that a running process holds a lock on, whatever their age."""


class NoPrivateDirectory(PlainError, OSError):
    """The directory through which Spark queries hand over files is not this user's alone.

    The directory is another user's, other users may write there, or this user may not.
    """


def create_directory() -> Path:
    """Return the directory through which queries hand over files, creating it on first use."""
    path = _directory_path()
    path.mkdir(mode=0o700, exist_ok=True)
    return _require_private(path)


def private_directory() -> Path:
    """Return the directory through which queries hand over files.

    Raises OSError where it does not exist, NoPrivateDirectory unless only this user may write
    there: the directory has a predictable name in the shared temporary directory, so another user
    could have made it. Others may read.
    """
    return _require_private(_directory_path())


def replace_file(path: Path, text: str) -> None:
    """Replace a file at once, so that its reader never sees half of it."""
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        # Durable before it is visible: it may be read after the host has lost its power.
        os.fsync(file.fileno())
    draft.replace(path)


def digest(text: str) -> str:
    """Return a short digest of the text, for the name of a file."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _directory_path() -> Path:
    return Path(tempfile.gettempdir()) / f"apportion-{os.getuid()}"


def _require_private(path: Path) -> Path:
    # lstat and not stat: a symbolic link made by another user must not be followed.
    status = path.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or status.st_mode & WRITABLE_BY_OTHERS
    ):
        raise NoPrivateDirectory(
            f"{path} must be a directory of this user in which nobody else may write: remove it"
        )
    return path
