"""What Spark's printed plan says of a query."""

import pytest

from apportion.spark.queries.plan_text import PlanNotShown, PrintedPlan, printed_plan
from tests.spark.printed_plans import (
    RELATION,
    RUN,
    SCAN,
    STATEFUL,
    STATELESS,
    TWO_SOURCES,
    Planned,
    plan_of_batch,
)

STATE = f"state info [ checkpoint = <unknown>, runId = {RUN}, opId = 0, ver = 0"


@pytest.mark.parametrize(
    ("line", "operator"),
    [
        (
            f"StreamingDeduplicate [value#1L], {STATE}, numPartitions = 1], 0",
            "StreamingDeduplicate",
        ),
        (f"   :  +- StateStoreSave {STATE}, numPartitions = 1]", "StateStoreSave"),
        (f"!TransformWithStateInPySpark udf(a#1)#3, {STATE}]", "TransformWithStateInPySpark"),
        (f"+- *(12) OfALaterSpark [a#1], {STATE}]", "OfALaterSpark"),
        ("*(1) Project [StateStoreSave state info [ checkpoint AS t#29]", None),
        ("+- LocalLimit 2", None),
    ],
)
def test_an_operator_keeps_state_if_its_line_has_state_info(
    line: str, operator: str | None
) -> None:
    plan = PrintedPlan(plan_of_batch(0, (line, f"   +- {SCAN}")))
    assert plan.stateful_operator_or_none() == operator


def test_the_topmost_operator_with_state_is_named() -> None:
    assert PrintedPlan(plan_of_batch(0, STATEFUL)).stateful_operator_or_none() == "StateStoreSave"


def test_a_plan_says_which_batch_foreach_batch_has_and_how_often_the_source_is_read() -> None:
    def read(plan: PrintedPlan) -> tuple[bool, int | None, int]:
        return plan.is_there, plan.foreach_batch_or_none(), plan.count_sources()

    assert read(PrintedPlan(plan_of_batch(17))) == (True, 17, 1)
    assert read(PrintedPlan(plan_of_batch(3, STATELESS, TWO_SOURCES))) == (True, 3, 2)
    assert read(PrintedPlan(plan_of_batch(3).replace("apportion", "kafka"))) == (True, 3, 0)
    assert read(PrintedPlan("No physical plan. Waiting for data.")) == (False, None, 0)


@pytest.mark.parametrize(
    ("leaves", "streams"),
    [
        ((RELATION,), 1),
        ((RELATION, "Project [value#9]\n{}   +- Relation [value#9] parquet"), 1),
        ((RELATION, "~LocalRelation <empty>, [value#9]"), 2),
        ((RELATION, RELATION.replace("apportion", "rate")), 2),
        # A stream of files, as Spark 4.3 prints it
        ((RELATION, "~Project [value#6 AS value#9]\n{}   +- Relation [value#6] text"), 2),
        (
            (
                "~Project [value#6 AS value#9]\n{}   +- Relation [value#6] text",
                "~LocalRelation <empty>, [value#9]",
                RELATION,
            ),
            3,
        ),
        (("~CTERelationDef 0, false\n{}   +- " + RELATION, "~CTERelationRef 0, true"), 1),
    ],
)
def test_a_plan_says_how_many_streams_the_query_reads(
    leaves: tuple[str, ...], streams: int
) -> None:
    *others, last = leaves
    tree = ["~Project [value#9]", "   +- ~Filter (value#9 = a", "b)", "      +- ~Union false"]
    for leaf in others:
        below = "         :     "
        tree += ["         :- ~Project [value#9]", f"         :  +- {leaf.format(below)}"]
    tree += [f"         +- {last.format(' ' * 12)}"]
    plan = PrintedPlan(plan_of_batch(0, STATELESS, ("\n".join(tree),)))
    assert plan.count_streams() == streams


def test_a_plan_is_taken_and_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_plan(Planned("the plan")) == PrintedPlan("the plan\n")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "cut",
    [
        f"{plan_of_batch(0)[:300]}... 194 more characters",
        "Truncated plan of 2164 characters",
    ],
)
def test_a_plan_that_spark_has_cut_off_is_refused(cut: str) -> None:
    with pytest.raises(PlanNotShown, match="set it higher"):
        printed_plan(Planned(cut))
