"""Log lines in Spark's layout, for the Python process that plans micro-batches.

The process's stderr is the driver's, so the lines stand among Spark's own.
"""

import logging

rebalance_log = logging.getLogger("apportion.spark.rebalance")
"""The logger of what rebalances move (`rebalance_lines.py`)."""
LINE_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
TIME_FORMAT = "%y/%m/%d %H:%M:%S"
LOG4J_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}  # log4j's names


class SparkLine(logging.Formatter):
    """The layout of Spark's own console lines: time, level, logger, message."""

    def __init__(self) -> None:
        super().__init__(LINE_FORMAT, TIME_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of this record, with log4j's name of its level."""
        copy = logging.makeLogRecord(record.__dict__)
        copy.levelname = LOG4J_LEVELS.get(record.levelname, record.levelname)
        return super().format(copy)


def log_like_spark() -> None:
    """Log with time, level and logger in this process, where the user has not set up logging.

    Python uses `logging.lastResort` only where no handler is found, so a user's own handler
    replaces it at any time. What a rebalance moved is shown too, though it is no warning.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SparkLine())
        # Other loggers drop what is below their own level, which is WARNING by default.
        logging.lastResort.setLevel(logging.INFO)
    if not rebalance_log.hasHandlers() and rebalance_log.level == logging.NOTSET:
        rebalance_log.setLevel(logging.INFO)
