"""The apportion sources of a frame that no query reads yet."""

from pyspark.sql import DataFrame

from apportion.spark.options.stream import SourceOptions
from apportion.spark.queries.plan_text import SOURCE

STREAM = "StreamingRelationV2"
"""Spark's plan node for a stream of a DataSource V2 before its query begins."""


def is_classic(frame: DataFrame) -> bool:
    """Return whether the frame is of a classic session, and not of Spark Connect."""
    return hasattr(frame, "_jdf")


def stream_options(frame: DataFrame) -> list[SourceOptions]:
    """Return the options of every apportion stream that `frame` reads.

    Spark Connect does not show them: then there are none. Raises OptionError for a stream without a
    group, which a batch read does not need: Spark does not tell `load()` which of the two it is.
    """
    if not is_classic(frame):
        return []
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    nodes = (leaves.apply(index) for index in range(leaves.size()))
    return [
        SourceOptions.parse(dict(node.extraOptions()))
        for node in nodes
        if node.nodeName() == STREAM and node.sourceName().lower() == SOURCE
    ]
