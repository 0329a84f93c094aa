"""The guard against stateful queries: their state cannot move with the partitions of a group.

Partitions move between the queries of a group, the state of an aggregation does not. Two such
queries would each hold a part of every aggregate, and nobody would notice. The source cannot see
the query's plan; the driver can.
"""

from collections.abc import Iterator
from typing import Any

STATEFUL_EXECUTION = "org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator"
PLANNED_WITHIN_MS = 60_000
STATEFUL_LOGIC = {  # logical operator on a stream -> what a person calls it
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


class StatefulQuery(Exception):
    """The query keeps state, so it must not be a member of a shared group."""

    def __init__(self, operator: str) -> None:
        super().__init__(
            f"this query keeps state ({operator}), and state does not move when "
            "partitions do: each application of the group would "
            "hold a part of every result. A group with one member is no way out, since a "
            "second one may join at any time. Let "
            "the group's queries only parse, filter and route, write their rows to a "
            "table, and aggregate that table in a query "
            "of its own; or read the topic for the aggregation with Spark's own source, "
            "format('kafka'), which joins no group."
        )


def refuse_state(execution: Any, jvm: Any) -> None:
    """Raise StatefulQuery if the running batch has a stateful operator.

    `execution` is a JVM StreamExecution.
    """
    stateful = jvm.org.apache.spark.util.Utils.classForName(STATEFUL_EXECUTION, True, False)
    for node in _walk(execution.lastExecution().executedPlan()):
        if stateful.isInstance(node):
            raise StatefulQuery(node.nodeName())


def guard(query: Any) -> Any:
    """Return `query` if it keeps no state; otherwise stop it and raise StatefulQuery.

    For sinks other than `apportion.spark.delta`; call it with what `start()` returned. Batches may
    have run before.
    """
    execution = query._jsq.streamingQuery()
    # whoever asks for the plan before the query's own thread did gets an error
    execution.awaitInitialization(PLANNED_WITHIN_MS)
    for node in _walk(execution.logicalPlan()):
        operator = _stateful_or_none(node)
        if operator:
            query.stop()
            raise StatefulQuery(operator)
    return query


def _stateful_or_none(node: Any) -> str | None:
    """Return what in this logical node needs state; None if nothing does."""
    name = node.nodeName()
    if name == "Join" and all(child.isStreaming() for child in _items(node.children())):
        return "a join of two streams"
    if name in STATEFUL_LOGIC and node.isStreaming():
        return STATEFUL_LOGIC[name]
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
