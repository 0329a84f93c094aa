"""The kind of error whose text is all that a person needs (`plain_errors.py`)."""


class PlainError(Exception):
    """An error that leaves a process of Spark without a traceback."""
