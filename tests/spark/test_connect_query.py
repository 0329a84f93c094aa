"""What a writer learns of its query through Spark Connect, which is played here."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from apportion.member.batch.span import Span, sorted_span
from apportion.spark.delta_sink.connect_query import ConnectQuery, ConnectRefused
from apportion.spark.options.stream import SourceOptions
from apportion.spark.queries.introspection import SourceReading
from apportion.spark.queries.planned_batches import PlannedBatchFile
from apportion.spark.queries.stateless import StatefulQuery
from apportion.spark.reading.source_columns import load_id, source_columns
from apportion.topics import TopicIdPartition
from tests.spark.micro_batches import TOPIC_ID
from tests.spark.printed_plans import (
    RELATION,
    STATEFUL,
    STATELESS,
    TWO_SOURCES,
    Session,
    plan_of_batch,
)

OPTIONS = SourceOptions.parse(
    {"kafka.bootstrap.servers": "b:9092", "kafka.group.id": "g", "subscribe": "t"}
)
SCHEMA = source_columns(include_headers=False)


def span(to: int) -> Span:
    return sorted_span("checkpoint", {TopicIdPartition("t", TOPIC_ID, 0): (0, to)})


def frame(schema: StructType = SCHEMA, session: Session | None = None) -> Any:
    return SimpleNamespace(schema=schema, columns=schema.names, sparkSession=session)


def at(batch_id: int, *plans: str, schema: StructType = SCHEMA, **session: str) -> ConnectQuery:
    """A query whose writer was given a batch, and the plans of the session's queries."""
    query = ConnectQuery()
    shown: Any = Session(*plans, **session)
    query.begin(shown, frame(schema), batch_id)
    return query


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def planned() -> Iterator[PlannedBatchFile]:
    file = PlannedBatchFile(load_id(SCHEMA), OPTIONS)
    yield file
    file.close()


def test_a_batch_is_what_its_source_has_planned(planned: PlannedBatchFile) -> None:
    query = ConnectQuery()
    for batch_id, to in enumerate((0, 5, 9)):
        planned.write(span(to))
        query.begin(None, frame(), batch_id)
        for _ in range(2):  # a batch that failed may be tried again
            assert query.readings() == [
                SourceReading("g", span(to), "b:9092", client_id="apportion-spark-g")
            ]


def test_a_span_that_was_planned_for_another_batch_is_refused(planned: PlannedBatchFile) -> None:
    query = ConnectQuery()
    query.begin(None, frame(), 4)
    with pytest.raises(ConnectRefused, match="nothing says what batch 4 reads"):
        query.readings()
    planned.write(span(5))
    assert query.readings() == [
        SourceReading("g", span(5), "b:9092", client_id="apportion-spark-g")
    ]
    query.begin(None, frame(), 5)
    with pytest.raises(ConnectRefused, match="nothing says what batch 5 reads"):
        query.readings()
    planned.close()
    query.begin(None, frame(), 6)
    with pytest.raises(ConnectRefused, match="Let TMPDIR name a directory"):
        query.readings()


def test_of_two_queries_of_one_load_the_later_is_refused_and_the_first_goes_on(
    planned: PlannedBatchFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned.write(span(5))
    first = at(0)
    assert first.readings() == [
        SourceReading("g", span(5), "b:9092", client_id="apportion-spark-g")
    ]
    monkeypatch.setattr("os.getpid", lambda: 1)  # of the other query's source
    other = PlannedBatchFile(load_id(SCHEMA), OPTIONS)
    other.write(span(7))
    with pytest.raises(ConnectRefused, match="give each query a load"):
        at(0).readings()
    assert first.readings() == [
        SourceReading("g", span(5), "b:9092", client_id="apportion-spark-g")
    ]
    other.close()


def test_columns_without_the_id_of_a_load_are_refused_with_the_remedy() -> None:
    by_text = StructType.fromJson(SCHEMA.jsonValue())
    by_text["offset"].metadata = {}
    with pytest.raises(ConnectRefused, match=r"give mapInArrow and the like the schema of a frame"):
        at(0, schema=by_text).readings()


def test_a_query_that_dropped_a_column_of_the_source_is_refused() -> None:
    with pytest.raises(ValueError, match="this query dropped partition, offset"):
        at(0, schema=StructType().add("topic", "string")).readings()


def test_a_query_that_keeps_state_is_refused_whichever_of_the_session_it_is() -> None:
    at(2, plan_of_batch(2)).refuse_state()
    others = plan_of_batch(1, STATEFUL), plan_of_batch(2, STATEFUL).replace("apportion", "rate")
    at(2, *others, "No physical plan. Waiting for data.", plan_of_batch(2)).refuse_state()
    with pytest.raises(StatefulQuery, match=r"keeps state \(StateStoreSave\)"):
        at(2, plan_of_batch(2), plan_of_batch(2, STATEFUL)).refuse_state()


def test_a_query_that_reads_the_source_twice_is_refused() -> None:
    with pytest.raises(ConnectRefused, match="subscribe to all topics with one source"):
        at(0, plan_of_batch(0, STATELESS, TWO_SOURCES)).refuse_state()


@pytest.mark.parametrize(
    "leaves",
    [
        (RELATION, RELATION.replace("apportion", "rate")),
        (RELATION, "~LocalRelation <empty>, [topic#2, partition#3, offset#4L]"),
        # A batch of the other stream alone, after a restart
        (RELATION.replace("apportion", "rate"), "~LocalRelation <empty>, [topic#2, offset#4L]"),
    ],
)
def test_a_query_that_reads_another_stream_beside_the_source_is_refused(
    leaves: tuple[str, str],
) -> None:
    first, second = leaves
    union = (f"~Union false, false\n   :- {first}\n   +- {second}",)
    with pytest.raises(ConnectRefused) as refusal:
        at(7, plan_of_batch(7, STATELESS, union)).refuse_state()
    assert str(refusal.value) == (
        'this query reads another stream beside format("apportion"), and Spark Connect does not '
        "show the writer which batches have rows of the other stream only: write each stream with "
        "a query of its own, or start the query from a classic SparkSession"
    )


def test_a_query_whose_plan_is_not_shown_is_refused() -> None:
    with pytest.raises(ConnectRefused, match="make the writer where the query is started"):
        at(3, plan_of_batch(2)).refuse_state()
    inside = ConnectQuery()
    inside.begin(None, frame(session=Session()), 3)
    with pytest.raises(ConnectRefused, match="make the writer where the query is started"):
        inside.refuse_state()


def test_a_server_before_spark_4_2_is_refused() -> None:
    with pytest.raises(ConnectRefused, match=r"from Spark 4\.2 on, and this server has 4\.1\.3"):
        at(0, plan_of_batch(0), version="4.1.3").refuse_state()
    at(0, plan_of_batch(0), version="4.10.0").refuse_state()
    at(0, plan_of_batch(0), version="4.2-vendor7").refuse_state()
