"""Delta tables as other programs make them: by the first commit of their log."""

import json
from pathlib import Path
from typing import Any

READER_WRITER = {  # the features that a table lists for its readers, too
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "vacuumProtocolCheck",
    "v2Checkpoint",
    "variantShredding",
    "variantType",
}
Action = dict[str, dict[str, Any]]


def field(name: str, kind: object, *, nullable: bool = True, **metadata: str) -> dict[str, Any]:
    """A column; its metadata with `__` for a dot."""
    named = {key.replace("__", "."): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": named}


SOURCE = [field("topic", "string"), field("partition", "integer"), field("offset", "long")]


def protocol(*features: str) -> Action:
    """Of writer version 7 with these features."""
    readers = sorted(READER_WRITER & {*features})
    versions = {"minReaderVersion": 3 if readers else 1, "minWriterVersion": 7}
    lists = {"writerFeatures": sorted(features)} | ({"readerFeatures": readers} if readers else {})
    return {"protocol": versions | lists}


def legacy(writer: int) -> Action:
    """The protocol of a writer version without a list of features."""
    return {"protocol": {"minReaderVersion": 2 if writer > 4 else 1, "minWriterVersion": writer}}


def metadata(*fields: dict[str, Any], **properties: str) -> Action:
    """The source's columns and these; table properties without `delta.`, `__` for a dot."""
    return {
        "metaData": {
            "id": "8d9ba0d8-5b2f-4d54-9d7a-0a3e6f1f7a11",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": [*SOURCE, *fields]}),
            "partitionColumns": [],
            "configuration": {
                f"delta.{key.replace('__', '.')}": value for key, value in properties.items()
            },
            "createdTime": 1,
        }
    }


def commit(path: str, version: int, *actions: Action) -> None:
    """Write this version of the table's log."""
    log = Path(path) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
