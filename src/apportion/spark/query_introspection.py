"""What the running query reads: group and span of each source, read in the driver inside
foreachBatch.

foreachBatch is given rows and a batch id only, and Spark has no public way from there to the
offsets of the batch. They are read from the JVM's StreamExecution and its logical plan, by py4j.
"""

from typing import Any, NamedTuple

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame

from apportion.member.batch.span import Span, parse_span

CONNECT = (
    "apportion's writer asks the JVM of the driver about its query, which Spark Connect "
    "does not allow: "
    "start the query from a classic SparkSession, or write with one of Spark's own sinks"
)
GROUP_OPTION = "kafka.group.id"
BOOTSTRAP_OPTION = "kafka.bootstrap.servers"


class SourceReading(NamedTuple):
    """One apportion source of a query, and what its current batch reads. bootstrap: its brokers."""

    group: str
    span: Span
    bootstrap: str = ""


def execution_of(frame: DataFrame) -> Any:
    """Return the JVM StreamExecution whose foreachBatch was given `frame`.

    Raises RuntimeError outside of a query.
    """
    spark = frame.sparkSession
    try:
        query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    except PySparkAttributeError:
        raise RuntimeError(CONNECT) from None
    execution = None
    # `frame` belongs to a clone of the session that started the query; what they share knows every
    # query
    if query_id:
        jvm: Any = spark._jvm
        execution = (
            spark._jsparkSession.sharedState()
            .activeStreamingQueries()
            .get(jvm.java.util.UUID.fromString(query_id))
        )
    if execution is None:
        raise RuntimeError(
            "apportion's writer works only as the function of writeStream.foreachBatch(...)"
        )
    return execution


def readings(execution: Any) -> list[SourceReading]:
    """Return every apportion source of the query with its current span.

    Raises ValueError if there is none.
    """
    offsets = execution.availableOffsets()
    leaves = execution.logicalPlan().collectLeaves()
    found = []
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.nodeName() != "StreamingDataSourceV2ScanRelation":
            continue
        options = leaf.relation().options()
        offset = offsets.get(leaf.stream())
        if options.containsKey(GROUP_OPTION) and offset.isDefined():
            bootstrap = options.get(BOOTSTRAP_OPTION)
            found.append(
                SourceReading(options.get(GROUP_OPTION), parse_span(offset.get().json()), bootstrap)
            )
    if not found:
        raise ValueError(
            'this query does not read from format("apportion"), so nothing says which '
            "records its rows came from"
        )
    return found
