"""Spark queries that are members of a Kafka consumer group: source, exactly-once writer, guard.

`spark.readStream.format("apportion")` finds the source by itself; `delta.Writer` is the
exactly-once writer for Delta tables. `PrometheusListener` shows lag and member epoch of the queries
to Prometheus. `seeds` plays the simulator's seeds on a Spark cluster.

To import it has Spark start its workers with this interpreter (`workers_python.py`).
"""

import os
import sys
from typing import TYPE_CHECKING

from apportion.exports import lazily
from apportion.spark.workers_python import use_this_python

if TYPE_CHECKING:
    from apportion.member.batch.span import LostOffsets
    from apportion.spark import delta, seeds
    from apportion.spark.options import OptionError
    from apportion.spark.prometheus_listener import PrometheusListener
    from apportion.spark.stateless import StatefulQuery, guard
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "LostOffsets": "apportion.member.batch.span",
            "OptionError": "apportion.spark.options",
            "PrometheusListener": "apportion.spark.prometheus_listener",
            "StatefulQuery": "apportion.spark.stateless",
            "delta": "apportion.spark.delta",
            "guard": "apportion.spark.stateless",
            "seeds": "apportion.spark.seeds",
        },
        extra="spark",
    )

# PySpark is not imported for that, which takes a second: while it is not loaded no Spark runs.
_context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
use_this_python(
    os.environ,
    is_spark_running=getattr(_context, "_active_spark_context", None) is not None,
)

__all__ = [
    "LostOffsets",
    "OptionError",
    "PrometheusListener",
    "StatefulQuery",
    "delta",
    "guard",
    "seeds",
]
