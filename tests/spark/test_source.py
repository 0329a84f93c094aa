"""What the Delta writer says where it is used as what it is not."""

from typing import Any, NoReturn, Self

import pytest
from pyspark.errors import PySparkAttributeError

from apportion.spark.query_introspection import execution_of


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
