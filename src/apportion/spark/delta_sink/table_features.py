"""The table features of Delta: the writer meets each that a table requires, or refuses the table.

deltalake's own writer checks the rows that it writes. Ours puts files beside it and commits them by
deltalake's transaction, which looks at the protocol alone, and after the rows are written. So what
a table requires is decided here and in `row_constraints.py`, from Delta's protocol document
(PROTOCOL.md).

`FEATURES` says of each feature whether the writer meets it, and why. A writer version below 7
stands for a list of them (`SINCE_WRITER_VERSION`). One that `FEATURES` lacks is refused, as Delta
requires. They are checked when the writer is made, by `check(rows)`, and in each attempt of a
batch, since another program may have added one. Of the properties that belong to a feature, column
mapping alone matters to a writer that only adds files: without `delta.columnMapping.mode` the files
have the names of the columns.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.table import ProtocolVersions
from pyarrow.fs import FileSelector

from apportion.spark.delta_sink.files import directory
from apportion.spark.errors import ELSEWHERE, NotWritable


class Feature(NamedTuple):
    """A table feature of Delta. reason: how the writer meets it, or why it does not."""

    is_met: bool
    reason: str


NOT_IN_DELTALAKE = "deltalake commits to no such table"
FEATURES = {
    "appendOnly": Feature(True, "it only adds rows"),
    "invariants": Feature(True, "each row is checked; a nested NOT NULL, too"),
    "checkConstraints": Feature(True, "each row is checked"),
    "generatedColumns": Feature(True, "the query writes the column, and each value is checked"),
    "changeDataFeed": Feature(True, "readers take the rows of an added file for inserted ones"),
    "columnMapping": Feature(True, "without a mode; with `name` or `id` the table is refused"),
    "timestampNtz": Feature(True, "such columns are written as they are"),
    "deletionVectors": Feature(True, "an added file has none, and those of other files stay"),
    "v2Checkpoint": Feature(True, "deltalake writes the checkpoints"),
    "variantType": Feature(True, "a query may leave such a column out, and cannot write it"),
    "variantType-preview": Feature(True, "as variantType"),
    "identityColumns": Feature(False, "its numbers would have to be given out by the commit"),
    "allowColumnDefaults": Feature(False, NOT_IN_DELTALAKE),
    "rowTracking": Feature(False, "each file would need ids of its rows, given out by the commit"),
    "clustering": Feature(False, "each file would need statistics of the clustering columns"),
    "domainMetadata": Feature(False, NOT_IN_DELTALAKE),
    "inCommitTimestamp": Feature(False, "deltalake writes no such timestamp"),
    "typeWidening": Feature(False, NOT_IN_DELTALAKE),
    "vacuumProtocolCheck": Feature(False, NOT_IN_DELTALAKE),
    "checkpointProtection": Feature(False, NOT_IN_DELTALAKE),
    "materializePartitionColumns": Feature(False, NOT_IN_DELTALAKE),
    "variantShredding": Feature(False, NOT_IN_DELTALAKE),
    "icebergCompatV1": Feature(False, "it requires column mapping"),
    "icebergCompatV2": Feature(False, "it requires column mapping"),
    "icebergCompatV3": Feature(False, "it requires column mapping"),
    "catalogManaged": Feature(False, "its commits go through a catalog"),
}
UNKNOWN = Feature(False, "this version of apportion does not know it")
SINCE_WRITER_VERSION = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
LISTED_FEATURES = 7  # the writer version with a list of features, and the last that there is
MAX_READER_VERSION = 3
VOID_PART = re.compile('"(type|elementType|keyType|valueType)": "void"')


def open_table(path: str, storage_options: Mapping[str, str]) -> DeltaTable:
    """Return the Delta table at `path`.

    Raises NotWritable where deltalake does not open it for a protocol that the writer does not
    know, and otherwise as deltalake does.
    """
    try:
        return DeltaTable(path, storage_options=dict(storage_options))
    except TableNotFoundError:
        raise
    except DeltaError:
        protocol = _logged_protocol_or_none(path, storage_options)
        if protocol is not None:
            _refuse_unmet_protocol(path, protocol)
        raise


def _logged_protocol_or_none(
    path: str, storage_options: Mapping[str, str]
) -> ProtocolVersions | None:
    """Return the protocol of the newest commit with one; None if no commit of the log says it.

    None also where the log cannot be read.
    """
    with suppress(OSError, ValueError, LookupError, TypeError):
        log = directory(path, storage_options)
        commits = [
            each.path
            for each in log.get_file_info(FileSelector("_delta_log"))
            if re.fullmatch(r"\d{20}[.]json", each.base_name)
        ]
        for commit in sorted(commits, reverse=True):
            with log.open_input_file(commit) as file:
                actions = [json.loads(line) for line in file.read().splitlines() if line.strip()]
            for action in actions:
                if protocol := action.get("protocol"):
                    return ProtocolVersions(
                        min_reader_version=protocol["minReaderVersion"],
                        min_writer_version=protocol["minWriterVersion"],
                        reader_features=protocol.get("readerFeatures"),
                        writer_features=protocol.get("writerFeatures"),
                    )
    return None


def refuse_unmet_features(
    path: str, table: DeltaTable, fields: Iterable[Mapping[str, Any]]
) -> None:
    """Raise NotWritable where the table requires of any writer what this one does not do.

    fields: its columns, as `fields_of` returns them.
    """
    _refuse_unmet_protocol(path, table.protocol())
    metadata = table.metadata()
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise NotWritable(
            f"the Delta table {path} has delta.columnMapping.mode={mode}, so its files name "
            "columns otherwise than the table does, and the Delta writer's files do not: set the "
            f"mode to none where that can be done, {ELSEWHERE}"
        )
    if partitioned := metadata.partition_columns:
        raise NotWritable(
            f"the Delta table {path} is partitioned by "
            f"{', '.join(partitioned)}, but the writer makes a file for each Kafka partition: "
            "write to a table that is not partitioned"
        )
    for field in fields:
        # Such a column has no place in files, and where it is all of a value Delta forbids them.
        if field["type"] != "void" and VOID_PART.search(json.dumps(field["type"])):
            raise NotWritable(
                f"the Delta table {path} has the type void within column {field['name']}, which "
                f"the Delta writer does not support: change the column's type, {ELSEWHERE}"
            )


def _refuse_unmet_protocol(path: str, protocol: ProtocolVersions) -> None:
    """Raise NotWritable where the table's protocol requires what this writer does not do."""
    if protocol.min_writer_version > LISTED_FEATURES or (
        protocol.min_reader_version > MAX_READER_VERSION
    ):
        raise NotWritable(
            f"the Delta table {path} has reader version {protocol.min_reader_version} and writer "
            f"version {protocol.min_writer_version}, and this version of apportion knows those up "
            f"to {MAX_READER_VERSION} and {LISTED_FEATURES}: take a newer one, {ELSEWHERE}"
        )
    features = {
        name: FEATURES.get(name, UNKNOWN)
        for name in _features(protocol.min_writer_version, protocol.writer_features or ())
    }
    if unmet := [f"{name} ({each.reason})" for name, each in features.items() if not each.is_met]:
        raise NotWritable(
            f"the Delta table {path} has table features that the Delta writer does not support: "
            f"{', '.join(unmet)}. Drop them from the table, {ELSEWHERE}"
        )


def _features(writer_version: int, listed: Collection[str]) -> list[str]:
    """Return the names of the table features that a table requires of its writers."""
    if writer_version == LISTED_FEATURES:
        return sorted(listed)
    return [
        name
        for since, names in SINCE_WRITER_VERSION.items()
        if since <= writer_version
        for name in names
    ]


def fields_of(table: DeltaTable) -> list[dict[str, Any]]:
    """Return the columns of a Delta table as the JSON of its log has them."""
    fields: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return fields
