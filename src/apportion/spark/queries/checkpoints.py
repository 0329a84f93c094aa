"""The warning of a query that has no checkpoint of its own.

Where foreachBatch is the sink, Spark makes a temporary checkpoint for a query without
checkpointLocation, and deletes it as the query ends.
"""

import logging
import re
from typing import Any

from apportion.spark.queries.spark_query import SparkQuery

TEMPORARY = re.compile(r"/temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/?$")

log = logging.getLogger("apportion.spark")
_warned: set[str] = set()
"""Run ids of the queries that were warned of in this process."""


def warn_of_query(query: SparkQuery) -> None:
    """Log the warning of a query as `start()` returned it, of a classic session alone.

    Spark Connect does not show where the checkpoint is.
    """
    if (java_query := getattr(query, "_jsq", None)) is not None:
        warn_of_temporary_checkpoint(java_query.streamingQuery())


def warn_of_temporary_checkpoint(execution: Any) -> None:
    """Log a warning, once in a run, if the query was started without checkpointLocation.

    execution: the JVM's StreamExecution. The source cannot see the checkpoint's place.
    """
    run_id = str(execution.runId())
    if run_id in _warned or not TEMPORARY.search(str(execution.resolvedCheckpointRoot())):
        return
    _warned.add(run_id)
    log.warning(
        "query %s has no checkpointLocation: at each start it begins at the group's offsets, and "
        "the batch that was not committed is read again, which apportion's writers alone write "
        'once; give writeStream.option("checkpointLocation", "...") a directory of its own',
        execution.name() or execution.id(),
    )
