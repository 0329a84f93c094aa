"""What the source says where it is used as what it is not."""

import pytest
from pyspark.sql.types import StructType

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
