"""The parts of a query that `apportion doctor` checks."""

from importlib.util import find_spec
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
        if self.table is None or find_spec("pyspark") is None:
            return None
        from apportion.spark.ownership import table_name

        return table_name(self.table)
