"""Spark queries that are members of a Kafka consumer group: source, exactly-once writer, guard.

`spark.readStream.format("apportion")` finds the source by itself; `delta.Writer` is the
exactly-once writer for Delta tables. `seeds` plays the simulator's seeds on a Spark cluster.
"""

from typing import TYPE_CHECKING

from apportion.exports import lazily
from apportion.spark.versions import refuse_old_spark

if TYPE_CHECKING:
    from apportion.member.batch.span import LostOffsets
    from apportion.spark import delta, seeds
    from apportion.spark.options import OptionError
    from apportion.spark.stateless import StatefulQuery, guard
    from apportion.spark.versions import UnsupportedTrigger
else:
    # Here, before a module asks an older pyspark for what it does not have.
    refuse_old_spark()
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "LostOffsets": "apportion.member.batch.span",
            "OptionError": "apportion.spark.options",
            "StatefulQuery": "apportion.spark.stateless",
            "UnsupportedTrigger": "apportion.spark.versions",
            "delta": "apportion.spark.delta",
            "guard": "apportion.spark.stateless",
            "seeds": "apportion.spark.seeds",
        },
        extra="spark",
    )

__all__ = [
    "LostOffsets",
    "OptionError",
    "StatefulQuery",
    "UnsupportedTrigger",
    "delta",
    "guard",
    "seeds",
]
