"""`apportion doctor`, of a table that lacks what its group has committed for it."""

from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from apportion.client.cluster import Cluster
from apportion.member.group_claims import metadata_of
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.uuids import uuid_text
from tests.cli.test_doctor import cluster, examined
from tests.client import changes

__all__ = ["cluster"]


def test_a_table_that_lacks_what_its_group_has_committed_fails_as_a_query_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    table = tmp_path / "gone"
    (partition,) = partitions_of(cluster.create_topic("read", 1))
    claim = metadata_of((str(table),))
    asked = ("--bootstrap", cluster.bootstrap_servers, "--group", "gone", "--topic", "read")

    def sink() -> list[str | None]:
        found: list[str | None] = examined(*asked, "--table", str(table))[1]["sink"]
        return found

    for offset, metadata in ((5, metadata_of((str(table),), starting=True)), (0, claim)):
        changes.commit(cluster, "gone", {partition: offset}, metadata=metadata)
        assert sink() == ["ok", f"the group belongs to {table}", None]
    changes.commit(cluster, "gone", {partition: 5}, metadata=claim)
    cluster.produce(partition, encode_batch([(None, b"a", ())] * 7, timestamp_ms=1))
    missing = [
        "failed",
        "read-0: the sink has nothing of it, but the batch starts at 5, above records that it "
        f"should have. Group gone has read them for {table}, so this table was removed, or another "
        "one or an older copy took its place. The records are still in the topic: bring the table "
        "back, or start this query again with delta.Writer(..., rewind=True): it goes back to 0 "
        "and writes them once; delta.Writer(..., fail_on_data_loss=False) goes on without them",
        None,
    ]
    assert sink() == missing
    write_deltalake(str(table), pa.table({"offset": [1]}))  # another one in its place
    assert sink() == missing
    fences = CommitProperties(
        app_transactions=[Transaction(f"gone/{uuid_text(partition.topic_id)}/0", 3)]
    )
    write_deltalake(str(table), pa.table({"offset": [2]}), mode="append", commit_properties=fences)
    changes.delete_records(cluster, partition, 4)
    assert sink() == [
        "failed",
        "read-0: the sink has everything below offset 3, but the batch starts at 5: 2 lost. Group "
        f"gone has read them for {table}, so an older copy of this table took its place, or this "
        "writer was not called for a batch that others were given. The records in [3, 4) are no "
        "longer in the topic, those in [4, 5) are. To write what is left: bring the table back, or "
        "start this query again with delta.Writer(..., rewind=True, fail_on_data_loss=False) and "
        "the source's option failOnDataLoss=false: it goes back to 4. With fail_on_data_loss=False "
        "alone it goes on without all of them",
        None,
    ]
