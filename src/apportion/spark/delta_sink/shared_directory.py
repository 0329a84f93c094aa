"""The check that the driver and the executors of a query see one directory of a local table.

Executors write the files of a batch, and the driver commits them. A local path may name a directory
that each host of a cluster has for itself: the commit would add files that nobody finds, and its
fences would pass their rows. An object store is one for all hosts, and is not asked.
"""

from collections.abc import Mapping
from socket import gethostname

from apportion.locations import local_table_or_none
from apportion.spark.errors import PlainError

ADVICE = (
    "Let the table be in an object store, or in a file system that is mounted at this path on the "
    "driver's host and on every executor's"
)


class TableNotShared(PlainError, OSError):
    """The executors of a query do not write into the directory that its driver sees."""


def require_shared(table: str, sizes: Mapping[str, int]) -> None:
    """Raise TableNotShared if the driver does not find what executors have written.

    Called before the commit. sizes: in bytes, by the file's path in the table.
    """
    local = local_table_or_none(table)
    if local is None:
        return
    for name, size_bytes in sizes.items():
        path = local / name
        if not path.is_file() or path.stat().st_size != size_bytes:
            raise TableNotShared(
                f"the driver does not find {path}, which an executor has just written, so "
                f"{local} is not one directory for both; nothing of the batch was committed. "
                f"{ADVICE}"
            )


def no_such_directory(table: str) -> TableNotShared:
    """Return the error of a host that has no directory of the table, which the driver has made."""
    return TableNotShared(
        f"an executor on {gethostname()} cannot write files of the table: its host has no "
        f"directory {local_table_or_none(table) or table}. {ADVICE}"
    )
