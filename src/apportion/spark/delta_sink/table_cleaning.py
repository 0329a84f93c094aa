"""The daily cleaning of a Delta table: files that a writer of a lost host left behind."""

import logging
import threading
from collections.abc import Mapping
from time import monotonic

from deltalake.exceptions import DeltaError, TableNotFoundError

from apportion.spark.delta_sink.files import delete_files, directory, is_part_file
from apportion.spark.delta_sink.table_features import (
    fields_of,
    open_table,
    refuse_unmet_features,
)
from apportion.spark.delta_sink.writer_work import WRITER_WORK
from apportion.spark.errors import NotWritable
from apportion.spark.processes.plain_errors import in_one_line

CLEAN_EVERY_S = 24 * 3600

log = logging.getLogger("apportion.spark")


class DailyCleaning:
    """When a writer has its table cleaned: after its first batch, and then once a day."""

    def __init__(self, table: str, storage_options: Mapping[str, str] | None) -> None:
        """Note the table, by path or URI, and the options of its storage."""
        self.table, self.storage_options = table, storage_options
        self._next_s = 0.0  # of the monotonic clock

    def start_if_due(self) -> None:
        """Run `clean` in the background if it has not run for a day."""
        # From Python 3.12 on no thread can be started while the interpreter ends, and before that
        # the interpreter would wait for the whole cleaning.
        if monotonic() >= self._next_s and not WRITER_WORK.is_closing:
            self._next_s = monotonic() + CLEAN_EVERY_S
            threading.Thread(target=self._clean_or_warn, daemon=True).start()

    @WRITER_WORK.running()  # the cleaning runs native code, too
    def _clean_or_warn(self) -> None:
        """Run `clean`; a failure is only logged, since it runs again the next day."""
        try:
            clean(self.table, self.storage_options)
        except (DeltaError, OSError, NotWritable) as error:
            reason = in_one_line(str(error))
            log.warning("the daily cleaning of %s did not run: %s", self.table, reason)


def clean(
    table: str, storage_options: Mapping[str, str] | None = None, retention_hours: int | None = None
) -> list[str]:
    """Delete this writer's files that no version of the table refers to; return their paths.

    Files younger than the retention stay, and so does every file that others wrote.

    retention_hours: None takes the table's own (a week by default). Keep it far above the longest
    batch plus the session timeout: younger files may belong to a batch that is not committed yet.

    Raises NotWritable for a table that the writer would refuse.
    """
    try:
        opened = open_table(table, storage_options or {})
    except TableNotFoundError:
        return []
    # Delta requires this before files are deleted: other features may have other rules for them.
    refuse_unmet_features(table, opened, fields_of(opened))
    unused = opened.vacuum(
        # A dry run, and then only files of this writer: the vacuum itself would delete other
        # programs' files too. `full` is needed to see files that no version ever named.
        retention_hours,
        dry_run=True,
        enforce_retention_duration=False,
        full=True,
    )
    return delete_files(
        directory(table, storage_options), [path for path in unused if is_part_file(path)]
    )
