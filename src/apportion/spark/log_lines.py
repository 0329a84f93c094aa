"""Log lines in Spark's layout, for the Python process that plans micro-batches: its stderr is the
driver's.
"""

import logging

LAYOUT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
WHEN = "%y/%m/%d %H:%M:%S"
LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}  # as log4j has them


class SparkLine(logging.Formatter):
    """The layout of Spark's own console lines: time, level, logger, message."""

    def __init__(self) -> None:
        super().__init__(LAYOUT, WHEN)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with log4j's name of the level."""
        shown = logging.makeLogRecord(record.__dict__)
        shown.levelname = LEVELS.get(record.levelname, record.levelname)
        return super().format(shown)


def log_like_spark() -> None:
    """Log with time, level and logger in this process, where the user has not set up logging.

    Python uses `logging.lastResort` only where no handler is found, so a user's own handler
    replaces it at any time.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SparkLine())
