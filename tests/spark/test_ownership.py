"""Where a table is, and what is said of offsets that it lacks, without Spark."""

import os

import pytest

from apportion.member.batch.fences import LostOffsets
from apportion.spark.delta_sink.ownership import explain_lost_offsets, table_location
from apportion.topics import TopicIdPartition

PARTITION = TopicIdPartition("t", b"i" * 16, 0)


@pytest.mark.parametrize(
    ("table", "location"),
    [
        ("file:/lake", "file:///lake"),
        ("FILE:///lake", "file:///lake"),
        ("S3A://bucket/lake", "s3a://bucket/lake"),
        ("/lake", "/lake"),
        ("lake", os.path.abspath("lake")),
        ("a:/lake", os.path.abspath("a:/lake")),  # a folder with a colon in its name
    ],
)
def test_a_table_has_one_location_in_every_process(table: str, location: str) -> None:
    assert table_location(table) == location


@pytest.mark.parametrize(("fence", "start"), [(None, "where the log begins"), (7, "7")])
def test_without_the_cluster_no_cause_is_claimed_and_a_remedy_says_where_it_goes(
    fence: int | None, start: str
) -> None:
    explained = explain_lost_offsets(
        LostOffsets(PARTITION, fence, 9),
        "g",
        "/lake",
        committed=None,
        log_start=None,
    )
    assert "Something else has committed in group g" in str(explained)
    assert str(explained).endswith(
        "End what commits there, and start this query again with delta.Writer(..., rewind=True): "
        f"if the records are still in the topic, it goes back to {start} and writes them once; "
        "delta.Writer(..., fail_on_data_loss=False) goes on without them"
    )
