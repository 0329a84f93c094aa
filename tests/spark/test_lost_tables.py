"""A table that lacks what its group has committed for it: the records are missed, not passed over.

Only Spark is played.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.member.batch.span import EMPTY_SPAN
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import metadata_of
from apportion.topics import TopicIdPartition
from tests.spark.micro_batches import every, stored
from tests.spark.played_query import Query, broker, query

__all__ = ["broker", "query"]


def removes_its_table(query: Query, *, is_checkpoint_gone: bool = False) -> None:
    shutil.rmtree(query.path)
    if is_checkpoint_gone:
        query.done = query.planned = EMPTY_SPAN


def five_written_and_removed(query: Query) -> TopicIdPartition:
    """The partition of five records that were in a table, and of two that came afterwards."""
    partition = query.has_written(5)
    removes_its_table(query)
    query.produce(partition, 2)
    return partition


def rewritten(query: Query, partition: TopicIdPartition, records: int) -> None:
    """The query goes back, and the table gets all records."""
    query.starts(partition, rewind=True)
    query.runs_until({partition: records})
    assert query.offsets(partition) == list(range(records))


@pytest.mark.parametrize("is_checkpoint_gone", [False, True])
def test_a_removed_table_is_missed_and_with_rewind_is_written_from_the_beginning(
    query: Query, *, is_checkpoint_gone: bool
) -> None:
    partition = query.has_written(52)
    removes_its_table(query, is_checkpoint_gone=is_checkpoint_gone)
    query.produce(partition, 5)
    query.starts(partition)
    error = query.loses({partition: 57})
    assert "the sink has nothing of it, but the batch starts at 52" in error
    assert not query.path.exists()
    rewritten(query, partition, 57)


def test_a_table_removed_under_a_running_query_is_missed(query: Query) -> None:
    (partition,) = query.topic(5)
    query.starts(partition)
    query.runs_until({partition: 5})
    removes_its_table(query)
    query.produce(partition, 2)
    assert "the sink has nothing of it" in query.loses({partition: 7})
    rewritten(query, partition, 7)


def test_a_table_removed_and_made_anew_by_another_program_is_missed(query: Query) -> None:
    partition = query.has_written(5)
    held = DeltaTable(str(query.path)).to_pyarrow_table().slice(0, 0)
    removes_its_table(query)
    write_deltalake(str(query.path), held)
    query.produce(partition, 2)
    query.starts(partition)
    assert "the sink has nothing of it" in query.loses({partition: 7})
    rewritten(query, partition, 7)


def test_an_older_copy_of_a_table_lacks_what_came_later(query: Query, tmp_path: Path) -> None:
    old, new = query.topic(2)[0], None
    query.starts(old)
    query.runs_until({old: 2})
    shutil.copytree(query.path, tmp_path / "copy")
    (new,) = query.topic(3)
    query.starts(old, new)
    query.runs_until({old: 2, new: 3})
    query.stops()
    shutil.rmtree(query.path)
    (tmp_path / "copy").rename(query.path)
    query.produce(new, 1)
    query.starts(old, new)
    error = query.loses({new: 4})
    assert f"{new}: the sink has nothing of it, but the batch starts at 3" in error
    query.starts(old, new, rewind=True)
    query.runs_until({old: 2, new: 4})
    assert stored(str(query.path)) == sorted(every((0, 0, 2), (0, 0, 4)))


def test_records_that_the_topic_no_longer_has_are_said_to_be_gone(query: Query) -> None:
    partition = five_written_and_removed(query)
    query.trim(partition, 5)
    query.starts(partition)
    error = query.loses({partition: 7})
    assert "The records in [0, 5) are no longer in the topic" in error
    query.starts(partition, rewind=True)  # to where the log begins, which is here
    query.runs_until({partition: 7})
    assert query.offsets(partition) == [5, 6]


def test_of_a_removed_table_the_records_that_the_topic_still_has_are_named(query: Query) -> None:
    partition = five_written_and_removed(query)
    query.trim(partition, 3)
    query.starts(partition)
    error = query.loses({partition: 7})
    assert (
        "The records in [0, 3) are no longer in the topic, those in [3, 5) are. To write what is "
        "left: bring the table back, or start this query again"
    ) in error
    query.starts(partition, rewind=True)
    query.runs_until({partition: 7})
    assert query.offsets(partition) == [3, 4, 5, 6]


def test_a_query_may_go_on_without_the_records_of_a_removed_table(query: Query) -> None:
    partition = five_written_and_removed(query)
    query.starts(partition, fail_on_data_loss=False)
    query.runs_until({partition: 7})
    assert query.offsets(partition) == [5, 6]


@pytest.mark.parametrize(("to", "offsets"), [("--to-earliest", range(2, 8)), ("--to-latest", [7])])
def test_a_new_table_begins_where_its_group_was_reset(
    query: Query, to: str, offsets: Iterable[int]
) -> None:
    partition = query.has_written(5)
    query.trim(partition, 2)
    removes_its_table(query, is_checkpoint_gone=True)
    query.produce(partition, 2)
    asked = (query.group, "--bootstrap", query.bootstrap, "--topic", partition.topic, to)
    reset = CliRunner().invoke(app, ["groups", "reset-offsets", *asked, "--execute"])
    assert reset.exit_code == 0, reset.output
    query.starts(partition)
    query.produce(partition, 1)
    query.runs_until({partition: 8})
    assert query.offsets(partition) == [*offsets]


@pytest.mark.parametrize("is_checkpoint_gone", [False, True])
def test_a_query_that_died_before_its_first_batch_begins_where_it_had_chosen(
    query: Query, *, is_checkpoint_gone: bool
) -> None:
    """Its group has the offset, and its table has nothing of it, for good."""
    (partition,) = query.topic(5)
    latest = {"startingOffsets": "latest"}
    query.starts(partition, source=latest)
    query.plans()  # a question
    query.write()
    query.plans()
    query.stops()
    query.produce(partition, 2)
    if is_checkpoint_gone:
        query.done = query.planned = EMPTY_SPAN
    else:
        query.planned = query.done
    query.starts(partition, source=latest)
    query.runs_until({partition: 7})
    assert query.offsets(partition) == [5, 6]


def test_a_table_that_began_at_an_offset_is_missed_once_its_batch_is_committed(
    query: Query,
) -> None:
    (partition,) = query.topic(5)
    query.starts(partition, source={"startingOffsets": "latest"})
    query.runs_until({partition: 5})
    query.produce(partition, 1)
    query.runs_until({partition: 6})
    query.stops()
    assert query.cluster.committed_offsets(query.group, [partition])[
        partition
    ] == OffsetAndMetadata(6, metadata_of((str(query.path),)))
    removes_its_table(query, is_checkpoint_gone=True)
    query.produce(partition, 1)
    query.starts(partition)
    assert "the sink has nothing of it, but the batch starts at 6" in query.loses({partition: 7})


def test_an_adopted_group_begins_at_its_offsets_also_in_a_later_run(query: Query) -> None:
    (partition,) = query.topic(5)
    query.commits(partition, 3)
    query.starts(partition, adopt=True)
    query.plans()
    query.write()
    query.plans()  # the group is adopted, and nothing is written yet
    query.stops()
    query.planned = query.done
    query.starts(partition)
    query.runs_until({partition: 5})
    assert query.offsets(partition) == [3, 4]


@pytest.mark.parametrize("options", [{}, {"rewind": True}])
def test_a_group_of_a_new_name_goes_on_where_the_checkpoint_is(
    query: Query, options: dict[str, Any]
) -> None:
    partition = query.has_written(5)
    query.produce(partition, 2)
    query.group = f"{query.group}-renamed"
    query.starts(partition, **options)
    query.runs_until({partition: 7})
    assert query.offsets(partition) == list(range(7))


def test_a_table_that_is_gone_is_missed_though_its_group_has_no_offsets_any_more(
    query: Query,
) -> None:
    partition = five_written_and_removed(query)
    query.group = f"{query.group}-renamed"
    query.starts(partition)
    assert "the sink has nothing of it, but the batch starts at 5" in query.loses({partition: 7})
    rewritten(query, partition, 7)
