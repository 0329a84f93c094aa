"""The kind of error whose text is all that a person needs (`processes/plain_errors.py`)."""


class PlainError(Exception):
    """An error that leaves a process of Spark without a traceback."""


class NotWritable(PlainError, ValueError):
    """The Delta writer cannot write these rows, or not to this table; the text says what to do."""


ELSEWHERE = "or write to another table"
"""The last remedy that a NotWritable names where it is the table that cannot take the rows."""
