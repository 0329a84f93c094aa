"""The data directory that `apportion serve` is given: one of a broker, a new or an empty one.

An embedded broker takes any directory: the program that starts it has chosen the directory, and may
keep files of its own there.
"""

from contextlib import suppress
from pathlib import Path

from apportion.node.partitions import TOPICS
from apportion.node.settings import SettingRefused
from apportion.readable import listed, readable
from apportion.store import metadata_log

LOST_AND_FOUND = "lost+found"  # at the root of a new file system
NAMED = 3  # how many entries of a foreign directory the refusal names


def refuse_foreign_directory(directory: Path) -> None:
    """Raise SettingRefused if the directory holds somebody's files and no data of a broker.

    For `apportion serve`, before the broker makes anything in the directory. A first start locks
    the directory (`.lock`), then makes `topics`, then `catalog.log`. So a start that crashed leaves
    one of the latter two, or nothing but the lock. `.lock` alone proves nothing: Apache Kafka
    has one in its log directories.
    """
    names: list[str] = []
    # The broker refuses a path that is no directory, or may not be read, when it opens it.
    with suppress(OSError):
        names = sorted(path.name for path in directory.iterdir())
    if TOPICS in names or metadata_log.PATH in names:
        return
    foreign = [name for name in names if not name.startswith(".") and name != LOST_AND_FOUND]
    if foreign:
        named = listed([*map(readable, foreign)], NAMED)
        raise SettingRefused(
            f"{directory} holds {named}, and no data of a broker: give --data-dir a new or "
            "an empty directory."
        )
