"""The parts of a query that `apportion doctor` checks."""

from typing import NamedTuple


class Subjects(NamedTuple):
    """The names of a query's parts; None, or () for topics, where an option was not given."""

    group: str | None = None
    topics: tuple[str, ...] = ()
    checkpoint: str | None = None
    table: str | None = None

    @property
    def sink(self) -> str | None:
        """The name by which groups and checkpoints know the table; None without one."""
        if self.table is None:
            return None
        try:
            from apportion.spark.delta_sink.ownership import table_name
        except ImportError:  # no Spark, or one that is too old: another check says so
            return None
        return table_name(self.table)
