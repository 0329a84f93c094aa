"""Spark's printed plan of a query, and what is read there: its state, and its sources.

Spark Connect gives a client no plan but the text of `explain()`. In it every stateful operator has
its `state info`, whatever its name.
"""

import re
from contextlib import redirect_stdout
from io import StringIO
from typing import NamedTuple, Protocol

from apportion.spark.errors import PlainError

SOURCE = "apportion"
PHYSICAL = "== Physical Plan =="
ANALYZED = "== Analyzed Logical Plan =="
OPTIMIZED = "== Optimized Logical Plan =="

# The operator's name follows the lines of the tree and the number of its compiled stage.
STATE = re.compile(
    r"^[ :+-]*(?:\*\(\d+\) )?!?(\w+) .*"
    r"\bstate info \[ checkpoint = .*, runId = [0-9a-f-]{36}, opId = \d+",
    re.MULTILINE,
)
BATCH = re.compile(r"^\W*WriteToMicroBatchDataSourceV1 ForeachBatchSink, .*, (\d+)$", re.MULTILINE)
CUT = re.compile(r"(?:\.\.\. \d+ more characters|^Truncated plan of \d+ characters)\s*$")
RELATION = re.compile(rf"StreamingDataSourceV2ScanRelation\[.*\] {SOURCE}\b", re.IGNORECASE)

# `~` marks what has a stream below it. The relation of files has no mark, and what is above it has.
STREAMING = re.compile(r"^([ :]*)[+:]- ~(\w+)", re.MULTILINE)
REFERENCE = "CTERelationRef"  # to what the plan has once, as CTERelationDef


class PlanNotShown(PlainError, RuntimeError):
    """Spark has printed a part of the plan only."""


class Explained(Protocol):
    """A query, or a frame."""

    def explain(self, extended: bool, /) -> None:
        """Print the plan, and the logical ones with it where `extended`."""


class PrintedPlan(NamedTuple):
    """The text of `explain(True)`, of a query or of a frame."""

    text: str

    @property
    def is_there(self) -> bool:
        """Return whether Spark has made the plan: a query has one from its first batch on."""
        return PHYSICAL in self.text

    def stateful_operator_or_none(self) -> str | None:
        """Return the name of the topmost operator that keeps state."""
        found = STATE.search(self.text.partition(PHYSICAL)[2])
        return found[1] if found else None

    def foreach_batch_or_none(self) -> int | None:
        """Return the number of the batch that a function of foreachBatch is given."""
        found = BATCH.search(self.text)
        return int(found[1]) if found else None

    def count_sources(self) -> int:
        """Return how often the query reads from `format("apportion")`."""
        return len(RELATION.findall(self._analyzed()))

    def count_streams(self) -> int:
        """Return how many streams the query reads, from whatever sources."""
        nodes = [(len(indent), name) for indent, name in STREAMING.findall(self._analyzed())]
        depths = [depth for depth, _ in nodes]
        # In this order a node has one of those below it next, if there is any.
        following = zip(nodes, [*depths[1:], 0], strict=True)
        return sum(name != REFERENCE and below <= depth for (depth, name), below in following)

    def _analyzed(self) -> str:
        return self.text.partition(ANALYZED)[2].partition(OPTIMIZED)[0]


def printed_plan(plan_owner: Explained) -> PrintedPlan:
    """Return the plan of a query or a frame; raise PlanNotShown where Spark has cut it off."""
    # There is no public way but this to have it as a text.
    with redirect_stdout(StringIO()) as printed:
        plan_owner.explain(True)
    text = printed.getvalue()
    if CUT.search(text):
        raise PlanNotShown(
            "whether this query keeps state cannot be seen, since Spark cuts its printed plan off: "
            "unset spark.sql.maxPlanStringLength, or set it higher"
        )
    return PrintedPlan(text)
