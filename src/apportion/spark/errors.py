"""The kind of error whose text is all that a person needs (`processes/plain_errors.py`)."""


class PlainError(Exception):
    """An error that leaves a process of Spark without a traceback."""


class NotWritable(PlainError, ValueError):
    """The Delta writer cannot write these rows, or not to this table; the text says what to do."""
