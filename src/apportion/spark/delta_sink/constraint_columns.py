"""The constraints of a Delta table as columns of a query, which say of each row what it breaks.

The conditions are in Spark's SQL (`row_constraints.py`), so Spark's analysis says whether
the query's rows have what a condition needs. PySpark logs the Java stack of an error of analysis
before it raises it; those of this module are answered by a sentence, and are not logged.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType

from apportion.spark.delta_sink.row_constraints import Constraint
from apportion.spark.errors import ELSEWHERE, NotWritable
from apportion.spark.processes.plain_errors import STATE

LOGGERS_OF_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""The loggers to which PySpark writes an error with its Java stack."""
MISSING_COLUMN = ("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")
"""How Spark's conditions of an error begin where a column, or a field of one, is not there."""


def with_constraints(path: str, frame: DataFrame, constraints: list[Constraint]) -> DataFrame:
    """Return the frame with one more column for each constraint, at its end: whether it is true.

    Raises NotWritable where Spark cannot evaluate it on the frame's columns.
    """
    if not constraints:
        return frame
    columns = [
        f"{_is_true(constraint.condition)} AS apportion_constraint_{number}"
        for number, constraint in enumerate(constraints)
    ]
    with _unlogged_errors():
        try:
            return _analysed(frame.selectExpr("*", *columns))
        except AnalysisException:
            for constraint, column in zip(constraints, columns, strict=True):
                _refuse_unevaluable(path, frame, constraint, column)
            raise


def _is_true(condition: str) -> str:
    """Return the SQL that is true where the condition is, and false where it is false or null.

    False also where Spark cannot evaluate it of a row, as with a division by zero: the error would
    end the task, and name neither the constraint nor the row.
    """
    # Spark has no `try` of any expression, but try_to_binary evaluates its argument in one. Within
    # a lambda, since what several conditions have in common is evaluated before all of them, and
    # outside of any `try`, but for what is in a lambda.
    evaluated = f"forall(array(0), apportion_once -> {_in_parentheses(condition)})"
    return f"(try_to_binary(string({evaluated}), 'utf-8') <=> to_binary('true', 'utf-8'))"


def _in_parentheses(condition: str) -> str:
    """Return the SQL as one operand, which ends on a line of its own: it may end in a comment."""
    return f"({condition}\n)"


def _refuse_unevaluable(path: str, frame: DataFrame, constraint: Constraint, column: str) -> None:
    """Raise NotWritable where Spark cannot evaluate this constraint on the frame's columns."""
    try:
        kind = frame.selectExpr(_in_parentheses(constraint.condition)).schema[0].dataType
        if kind != BooleanType():
            raise _unevaluable(path, constraint, f"it is {kind.simpleString()} and no condition")
        _analysed(frame.selectExpr("*", column))
    except AnalysisException as error:
        message = error.getMessage().strip().splitlines()[0]
        reason = message.partition(STATE)[0].rstrip(".")
        if str(error.getCondition()).startswith(MISSING_COLUMN):
            raise NotWritable(
                f"the Delta table {path} requires {constraint.text}, which names a column that "
                f"this query does not have ({reason}): add to the query the columns that it "
                f"names, {ELSEWHERE}"
            ) from None
        raise _unevaluable(path, constraint, reason) from None


def _unevaluable(path: str, constraint: Constraint, reason: str) -> NotWritable:
    """Return the error for a constraint of the Delta table that no query could meet."""
    return NotWritable(
        f"the Delta table {path} requires {constraint.text}, which Spark cannot evaluate of a row "
        f"({reason}): correct or drop it on the table, {ELSEWHERE}"
    )


def _analysed(frame: DataFrame) -> DataFrame:
    """Return the frame; Spark Connect analyses it when its schema is asked for."""
    frame.schema  # noqa: B018
    return frame


@contextmanager
def _unlogged_errors() -> Iterator[None]:
    """Keep PySpark from logging the errors of this thread while the block runs."""
    thread = get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    # PySpark's own way to its loggers: their class must be PySpark's.
    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS_OF_ERRORS]
    for logger in loggers:
        logger.addFilter(is_of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_others)
