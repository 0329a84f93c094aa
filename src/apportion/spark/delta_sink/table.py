"""One attempt to commit to a Delta table: a fresh snapshot, its fences, its columns, one commit.

Fences are Delta's app transactions (`txn` actions). A `DeltaTable` is opened for one attempt and
then dropped: fences that were read from a snapshot protect only a commit made through the same
object, because then Delta aborts the commit if another writer has changed one of them. A commit by
the table's path would not notice it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from os.path import isfile
from time import time
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSelector

from apportion.locations import local_table_or_none
from apportion.spark.delta_sink.columns import refuse_forbidden_names
from apportion.spark.delta_sink.files import WrittenFile, directory
from apportion.spark.delta_sink.row_constraints import Constraint, row_constraints
from apportion.spark.delta_sink.stored_columns import stored_schema
from apportion.spark.delta_sink.table_features import (
    fields_of,
    open_table,
    refuse_unmet_features,
)
from apportion.spark.errors import NotWritable

BESIDE_THE_TYPE = {"nullable", "containsNull", "valueContainsNull", "metadata"}
"""What the JSON of a type says of the rows, which `row_constraints.py` answers for."""


class CommitConflict(Exception):
    """Another writer changed what this attempt was based on.

    Nothing was committed: open the table again.
    """


class Fit(NamedTuple):
    """The way of a query's columns into a table.

    missing: the columns that the table lacks, as Delta fields. constraints: on each row. stored:
    the query's columns, as files of the table have them.
    """

    missing: list[Any]
    constraints: list[Constraint]
    stored: pa.Schema


class TableAttempt:
    """A snapshot of the table that may be committed to once."""

    def __init__(self, path: str, options: dict[str, str]) -> None:
        self._path, self._options = path, options
        self._table = open_table(path, options)

    @classmethod
    def on(
        cls,
        path: str,
        storage_options: Mapping[str, str] | None,
        schema: pa.Schema,
        before_creation: Callable[[], object] = lambda: None,
    ) -> "TableAttempt":
        """Return a fresh snapshot of the table at `path`.

        Creates the table with the columns of `schema` where there is none, and then raises
        CommitConflict, since others may do so at the same moment. Raises NotWritable where there
        can be no table, and before it creates one what `before_creation` raises.
        """
        options = dict(storage_options or {})
        _refuse_unusable(path)
        try:
            return cls(path, options)
        except TableNotFoundError:
            before_creation()
            _create_table(path, options, schema)
            # Opened once more instead of used: two creations at the same moment may both succeed,
            # the later one replacing the schema.
            raise CommitConflict(f"the table {path} is new") from None

    @classmethod
    def on_existing_or_none(
        cls, path: str, storage_options: Mapping[str, str] | None
    ) -> "TableAttempt | None":
        """Return a snapshot of the table at `path`, to read its fences; None if there is none.

        Raises NotWritable where there can be none.
        """
        options = dict(storage_options or {})
        _refuse_unusable(path)
        try:
            return cls(path, options)
        except TableNotFoundError:
            _refuse_foreign_files(path, options)
            return None

    def fit(self, schema: pa.Schema, *, is_whole: bool = True) -> Fit:
        """Return what it takes to write rows with the columns of `schema` to the table.

        is_whole: whether they are all of the query's columns; else no constraints are returned.
        Raises NotWritable where the table requires what the writer does not do, where a column has
        another type, or where no row of the query can meet a constraint.
        """
        fields = fields_of(self._table)
        refuse_unmet_features(self._path, self._table, fields)
        missing = self._missing_columns(schema)
        stored = stored_schema(schema, fields)
        if not is_whole:
            return Fit(missing, [], stored)
        properties = self._table.metadata().configuration
        constraints = row_constraints(self._path, fields, properties, schema.names)
        return Fit(missing, constraints, stored)

    def _missing_columns(self, schema: pa.Schema) -> list[Any]:
        """Return the columns of `schema` that the table lacks.

        Raises NotWritable where a column has another type, or a new one a name that Delta forbids.
        """
        columns = {field.name: field.type for field in self._table.schema().fields}
        names = {name.lower(): name for name in columns}
        missing = []
        for field in Schema.from_arrow(schema).fields:
            name = names.get(field.name.lower())
            if name is None:
                missing.append(field)
            elif name != field.name:
                raise _other_case(name, field.name)
            else:
                _refuse_other_type(name, columns[name], field.type)
        refuse_forbidden_names(pa.schema(schema.field(field.name) for field in missing))
        return missing

    def add_columns(self, missing: list[Any]) -> None:
        """Add the missing columns of a `Fit` to the table.

        Raises CommitConflict, even then: this object stays at the version before, and the next
        attempt sees them. Raises NotWritable where Delta refuses the commit.
        """
        # An append with a wider schema succeeds in delta-rs and loses the new column without a
        # word.
        try:
            self._table.alter.add_columns(missing)
        except CommitFailedError as error:
            raise self._failure(error) from error
        raise CommitConflict("columns were added")

    def fence_or_none(self, app_id: str) -> int | None:
        """Return the fence of the Kafka partition that `app_id` names, of Delta's `txn` action.

        None if no batch of it was ever committed here.
        """
        return self._table.transaction_version(app_id)

    def paths(self) -> dict[str, None]:
        """Return the paths of the files to which this snapshot of the table refers, as keys."""
        return dict.fromkeys(pa.table(self._table.get_add_actions()).column("path").to_pylist())

    def commit(
        self, files: Iterable[WrittenFile], fences: Mapping[str, int], schema: pa.Schema
    ) -> None:
        """Commit files and fences to the Delta table, all or nothing.

        fences: by app id. Raises CommitConflict where a fence has moved since the snapshot, and
        NotWritable where Delta refuses the commit itself. After any other error it is unknown
        whether the commit was made.
        """
        now_ms = int(time() * 1000)
        adds: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {}, now_ms, True, file.stats()) for file in files
        ]
        properties = CommitProperties(
            # Without last_updated: with a retention set for transactions, dated fences would be
            # dropped from the log.
            app_transactions=[Transaction(app_id, fence) for app_id, fence in fences.items()]
        )
        try:
            # Through the object that the fences were read from. A commit by the table's path
            # succeeds even where they have moved.
            self._table.create_write_transaction(
                adds, "append", Schema.from_arrow(schema), commit_properties=properties
            )
        except CommitFailedError as error:
            raise self._failure(error) from error

    def _failure(self, error: CommitFailedError) -> CommitConflict | NotWritable:
        """Return the error for a commit that was not made.

        delta-rs raises one error for all reasons. Where no other writer has committed since the
        snapshot, there was no conflict, and another attempt would end in the same way.
        """
        try:
            newest = open_table(self._path, self._options).version()
        except TableNotFoundError:
            return CommitConflict(f"{error}; the table was removed meanwhile")
        if newest > self._table.version():
            return CommitConflict(str(error))
        return NotWritable(
            f"the Delta table {self._path} refuses the commit, though nothing else has changed "
            f"it: {error}; change the table accordingly, or write to another one"
        )


def _refuse_foreign_files(path: str, options: dict[str, str]) -> None:
    """Raise NotWritable where the directory of a new Delta table has other files.

    They could be taken for the table's.
    """
    try:
        entries = directory(path, options).get_file_info(FileSelector(""))
    except TableNotFoundError:
        return
    foreign = [entry.base_name for entry in entries if entry.base_name[0] not in "_."]
    if foreign:
        try:
            # another writer made it meanwhile, with files already
            open_table(path, options)
        except TableNotFoundError:
            raise NotWritable(
                f"{path} is not a Delta table and not empty, it holds {min(foreign)}: give "
                "the Delta writer the path of a table or "
                "of a directory that is new"
            ) from None


def _create_table(path: str, options: dict[str, str], schema: pa.Schema) -> None:
    """Create the Delta table of a writer that has none yet; another writer may do so meanwhile.

    Raises NotWritable where the directory has other files, or a column has a name that Delta
    forbids.
    """
    refuse_forbidden_names(schema)
    _refuse_foreign_files(path, options)
    _make_directory(path)
    try:
        DeltaTable.create(path, Schema.from_arrow(schema), mode="error", storage_options=options)
    except DeltaError as error:
        try:
            open_table(path, options)  # another writer created it first: good
        except TableNotFoundError:
            raise error from None


def _make_directory(path: str) -> None:
    """Create the directory of a table's log if it is a local one.

    Raises NotWritable with the reason. delta-rs would create it too, but reports a failure as a
    table that was not found.
    """
    local = local_table_or_none(path)
    if local is not None:
        try:
            (local / "_delta_log").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable_path(path, error.strerror) from None


def _refuse_unusable(path: str) -> None:
    """Raise NotWritable where a file has the path of the table, or delta-rs cannot read it back."""
    local = local_table_or_none(path)
    # delta-rs makes the table's log at the path as it is, and looks for it at the decoded one.
    if local is not None and ("\\" in str(local) or unquote(str(local)) != str(local)):
        raise NotWritable(
            f"the Delta writer cannot use {path}: delta-rs does not find a table whose path has a "
            "backslash or an escape such as %20; give the writer a path without"
        )
    # Unlike Path.is_file, it raises nothing where the directory may not be entered.
    if local is not None and isfile(local):
        raise unusable_path(path, "it is a file")


def unusable_path(path: str, why: str | None) -> NotWritable:
    """Return the error for a path at which no Delta table can be created."""
    return NotWritable(
        f"no table can be created at {path}: {why}; give the Delta writer a path that the "
        "user of the driver and of the executors may "
        "write"
    )


def _refuse_other_type(name: str, stored: Any, written: Any) -> None:
    """Raise NotWritable where a query writes another type than this column of the table has."""
    if (kind := _without_nullability(stored)) == (other := _without_nullability(written)):
        return
    in_lower_case = (json.loads(json.dumps(each).lower()) for each in (kind, other))
    if next(in_lower_case) == next(in_lower_case):
        raise _other_case(*next(_names_that_differ(name, name, kind, other)))
    raise NotWritable(
        f"the Delta table holds column {name} as {_type_name(stored)}, the query writes "
        f"{_type_name(written)}; cast it in the query or write to another table"
    )


def _other_case(stored: str, written: str) -> NotWritable:
    """Return the error for a column of the Delta table, or a field of one, with another name."""
    return NotWritable(
        f"the Delta table has the column {stored}, the query writes {written}, and Delta does not "
        "tell upper from lower case: rename it in the query as it is in the table"
    )


def _names_that_differ(
    stored: str, written: str, kind: Any, other: Any
) -> Iterator[tuple[str, str]]:
    """Yield the names of fields that differ, within two types that are alike but for names.

    stored, written: the names of what has the types, in the table and in the query.
    """
    if isinstance(kind, dict):
        for key, part in kind.items():
            yield from _names_that_differ(stored, written, part, other[key])
    elif isinstance(kind, list):  # of the fields of a struct
        for field, of_query in zip(kind, other, strict=True):
            names = f"{stored}.{field['name']}", f"{written}.{of_query['name']}"
            if field["name"] != of_query["name"]:
                yield names
            yield from _names_that_differ(*names, field["type"], of_query["type"])


def _type_name(delta_type: Any) -> str:
    """Return a Delta type as it is written in a schema."""
    return str(delta_type.type if isinstance(delta_type, PrimitiveType) else delta_type)


def _without_nullability(delta_type: Any) -> Any:
    """Return a Delta type as a value that equals that of one whose parts may be null."""
    return json.loads(
        delta_type.to_json(),
        object_hook=lambda part: {
            key: value for key, value in part.items() if key not in BESIDE_THE_TYPE
        },
    )
