"""Plans as Spark 4.3 prints them, and queries that print them."""

from typing import Any

RUN = "62a84ccb-08c0-4209-b724-1a55c276dfa9"
SCAN = "MicroBatchScan[topic#2, partition#3, offset#4L] (Python)"
RELATION = "~StreamingDataSourceV2ScanRelation[topic#2, partition#3, offset#4L] apportion"
STATE = (
    f"state info [ checkpoint = file:/c/state, runId = {RUN}, opId = 0, ver = 1, numPartitions = 1]"
)
STATELESS = (f"*(1) Project [topic#2, '{STATE[:24]}' AS text#9]", f"+- {SCAN}")
STATEFUL = (
    "*(3) HashAggregate(keys=[topic#2], functions=[count(1)])",
    f"+- StateStoreSave [topic#2], {STATE} stateStoreCkptIds = None, Update, 0, 0, 2",
    f"   +- StateStoreRestore [topic#2], {STATE} stateStoreCkptIds = None, 2",
    f"      +- *(1) {SCAN}",
)
TWO_SOURCES = (f"~Union false, false\n   :- {RELATION}\n   +- {RELATION}",)


def plan_of_batch(
    batch_id: int, physical: tuple[str, ...] = STATELESS, logical: tuple[str, ...] = (RELATION,)
) -> str:
    """What `explain(True)` prints of a query while foreachBatch has a batch."""
    sink = (
        f"~WriteToMicroBatchDataSourceV1 ForeachBatchSink, {RUN}, "
        f"[checkpointLocation=/c, queryName=q], Append, {batch_id}"
    )
    tree = "\n".join([sink, *(f"+- {line}" for line in logical)])
    parts = {
        "Parsed Logical": tree,
        "Analyzed Logical": f"topic: string, partition: int, offset: bigint\n{tree}",
        "Optimized Logical": "\n".join(logical),
        "Physical": "\n".join(physical),
    }
    return "\n".join(f"== {name} Plan ==\n{text}\n" for name, text in parts.items())


class Planned:
    """A query or a frame, as far as its plan is asked for."""

    def __init__(self, *texts: str) -> None:
        self._texts = list(texts)

    def explain(self, extended: bool = False) -> None:
        """Print the next text, and the last one again and again."""
        assert extended
        print(self._texts.pop(0) if len(self._texts) > 1 else self._texts[0])


class Session:
    """A session of Spark Connect with running queries."""

    def __init__(self, *plans: str, version: str = "4.3.0") -> None:
        self.version = version
        self.active: list[Any] = [Planned(plan) for plan in plans]
        self.streams = self
