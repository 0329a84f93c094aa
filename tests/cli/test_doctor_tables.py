"""`apportion doctor`, of a table that lacks what its group has committed for it."""

from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from apportion.client.cluster import Cluster
from apportion.member.group_claims import metadata_of
from apportion.topics import partitions_of
from apportion.wire.uuids import uuid_text
from tests.cli.test_doctor import cluster, examined
from tests.client import changes

__all__ = ["cluster"]


def test_a_table_that_lacks_what_its_group_has_committed_fails(
    cluster: Cluster, tmp_path: Path
) -> None:
    table = tmp_path / "gone"
    (partition,) = partitions_of(cluster.create_topic("read", 1))
    claim = metadata_of((str(table),))
    asked = ("--bootstrap", cluster.bootstrap_servers, "--group", "gone", "--topic", "read")
    for offset, metadata, lacking in (
        (5, metadata_of((str(table),), starting=True), ""),
        (0, claim, ""),
        (5, claim, ", which lacks the records of read-0 in [0, 5)"),
    ):
        changes.commit(cluster, "gone", {partition: offset}, metadata=metadata)
        result, found, remedy = examined(*asked, "--table", str(table))[1]["sink"]
        assert (result, found) == (
            "failed" if lacking else "ok",
            f"the group belongs to {table}{lacking}",
        )
    assert "delta.Writer(..., rewind=True)" in remedy
    write_deltalake(str(table), pa.table({"offset": [1]}))  # another one in its place
    assert examined(*asked, "--table", str(table))[1]["sink"][0] == "failed"
    fences = CommitProperties(
        app_transactions=[Transaction(f"gone/{uuid_text(partition.topic_id)}/0", 3)]
    )
    write_deltalake(str(table), pa.table({"offset": [2]}), mode="append", commit_properties=fences)
    assert examined(*asked, "--table", str(table))[1]["sink"][1] == (
        f"the group belongs to {table}, which lacks the records of read-0 in [3, 5)"
    )
