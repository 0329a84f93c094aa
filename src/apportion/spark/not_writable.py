"""The error of a Delta writer that cannot write, whatever it tries."""


class NotWritable(ValueError):
    """The Delta writer cannot write these rows, or not to this table; the text says what to do."""
