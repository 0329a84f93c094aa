"""The apportion sources of a frame that no query reads yet."""

from typing import Any

from apportion.spark.options.stream import SourceOptions

NAME = "apportion"
STREAM = "StreamingRelationV2"
"""Spark's plan node for a stream of a DataSource V2 before its query begins."""


def refuse_wrong_options(frame: Any) -> None:
    """Raise OptionError for a stream of `frame` that cannot begin with its options.

    `load()` has checked them; but Spark does not tell it whether a stream or a batch read is
    loaded, and a batch read needs no group. Spark Connect does not show them.
    """
    if not hasattr(frame, "_jdf"):
        return
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.nodeName() == STREAM and leaf.sourceName().lower() == NAME:
            SourceOptions.parse(dict(leaf.extraOptions()))
