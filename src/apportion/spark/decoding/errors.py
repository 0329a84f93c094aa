"""The errors of `apportion.spark.decode`."""

from apportion.spark.errors import PlainError


class UndecodableRecord(PlainError, ValueError):
    """A value is not what the schema registry's schema says; the text says why."""


class UnsupportedSchema(ValueError):
    """A schema has no Spark type; the text names the part, and why."""


class RegistryError(PlainError, ValueError):
    """The registry cannot be asked, or does not know what it was asked for."""
