"""Log lines about a disk that refuses: one at the beginning, one a minute, and one at the end.

A disk that is full, or a process that has too many files open, refuses requests by the thousand.
The first failure gets a line with the reason, what helps, the data directory and its free bytes.
Further ones are counted and logged each minute, with the last one's reason and age; a minute
without any is the end. It knows no clock.
"""

from errno import EACCES, EDQUOT, EMFILE, ENFILE, ENOSPC, EPERM, EROFS

from apportion.deadlines import Deadlines, Key
from apportion.machine import Note
from apportion.store.disk import Disk

DISK: Key = ("disk",)
"""The deadline at which the failures of a minute are logged, or that there were none."""
MINUTE_MS = 60_000
NO_SPACE = "make room on its file system"
NO_PERMISSION = "let the broker's user write there"
NO_FILES = "raise the limit of open files (ulimit -n)"
REMEDIES = {
    ENOSPC: NO_SPACE,
    EDQUOT: NO_SPACE,
    EACCES: NO_PERMISSION,
    EPERM: NO_PERMISSION,
    EROFS: NO_PERMISSION,
    EMFILE: NO_FILES,
    ENFILE: NO_FILES,
}
"""What helps, by the system's error number."""
OTHERWISE = "the system's log may say what is wrong with the disk"


class DiskFailures:
    """The requests, and the work of the broker's own, that failed because of its disk.

    notes: the log lines of the current step.
    """

    __slots__ = (
        "_count",
        "_deadlines",
        "_disk",
        "_is_lasting",
        "_latest",
        "_latest_at_ms",
        "notes",
    )

    def __init__(self, disk: Disk, deadlines: Deadlines) -> None:
        self._disk = disk
        self._deadlines = deadlines
        self._is_lasting = False
        self._count = 0  # in this minute, without the first of all
        self._latest = ""  # why the last one was refused, and what helps
        self._latest_at_ms = 0
        self.notes: list[Note] = []

    def add(self, why: str, now_ms: int, error_number: int | None = None) -> None:
        """Log or count a failure of the disk that has refused something.

        error_number: the system's; None where it is not known.
        """
        self._latest = f"{why}; {REMEDIES.get(error_number or 0, OTHERWISE)}"
        self._latest_at_ms = now_ms
        if self._is_lasting:
            self._count += 1
            return
        self._is_lasting = True
        self._deadlines.arm(DISK, now_ms + MINUTE_MS)
        self._note("error", f"the disk refuses writes, which are tried again: {self._latest}")

    def end_minute(self, now_ms: int) -> None:
        """Log how much was refused in the last minute; if nothing was, the end of the failures."""
        if self._count:
            self._deadlines.arm(DISK, now_ms + MINUTE_MS)
            age_s = (now_ms - self._latest_at_ms) // 1000
            self._note(
                "error",
                f"the disk has refused {self._count:,} more in a minute, the last one "
                f"{age_s} s ago: {self._latest}",
                " now",
            )
        else:
            self._is_lasting = False
            self._note("info", "the disk has refused nothing for a minute", " now")
        self._count = 0

    def take_notes(self) -> list[Note]:
        """Return the log lines of the node's step, and begin with none."""
        notes, self.notes = self.notes, []
        return notes

    def _note(self, level: str, text: str, when: str = "") -> None:
        # There may be room again since the last refusal: the free bytes are those of the line.
        space = self._disk.space()
        free = "" if space.free_bytes is None else f" has {space.free_bytes:,} bytes free{when}"
        self.notes.append(Note(level, f"{text} ({space.directory}{free})"))
