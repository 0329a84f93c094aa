"""What the source says where it is used as what it is not."""

from typing import Any, NoReturn, Self

import pytest
from pyspark.errors import PySparkAttributeError
from pyspark.sql.types import StructType

from apportion.spark.query_introspection import execution_of
from apportion.spark.source import GroupSource

NO_WRITER = (
    'format("apportion") is a source only: write a stream with '
    "foreachBatch(apportion.spark.delta.Writer(path)), each record once, "
    "or with any sink of Spark's; to produce to Kafka, use Spark's own format(\"kafka\")"
)


@pytest.mark.parametrize("writer", ["streamWriter", "writer"])
def test_a_sink_is_refused_with_what_to_use_instead(writer: str) -> None:
    with pytest.raises(ValueError) as refusal:
        getattr(GroupSource(options={}), writer)(StructType([]), False)
    assert str(refusal.value) == NO_WRITER


class RemoteFrame:
    """A frame of Spark Connect, as far as the writer looks: its session shows no JVM."""

    @property
    def sparkSession(self) -> Self:
        return self

    @property
    def sparkContext(self) -> NoReturn:
        raise PySparkAttributeError(
            errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED",
            messageParameters={"attr_name": "sparkContext"},
        )


def test_the_writer_says_that_it_needs_a_classic_session() -> None:
    frame: Any = RemoteFrame()
    with pytest.raises(RuntimeError) as refusal:
        execution_of(frame)
    assert str(refusal.value) == (
        "apportion's writer asks the JVM of the driver about its query, which Spark "
        "Connect does not allow: "
        "start the query from a classic SparkSession, or write with one of Spark's own sinks"
    )
