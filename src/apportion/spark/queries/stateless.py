"""The check that a query of a group keeps no state, such as an aggregation.

Partitions move between the queries of a group; the state of an aggregation does not. Two queries
would each hold a part of every aggregate, and both would report it as the whole. The source runs in
a process that cannot see the query's plan, so the driver checks: the writer in its first batch, or
`guard` where the sink is another one. Spark Connect shows no plan but its text (`plan_text.py`).
"""

from collections.abc import Iterator
from time import monotonic
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from apportion.spark.errors import PlainError
from apportion.spark.queries.checkpoints import warn_of_query
from apportion.spark.queries.frame_sources import is_classic, stream_options
from apportion.spark.queries.plan_text import PrintedPlan, printed_plan
from apportion.spark.queries.spark_query import SparkQuery
from apportion.spark.versions import (
    UnsupportedTrigger,
    refuse_available_now,
    stateful_operator_class,
)

Watched = TypeVar("Watched", bound=DataFrame | SparkQuery)
PLAN_TIMEOUT_MS = 60_000
STATEFUL_OPERATORS = {  # logical operator of a stream -> how it is written in a program
    "Aggregate": "an aggregation",
    "Distinct": "distinct()",
    "Deduplicate": "dropDuplicates()",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark()",
    "FlatMapGroupsWithState": "flatMapGroupsWithState()",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState()",
    "TransformWithState": "transformWithState()",
    "TransformWithStateInPySpark": "transformWithState()",
    "GlobalLimit": "limit()",
}


class StatefulQuery(PlainError):
    """The query keeps state, so it must not be a member of a shared group."""

    def __init__(self, operator: str) -> None:
        """Create the error. operator: the stateful operator in the query's plan."""
        super().__init__(
            f"this query keeps state ({operator}), and state does not move when partitions do: "
            "each application of the group would hold a part of every result. A group with one "
            "member is no way out, since a second one may join at any time. Let the group's "
            "queries only parse, filter and route, write their rows to a table, and aggregate that "
            "table in a job of its own, which reads spark.read.parquet(*deltalake.DeltaTable(...)"
            ".file_uris()); or read the topic for the aggregation with Spark's own source, "
            "format('kafka'), which joins no group."
        )


def refuse_state(execution: Any, jvm: Any) -> None:
    """Raise StatefulQuery if the running batch has a stateful operator.

    execution: the JVM's StreamExecution. The physical plan is checked: whatever keeps state there
    has one supertype in Spark.
    """
    supertype = stateful_operator_class(execution.sparkSession().version())
    stateful = jvm.org.apache.spark.util.Utils.classForName(supertype, True, False)
    for node in _walk(execution.lastExecution().executedPlan()):
        if stateful.isInstance(node):
            # As the program has written it: nobody knows a StateStoreSave.
            raise StatefulQuery(_operator_or_none(execution.logicalPlan()) or node.nodeName())


def guard(watched: Watched) -> Watched:
    """Return the query or frame if it keeps no state; otherwise raise StatefulQuery.

    For sinks other than `apportion.spark.delta`. watched: a frame, before `writeStream`; or a
    query, as `start()` returned it, which is stopped: batches may have run before that. Of a frame
    it also raises OptionError for a source without a group, which `load()` cannot tell from a batch
    read. Through Spark Connect a query has no plan before its first batch: raises TimeoutError if
    there is none for a minute. Before Spark 4.2 it stops a query with trigger(availableNow=True),
    too, and raises UnsupportedTrigger.
    """
    if isinstance(watched, DataFrame):
        stream_options(watched)  # raises OptionError
        operator = _operator_of_frame_or_none(watched)
    elif (java_query := getattr(watched, "_jsq", None)) is not None:
        warn_of_query(watched)
        operator = _operator_of_query_or_none(watched, java_query.streamingQuery())
    else:
        operator = _first_plan(watched).stateful_operator_or_none()
    if operator:
        if not isinstance(watched, DataFrame):
            watched.stop()
        raise StatefulQuery(operator)
    return watched


def _operator_of_frame_or_none(frame: DataFrame) -> str | None:
    """Return the stateful operator of a frame that no query reads yet."""
    if not is_classic(frame):
        return printed_plan(frame).stateful_operator_or_none()
    return _operator_or_none(frame._jdf.queryExecution().analyzed())


def _operator_of_query_or_none(query: SparkQuery, execution: Any) -> str | None:
    """Return the stateful operator of a query of a classic session, by its execution in the JVM."""
    # The plan exists only after the query's own thread has initialized; reading it before raises.
    execution.awaitInitialization(PLAN_TIMEOUT_MS)
    try:
        refuse_available_now(execution)
    except UnsupportedTrigger:
        query.stop()
        raise
    return _operator_or_none(execution.logicalPlan())


def _first_plan(query: SparkQuery) -> PrintedPlan:
    """Return the plan of a query of Spark Connect once it is there, or what there is at its end."""
    deadline = monotonic() + PLAN_TIMEOUT_MS / 1000
    while not (plan := printed_plan(query)).is_there:
        if query.awaitTermination(1):
            break
        if monotonic() > deadline:
            query.stop()
            raise TimeoutError(
                f"this query has planned no batch within {PLAN_TIMEOUT_MS // 1000} s, and Spark "
                "Connect shows no plan before that, so it was stopped: call guard with the frame, "
                "before its writeStream"
            )
    return plan


def _operator_or_none(plan: Any) -> str | None:
    """Return the topmost stateful operator of a logical plan in the JVM."""
    operators = (_stateful_or_none(node) for node in _walk(plan))
    return next((operator for operator in operators if operator), None)


def _stateful_or_none(node: Any) -> str | None:
    """Return how a person would name the operator of this logical node, if it needs state."""
    name = node.nodeName()
    # A join with a static table keeps no state.
    if name == "Join" and all(child.isStreaming() for child in _items(node.children())):
        return "a join of two streams"
    if name in STATEFUL_OPERATORS and node.isStreaming():
        return STATEFUL_OPERATORS[name]
    return None


def _walk(plan: Any) -> Iterator[Any]:
    """Yield every node of a JVM plan, parents first."""
    yield plan
    for child in (*_items(plan.children()), *_items(plan.innerChildren())):
        if child.getClass().getName().startswith("org.apache.spark.sql"):
            yield from _walk(child)


def _items(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.size()):
        yield sequence.apply(index)
