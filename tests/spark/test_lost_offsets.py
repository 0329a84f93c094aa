"""Foreign commits in a query's group: no record is passed over in silence, and each way on leads
there. Only Spark is played.
"""

from pathlib import Path
from typing import Any

import pytest

from apportion.member.batch.fences import LostOffsets
from apportion.member.batch.span import EMPTY_SPAN
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import metadata_of
from apportion.spark.delta import Writer
from tests.spark.micro_batches import every, stored
from tests.spark.played_query import FOREIGN, Query, broker, query

__all__ = ["broker", "query"]


def test_a_partition_that_was_idle_when_a_foreign_client_had_it_is_not_passed_over(
    query: Query,
) -> None:
    (partition,) = query.topic(3)
    query.starts(partition, source={"startingOffsets": "latest"})
    query.runs_until({partition: 3})
    query.stops()
    query.produce(partition, 5)
    query.commits(partition, 6)
    query.starts(partition)
    error = query.loses({partition: 8})
    assert "the sink has everything below offset 3, but the batch starts at 6: 3 lost" in error
    # the evidence
    assert query.cluster.committed_offsets(query.group, [partition])[
        partition
    ] == OffsetAndMetadata(6, FOREIGN)
    query.starts(partition, rewind=True)
    query.runs_until({partition: 8})
    assert query.offsets(partition) == [3, 4, 5, 6, 7]
    assert query.cluster.committed_offsets(query.group, [partition])[
        partition
    ] == OffsetAndMetadata(8, metadata_of((str(query.path),)))


@pytest.mark.parametrize("way_on", [{"rewind": True}, {"fail_on_data_loss": False}])
def test_a_partition_new_to_the_table_does_not_begin_at_a_foreign_commit(
    query: Query, way_on: dict[str, Any]
) -> None:
    old, (_, new) = query.has_written(4), query.topic(8, partitions=2)
    query.commits(new, 5)
    query.trim(new, 2)
    query.starts(old, new)
    error = query.loses({new: 8})
    assert (
        "the sink has nothing of it, but the batch starts at 5, above records that it should have"
        in error
    )
    assert "it goes back to 2" in error
    query.starts(old, new, **way_on)
    query.runs_until({new: 8})
    assert query.offsets(new) == [2, 3, 4, 5, 6, 7] if "rewind" in way_on else [5, 6, 7]


def test_a_query_that_rewound_without_a_fence_rewinds_again_if_the_report_is_lost(
    query: Query, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old, (_, new) = query.has_written(4), query.topic(8, partitions=2)
    query.commits(new, 5)
    query.starts(old, new)
    query.loses({new: 8})
    query.starts(old, new, rewind=True)  # which writes the batch again
    (tmp_path / "of another host").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "of another host"))
    query.starts(old, new, rewind=True)
    query.produce(new, 2)
    query.runs_until({new: 10})
    assert query.offsets(new) == list(range(10))


def test_a_foreign_offset_that_passes_over_nothing_is_taken_up(query: Query) -> None:
    partition = query.has_written(4)
    query.produce(partition, 2)
    query.commits(partition, 4)  # the sink's own end, without its name
    query.starts(partition)
    query.runs_until({partition: 6})
    assert query.offsets(partition) == list(range(6))


@pytest.mark.parametrize(
    ("metadata", "who"),
    [
        (FOREIGN, "somebody whose commits bear the metadata 'java consumer'"),
        ("", "a consumer, a query that does not belong there, or somebody who set the offsets"),
    ],
)
def test_it_is_said_who_has_committed_if_the_metadata_tells_and_what_else_it_may_be(
    query: Query, metadata: str, who: str
) -> None:
    partition = query.has_written(4)
    query.produce(partition, 9)
    query.commits(partition, 7, metadata)
    query.starts(partition)
    error = query.loses({partition: 13})
    assert (
        f"Something else has committed in group {query.group}, past what {query.path} "
        f"holds: {who}; or this writer was" in error
    )
    assert "or an older copy of the table took its place" in error
    assert "The records are still in the topic" in error


def test_a_query_with_two_tables_does_not_take_the_other_table_for_a_stranger(query: Query) -> None:
    (partition,) = query.topic(9)
    both = (str(query.path), "/lake/second")
    query.commits(partition, 7, metadata_of(both))
    for bounds in ((0, 5), (7, 9)):
        query.writer, query.planned = (
            Writer(str(query.path)),
            EMPTY_SPAN._replace(id="a", ranges={partition: bounds}, sinks=both),
        )
        if bounds[0]:
            with pytest.raises(LostOffsets) as caught:
                query.write()
            assert (
                f"Group {query.group} has read them for {query.path}, so an older copy of this "
                "table took its place, or this writer was not called for a batch"
            ) in str(caught.value)
            assert "/lake/second" not in str(caught.value)
        else:
            query.write()


def test_skipped_records_that_still_exist_are_read_as_the_error_message_says(
    query: Query,
) -> None:
    partition = query.has_written(5)
    query.produce(partition, 15)
    query.commits(partition, 15)
    query.trim(partition, 7)
    query.starts(partition)
    error = query.loses({partition: 20})
    assert "The records in [5, 7) are no longer in the topic, those in [7, 15) are" in error
    assert (
        "delta.Writer(..., rewind=True, fail_on_data_loss=False) and the source's option "
        "failOnDataLoss=false" in error
    )
    query.starts(
        partition, source={"failOnDataLoss": "false"}, rewind=True, fail_on_data_loss=False
    )
    query.runs_until({partition: 20})
    assert query.offsets(partition) == [*range(5), *range(7, 20)]


def test_with_nothing_to_go_back_to_an_idle_partition_is_written_at_once(query: Query) -> None:
    partition = query.has_written(5)
    query.produce(partition, 4)
    query.trim(partition, 7)
    query.starts(
        partition, source={"failOnDataLoss": "false"}, rewind=True, fail_on_data_loss=False
    )
    query.runs_until({partition: 9})
    assert query.offsets(partition) == [*range(5), 7, 8]


def test_records_that_are_gone_are_not_gone_back_to(query: Query) -> None:
    partition = query.has_written(5)
    query.produce(partition, 4)
    query.trim(partition, 7)
    query.starts(partition, source={"failOnDataLoss": "false"}, rewind=True)
    assert (
        "The records in [5, 7) are no longer in the topic: delta.Writer(..., "
        "fail_on_data_loss=False)" in query.loses({partition: 9})
    )
    assert stored(str(query.path)) == every((0, 0, 5))
