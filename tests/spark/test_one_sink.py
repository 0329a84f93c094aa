"""A group belongs to one sink: who would bring it a second one is refused, and where harm was done
the query goes back.
"""

from typing import TYPE_CHECKING

import pytest

from apportion.client.consumer import Consumer
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import AnotherSink, metadata_of
from apportion.spark import delta
from tests.client import changes
from tests.spark.error_page import assert_on_page
from tests.spark.harness import Pipeline, until
from tests.spark.queries import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
ENDS_WITHIN_S = 150


@pytest.fixture
def writing(
    rows: "Callable[..., DataFrame]", started: "Callable[..., StreamingQuery]"
) -> "Callable[..., StreamingQuery]":
    """`writing(writer, checkpoint)`: a query of the pipeline's group with that writer."""
    return lambda writer, checkpoint="checkpoint": started(rows(), writer, checkpoint)


def refusal(query: "StreamingQuery") -> str:
    """Why the query failed, in time."""
    return ended(query, ENDS_WITHIN_S)


def test_a_second_table_and_a_plain_consumer_are_refused_and_the_first_query_goes_on(
    pipeline: Pipeline, writing: "Callable[..., StreamingQuery]"
) -> None:
    pipeline.produce(40)
    innocent = writing(delta.Writer(str(pipeline.table)))
    until(lambda: pipeline.total_committed() == 40, 180, "the group's offsets")
    claimed = OffsetAndMetadata(10, metadata_of((str(pipeline.table),)))
    assert pipeline.cluster.committed_offsets(pipeline.group, pipeline.partitions) == dict.fromkeys(
        pipeline.partitions, claimed
    )
    other = pipeline.path / "other"
    error = refusal(writing(delta.Writer(str(other)), "checkpoint-of-another"))
    assert f"group {pipeline.group}: it belongs to the sink {pipeline.table}, " in error
    assert f"this query writes to {other}: " in error
    assert_on_page("another table for the same group", error)
    with (
        Consumer(
            pipeline.bootstrap, pipeline.group, topics=pipeline.topic, auto_commit=True
        ) as consumer,
        pytest.raises(
            AnotherSink, match=f"group {pipeline.group}: it belongs to the sink {pipeline.table}"
        ),
    ):
        until(lambda: consumer.poll(100), what="the refusal")
    pipeline.produce(40)
    until(lambda: pipeline.total_committed() == 80, 180, "the group's offsets")
    assert innocent.isActive
    assert pipeline.rows() == pipeline.expected()
    assert not other.exists()
    innocent.stop()
    pipeline.produce(4)
    # the checkpoint of the first, and another table
    error = refusal(writing(delta.Writer(str(other))))
    assert (
        f"this checkpoint belongs to a query that writes to {pipeline.table}, and now it is "
        f"to write to {other}" in error
    )
    assert_on_page("another table for the same checkpoint", error)


def test_with_rewind_the_checkpoint_writes_records_that_a_foreign_commit_skipped(
    pipeline: Pipeline, writing: "Callable[..., StreamingQuery]"
) -> None:
    pipeline.produce(40)
    first = writing(delta.Writer(str(pipeline.table)))
    until(lambda: pipeline.total_committed() == 40, 180, "the group's offsets")
    first.stop()
    until(lambda: not pipeline.owners(), what="the group without members")
    pipeline.produce(40)
    # as a foreign client would
    changes.commit(pipeline.cluster, pipeline.group, dict.fromkeys(pipeline.partitions, 15))
    error = refusal(writing(delta.Writer(str(pipeline.table))))
    assert "the sink has everything below offset 10, but the batch starts at 15: 5 lost" in error
    assert (
        f"Something else has committed in group {pipeline.group}, past what {pipeline.table} holds"
        in error
    )
    assert "The records are still in the topic" in error
    assert "delta.Writer(..., rewind=True)" in error
    writing(delta.Writer(str(pipeline.table), rewind=True))
    until(lambda: pipeline.total_committed() == 80, 180, "the group's offsets")
    pipeline.produce(40)
    until(lambda: pipeline.total_committed() == 120, 180, "the group's offsets")
    assert pipeline.rows() == pipeline.expected()


def test_with_adopt_a_refused_query_and_a_moved_table_go_on_with_their_checkpoints(
    pipeline: Pipeline, writing: "Callable[..., StreamingQuery]"
) -> None:
    pipeline.produce(40)
    # as a consumer of before would
    changes.commit(pipeline.cluster, pipeline.group, dict.fromkeys(pipeline.partitions, 5))
    error = refusal(writing(delta.Writer(str(pipeline.table))))
    assert f"that did not come from {pipeline.table}" in error
    assert "start again, with the same checkpoint and delta.Writer(..., adopt=True)" in error
    adopting = writing(delta.Writer(str(pipeline.table), adopt=True))
    until(lambda: pipeline.total_committed() == 40, 180, "the group's offsets")
    adopting.stop()
    until(lambda: not pipeline.owners(), what="the group without members")
    pipeline.produce(40)
    pipeline.table = pipeline.table.rename(pipeline.path / "moved")
    error = refusal(writing(delta.Writer(str(pipeline.table))))
    assert (
        "or, if the table was moved, stop all members of the group and start again, with "
        "the same checkpoint" in error
    )
    writing(delta.Writer(str(pipeline.table), adopt=True))
    until(lambda: pipeline.total_committed() == 80, 180, "the group's offsets")
    claimed = OffsetAndMetadata(20, metadata_of((str(pipeline.table),)))
    # its metadata says until the next batch that the table is to begin there
    until(
        lambda: (
            pipeline.cluster.committed_offsets(pipeline.group, pipeline.partitions)
            == dict.fromkeys(pipeline.partitions, claimed)
        ),
        180,
        "the claim of the moved table",
    )
    assert pipeline.rows() == pipeline.expected(lambda partition, offset: offset >= 5)


def test_a_copied_checkpoint_is_refused_and_its_new_group_stays_free(
    pipeline: Pipeline,
    writing: "Callable[..., StreamingQuery]",
    rows: "Callable[..., DataFrame]",
    started: "Callable[..., StreamingQuery]",
) -> None:
    pipeline.produce(40)
    first = writing(delta.Writer(str(pipeline.table)))
    until(lambda: pipeline.total_committed() == 40, 180, "the group's offsets")
    first.stop()
    other, new_group = pipeline.path / "other", f"{pipeline.group}-new"
    renamed = rows(**{"kafka.group.id": new_group})
    error = refusal(started(renamed, delta.Writer(str(other)), "checkpoint"))
    assert f"this checkpoint belongs to a query that writes to {pipeline.table}" in error
    assert pipeline.cluster.committed_offsets(new_group, pipeline.partitions) == dict.fromkeys(
        pipeline.partitions, OffsetAndMetadata(None)
    )
    # as the error says: with a checkpoint of its own
    started(renamed, delta.Writer(str(other)), "checkpoint-of-another")
    claimed = dict.fromkeys(pipeline.partitions, OffsetAndMetadata(10, metadata_of((str(other),))))
    until(
        lambda: pipeline.cluster.committed_offsets(new_group, pipeline.partitions) == claimed,
        180,
        "the claim of the new table",
    )
    # the first program goes on with its checkpoint, in a group that was renamed
    pipeline.produce(40)
    pipeline.group = f"{pipeline.group}-renamed"
    started(rows(), delta.Writer(str(pipeline.table)), "checkpoint")
    until(lambda: pipeline.total_committed() == 80, 180, "the group's offsets")
    assert pipeline.rows() == pipeline.expected()
