"""Log lines in Spark's layout, for the process in which Spark plans micro-batches: its stderr is that of the driver."""

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
    """Give the lines of this process time, level and logger, where the user has not set up logging.

    `logging.lastResort` is what Python uses only where no handler is found, so a user's own handler takes its place at any time.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SparkLine())
