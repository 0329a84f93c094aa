"""What a Delta table's protocol and properties require of writers is met, or the table is refused
before a row is written.
"""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from apportion.spark.delta import Writer, clean
from apportion.spark.delta_sink.columns import SOURCE_COLUMNS
from apportion.spark.delta_sink.table import TableAttempt
from apportion.spark.delta_sink.table_checks import refuse_unfit_local_table
from apportion.spark.errors import NotWritable
from tests.spark.delta_tables import Action, commit, field, legacy, metadata, protocol
from tests.spark.error_page import assert_on_page
from tests.spark.micro_batches import ARROW, batch, every, orphans, stored

CITY = field("city", "string")


def refusal(path: str) -> str:
    """What is said of the table when its writer is made. A batch is refused by the same words, in
    the first attempt, and leaves no file.
    """
    before = sorted(Path(path).rglob("*"))
    with pytest.raises(NotWritable) as of_batch:
        batch(Writer(path), (0, 0, 2))
    assert sorted(Path(path).rglob("*")) == before
    with pytest.raises(NotWritable) as refused:
        refuse_unfit_local_table(path, SOURCE_COLUMNS)
    assert str(refused.value) == str(of_batch.value)
    return str(refused.value)


@pytest.mark.parametrize(
    "feature",
    [
        "rowTracking",
        "clustering",
        "domainMetadata",
        "allowColumnDefaults",
        "identityColumns",
        "inCommitTimestamp",
        "typeWidening",
        "vacuumProtocolCheck",
        "icebergCompatV2",
        "checkpointProtection",
        "fromTheFuture",
    ],
)
def test_a_table_with_an_unsupported_feature_is_refused_by_its_name(
    path: str, feature: str
) -> None:
    commit(path, 0, protocol("appendOnly", feature), metadata(CITY))
    said = refusal(path)
    assert f"table features that the Delta writer does not support: {feature} (" in said
    assert_on_page("a table feature that the writer does not support", said)


def test_a_table_of_writer_version_6_is_refused_for_its_identity_columns(path: str) -> None:
    commit(path, 0, legacy(6), metadata(CITY))
    assert "that the Delta writer does not support: identityColumns (" in refusal(path)


@pytest.mark.parametrize("lists", [{}, {"readerFeatures": [], "writerFeatures": []}])
@pytest.mark.parametrize(("reader", "writer"), [(1, 8), (3, 8), (4, 7), (4, 8)])
def test_a_table_of_a_later_protocol_is_refused(
    path: str, reader: int, writer: int, lists: dict[str, list[str]]
) -> None:
    later = {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **lists}}
    commit(path, 0, later, metadata(CITY))
    said = refusal(path)
    assert_on_page("a table of a later protocol", said)
    assert f"has reader version {reader} and writer version {writer}, and" in said


def of_readers(*features: str) -> Action:
    """A protocol that readers must know, too, with these features."""
    lists = {"readerFeatures": [*features], "writerFeatures": [*features]}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **lists}}


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        ("fromTheFuture", "this version of apportion does not know it"),
        ("catalogManaged", "its commits go through a catalog"),
    ],
)
def test_a_table_that_nobody_here_can_read_is_refused_with_its_feature(
    path: str, feature: str, reason: str
) -> None:
    commit(path, 0, legacy(2), metadata(CITY))
    commit(path, 1, of_readers(feature))
    commit(path, 2, {"commitInfo": {"timestamp": 1}})
    said = refusal(path)
    assert_on_page("a table feature that the writer does not support", said)
    assert f"does not support: {feature} ({reason}). Drop" in said
    with pytest.raises(NotWritable, match=f"does not support: {feature} "):
        clean(path)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_table_whose_columns_have_physical_names_is_refused(path: str, mode: str) -> None:
    mapping = metadata(CITY, columnMapping__mode=mode, columnMapping__maxColumnId="4")
    schema = json.loads(mapping["metaData"]["schemaString"])
    for number, column in enumerate(schema["fields"], start=1):
        column["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"col-{number}",
        }
    mapping["metaData"]["schemaString"] = json.dumps(schema)
    commit(path, 0, legacy(5), mapping)
    assert_on_page("a table with column mapping", refusal(path))


def test_a_table_whose_void_column_lies_within_another_is_refused(path: str) -> None:
    nested = {"type": "array", "elementType": "void", "containsNull": True}
    commit(path, 0, legacy(2), metadata(CITY, field("nothings", nested)))
    assert_on_page("a table with a void column within another", refusal(path))


@pytest.mark.parametrize(
    ("rules", "also"),
    [
        *((legacy(version), []) for version in (1, 2, 3, 4, 5)),
        *(
            (protocol(feature), [])
            for feature in (
                "appendOnly",
                "invariants",
                "checkConstraints",
                "generatedColumns",
                "changeDataFeed",
                "columnMapping",
                "deletionVectors",
                "v2Checkpoint",
            )
        ),
        (protocol("timestampNtz"), [field("at", "timestamp_ntz")]),
        (protocol("variantType"), [field("raw", "variant")]),
        (legacy(2), [field("nothing", "void")]),
    ],
)
def test_a_table_whose_requirements_are_met_takes_rows(
    path: str, rules: Action, also: list[dict[str, object]]
) -> None:
    properties = {
        "appendOnly": "true",
        "enableChangeDataFeed": "true",
        "enableDeletionVectors": "true",
        "columnMapping__mode": "none",
        "checkpointInterval": "1",
    }
    commit(path, 0, rules, metadata(CITY, *also, **properties))
    refuse_unfit_local_table(path, SOURCE_COLUMNS)
    batch(Writer(path), (0, 0, 2))
    batch(Writer(path), (0, 2, 3))
    opened = DeltaTable(path)
    assert (opened.version(), opened.count(), orphans(path)) == (2, 3, [])


def test_a_feature_that_comes_while_a_batch_is_written_leaves_no_file(path: str) -> None:
    batch(Writer(path), (0, 0, 2))
    with pytest.raises(NotWritable, match=r"not support: domainMetadata .+, rowTracking "):
        batch(
            Writer(path),
            (0, 2, 4),
            meanwhile=lambda: commit(path, 2, protocol("rowTracking", "domainMetadata")),
        )
    assert (stored(path), orphans(path)) == (every((0, 0, 2)), [])


def test_a_commit_that_fails_without_another_writer_is_no_conflict(path: str) -> None:
    commit(path, 0, protocol("rowTracking", "domainMetadata"), metadata(CITY))
    attempt = TableAttempt.on_existing_or_none(path, None)
    assert attempt is not None
    with pytest.raises(NotWritable) as refused:
        attempt.commit([], {"g/t/0": 1}, ARROW)
    assert_on_page("a commit that Delta refuses", refused.value)


def test_a_table_of_an_unsupported_feature_is_not_cleaned(path: str) -> None:
    commit(path, 0, protocol("vacuumProtocolCheck"), metadata(CITY))
    left = Path(path) / f"part-t-0-{'0' * 32}.parquet"
    left.write_text("x")
    with pytest.raises(NotWritable) as refused:
        clean(path, retention_hours=0)
    assert_on_page("a table feature that the writer does not support", refused.value)
    assert left.exists()
