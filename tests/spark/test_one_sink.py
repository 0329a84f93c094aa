"""A group belongs to one sink: who would bring it a second one is refused, and where harm was done
the query goes back.
"""

from typing import TYPE_CHECKING

import pytest

from apportion.client.consumer import Consumer
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.sinks import AnotherSink, metadata_of
from apportion.spark import delta
from tests.spark.harness import Stage, until
from tests.spark.queries import ended, source, spark, started

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


__all__ = ["source", "spark", "started"]
ENDS_WITHIN_S = 150


@pytest.fixture
def writing(
    source: "Callable[..., DataFrame]", started: "Callable[..., StreamingQuery]"
) -> "Callable[..., StreamingQuery]":
    """`writing(writer, checkpoint)`: a query of the stage's group with that writer."""

    def start(writer: delta.Writer, checkpoint: str = "checkpoint") -> "StreamingQuery":
        rows = source().selectExpr("topic", "partition", "offset", "cast(value as string) as value")
        return started(rows, writer, checkpoint)

    return start


def refusal(query: "StreamingQuery") -> str:
    """Why the query failed, in time."""
    return ended(query, ENDS_WITHIN_S)


def test_a_second_table_and_a_plain_consumer_are_refused_and_the_first_query_goes_on(
    stage: Stage, writing: "Callable[..., StreamingQuery]"
) -> None:
    stage.produce(40)
    innocent = writing(delta.Writer(str(stage.table)))
    until(lambda: stage.total_committed() == 40, 180, "the group's offsets")
    claimed = OffsetAndMetadata(10, metadata_of((str(stage.table),)))
    assert stage.cluster.committed_offsets(stage.group, stage.partitions) == dict.fromkeys(
        stage.partitions, claimed
    )
    other = stage.path / "other"
    error = refusal(writing(delta.Writer(str(other)), "checkpoint-of-another"))
    assert f"group {stage.group}: it belongs to the sink {stage.table}, " in error
    assert f"this query writes to {other}: " in error
    assert "Give this query a group of its own (kafka.group.id)" in error
    with (
        Consumer(stage.bootstrap, stage.group, topics=stage.topic, auto_commit=True) as consumer,
        pytest.raises(
            AnotherSink, match=f"group {stage.group}: it belongs to the sink {stage.table}"
        ),
    ):
        until(lambda: consumer.poll(100), what="the refusal")
    stage.produce(40)
    until(lambda: stage.total_committed() == 80, 180, "the group's offsets")
    assert innocent.isActive
    assert stage.rows() == stage.expected()
    assert not other.exists()
    innocent.stop()
    stage.produce(4)
    # the checkpoint of the first, and another table
    error = refusal(writing(delta.Writer(str(other))))
    assert (
        f"this checkpoint belongs to a query that writes to {stage.table}, and now it is "
        f"to write to {other}" in error
    )


def test_with_rewind_the_checkpoint_writes_records_that_a_foreign_commit_skipped(
    stage: Stage, writing: "Callable[..., StreamingQuery]"
) -> None:
    stage.produce(40)
    first = writing(delta.Writer(str(stage.table)))
    until(lambda: stage.total_committed() == 40, 180, "the group's offsets")
    first.stop()
    until(lambda: not stage.owners(), what="the group without members")
    stage.produce(40)
    # as a foreign client would
    stage.cluster.commit(stage.group, dict.fromkeys(stage.partitions, 15))
    error = refusal(writing(delta.Writer(str(stage.table))))
    assert "the sink has everything below offset 10, but the batch starts at 15: 5 lost" in error
    assert (
        f"Something else has committed in group {stage.group}, past what {stage.table} holds"
        in error
    )
    assert "The records are still in the topic" in error
    assert "delta.Writer(..., rewind=True)" in error
    writing(delta.Writer(str(stage.table), rewind=True))
    until(lambda: stage.total_committed() == 80, 180, "the group's offsets")
    stage.produce(40)
    until(lambda: stage.total_committed() == 120, 180, "the group's offsets")
    assert stage.rows() == stage.expected()


def test_with_adopt_a_refused_query_and_a_moved_table_go_on_with_their_checkpoints(
    stage: Stage, writing: "Callable[..., StreamingQuery]"
) -> None:
    stage.produce(40)
    # as a consumer of before would
    stage.cluster.commit(stage.group, dict.fromkeys(stage.partitions, 5))
    error = refusal(writing(delta.Writer(str(stage.table))))
    assert f"that did not come from {stage.table}" in error
    assert "start again, with the same checkpoint and delta.Writer(..., adopt=True)" in error
    adopting = writing(delta.Writer(str(stage.table), adopt=True))
    until(lambda: stage.total_committed() == 40, 180, "the group's offsets")
    adopting.stop()
    until(lambda: not stage.owners(), what="the group without members")
    stage.produce(40)
    stage.table = stage.table.rename(stage.path / "moved")
    error = refusal(writing(delta.Writer(str(stage.table))))
    assert (
        "or, if the table was moved, stop all members of the group and start again, with "
        "the same checkpoint" in error
    )
    writing(delta.Writer(str(stage.table), adopt=True))
    until(lambda: stage.total_committed() == 80, 180, "the group's offsets")
    claimed = OffsetAndMetadata(20, metadata_of((str(stage.table),)))
    assert stage.cluster.committed_offsets(stage.group, stage.partitions) == dict.fromkeys(
        stage.partitions, claimed
    )
    assert stage.rows() == stage.expected(lambda partition, offset: offset >= 5)
