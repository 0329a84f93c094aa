"""Spark queries that are members of a Kafka consumer group: source, exactly-once writer, guard.

`spark.readStream.format("apportion")` finds the source by itself; `delta.Writer` is the
exactly-once writer for Delta tables. `run` and `stop` end queries in order. `seeds` plays the
simulator's seeds on a Spark cluster.
"""

from typing import TYPE_CHECKING

from apportion.exports import lazily

if TYPE_CHECKING:
    from apportion.member.batch.span import LostOffsets
    from apportion.spark import delta, seeds
    from apportion.spark.options import OptionError
    from apportion.spark.running import run
    from apportion.spark.stateless import StatefulQuery, guard
    from apportion.spark.stopping import stop
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "LostOffsets": "apportion.member.batch.span",
            "OptionError": "apportion.spark.options",
            "StatefulQuery": "apportion.spark.stateless",
            "delta": "apportion.spark.delta",
            "guard": "apportion.spark.stateless",
            "run": "apportion.spark.running",
            "seeds": "apportion.spark.seeds",
            "stop": "apportion.spark.stopping",
        },
        extra="spark",
    )

__all__ = [
    "LostOffsets",
    "OptionError",
    "StatefulQuery",
    "delta",
    "guard",
    "run",
    "seeds",
    "stop",
]
