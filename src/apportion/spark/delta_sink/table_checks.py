"""A look at the table of a Delta writer before its query begins, which changes nothing."""

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame

from apportion.locations import local_table_or_none
from apportion.spark.delta_sink.columns import refuse_forbidden_names
from apportion.spark.delta_sink.constraint_columns import with_constraints
from apportion.spark.delta_sink.table import TableAttempt, unusable_path
from apportion.spark.errors import NotWritable
from apportion.spark.processes.plain_errors import in_one_line


def refuse_unfit_local_table(table: str, columns: pa.Schema) -> None:
    """Raise NotWritable as `refuse_unfit_table` does, for a table on this machine.

    Another one is not asked for: where its storage does not answer, that takes minutes.
    """
    if local_table_or_none(table) is not None:
        refuse_unfit_table(table, None, columns)


def refuse_unfit_table(
    table: str,
    storage_options: Mapping[str, str] | None,
    columns: pa.Schema,
    rows: DataFrame | None = None,
) -> None:
    """Raise NotWritable if no row with these columns can be written to the table.

    rows: the query's, if it is known; `columns` are all of its columns then. Whether its directory
    may be written is seen on this machine alone.
    """
    try:
        attempt = TableAttempt.on_existing_or_none(table, storage_options)
        if attempt is None:
            refuse_forbidden_names(columns)
        else:
            fit = attempt.fit(columns, is_whole=rows is not None)
            if rows is not None:
                with_constraints(table, rows, fit.constraints)
    except (DeltaError, OSError) as error:
        reason = in_one_line(str(error)).rstrip(".") or type(error).__name__
        raise NotWritable(
            f"the Delta table {table} cannot be opened: {reason}; restore what is damaged or "
            "cannot be read, drop a table feature that is not supported, or give the Delta writer "
            "another path"
        ) from None
    path = local_table_or_none(table)
    if path is not None:
        _refuse_unwritable(table, path, is_new=attempt is None)


def _refuse_unwritable(table: str, path: Path, *, is_new: bool) -> None:
    """Raise NotWritable if this user may not write to the table's directory, or create it."""
    if not is_new:
        for each in (path, path / "_delta_log"):
            if not os.access(each, os.W_OK | os.X_OK):
                raise NotWritable(
                    f"this user may not write to {each}: change its owner or its rights, or give "
                    "the Delta writer another path"
                )
        return
    parent = next(each for each in (path, *path.parents) if os.path.exists(each))
    if not parent.is_dir():
        raise unusable_path(table, f"{parent} is a file")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise unusable_path(table, f"this user may not write to {parent}")
