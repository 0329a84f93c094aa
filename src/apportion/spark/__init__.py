"""Spark queries that are members of a Kafka consumer group: source, exactly-once writer, guard.

`spark.readStream.format("apportion")` finds the source by itself; `delta.Writer` is the
exactly-once writer for Delta tables. `run` and `stop` end queries in order. `PrometheusListener`
shows lag and member epoch of the queries to Prometheus. `decode` reads values of a schema registry.
`seeds` plays the simulator's seeds on a Spark cluster. The errors that a program may catch are
those of docs/spark-errors.md.

To import it has Spark start its workers with this interpreter (`workers_python.py`).
"""

import os
import sys
from typing import TYPE_CHECKING

from apportion.exports import lazily
from apportion.spark.versions import refuse_old_spark
from apportion.spark.workers_python import use_this_python

if TYPE_CHECKING:
    from apportion.member.batch.fences import LostOffsets
    from apportion.member.group_claims import AnotherSink
    from apportion.spark import delta, seeds
    from apportion.spark.decoding.columns import decode
    from apportion.spark.decoding.errors import RegistryError, UnsupportedSchema
    from apportion.spark.delta_sink.connect_query import ConnectRefused
    from apportion.spark.delta_sink.shared_directory import TableNotShared
    from apportion.spark.errors import NotWritable
    from apportion.spark.monitoring.prometheus_listener import PrometheusListener
    from apportion.spark.options.values import OptionError
    from apportion.spark.processes.private_files import NoPrivateDirectory
    from apportion.spark.queries.plan_text import PlanNotShown
    from apportion.spark.queries.running import run
    from apportion.spark.queries.stateless import StatefulQuery, guard
    from apportion.spark.queries.stopping import stop
    from apportion.spark.versions import UnsupportedTrigger
else:
    # Here, before a module asks an older pyspark for what it does not have.
    refuse_old_spark()
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "AnotherSink": "apportion.member.group_claims",
            "ConnectRefused": "apportion.spark.delta_sink.connect_query",
            "LostOffsets": "apportion.member.batch.fences",
            "NoPrivateDirectory": "apportion.spark.processes.private_files",
            "NotWritable": "apportion.spark.errors",
            "OptionError": "apportion.spark.options.values",
            "PlanNotShown": "apportion.spark.queries.plan_text",
            "PrometheusListener": "apportion.spark.monitoring.prometheus_listener",
            "RegistryError": "apportion.spark.decoding.errors",
            "StatefulQuery": "apportion.spark.queries.stateless",
            "TableNotShared": "apportion.spark.delta_sink.shared_directory",
            "UnsupportedSchema": "apportion.spark.decoding.errors",
            "UnsupportedTrigger": "apportion.spark.versions",
            "decode": "apportion.spark.decoding.columns",
            "delta": "apportion.spark.delta",
            "guard": "apportion.spark.queries.stateless",
            "run": "apportion.spark.queries.running",
            "seeds": "apportion.spark.seeds",
            "stop": "apportion.spark.queries.stopping",
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
    "AnotherSink",
    "ConnectRefused",
    "LostOffsets",
    "NoPrivateDirectory",
    "NotWritable",
    "OptionError",
    "PlanNotShown",
    "PrometheusListener",
    "RegistryError",
    "StatefulQuery",
    "TableNotShared",
    "UnsupportedSchema",
    "UnsupportedTrigger",
    "decode",
    "delta",
    "guard",
    "run",
    "seeds",
    "stop",
]
