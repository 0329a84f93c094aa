"""The kinds of queries that a rule asks, read from its modules."""

import ast
import inspect
import sys
from types import ModuleType

from apportion.machine import Note
from apportion.member import deleted_topics, group_claims, group_protocols, ownership
from apportion.member.batch import (
    admission,
    data_loss,
    group,
    membership,
    planner,
    retries,
)
from apportion.member.records import (
    listener,
    record_consumer,
    record_ownership,
    resets,
    sink_claims,
    streams_consumer,
)
from apportion.rules import RuleQuery

RECORDS = (
    record_consumer,
    record_ownership,
    listener,
    resets,
    sink_claims,
    deleted_topics,
    group_claims,
    ownership,
)
STREAMS_RECORDS = (*RECORDS, streams_consumer)
BATCHES = (
    retries,
    planner,
    admission,
    membership,
    data_loss,
    group,
    group_protocols,
    deleted_topics,
    group_claims,
    ownership,
)
KINDS: tuple[type, ...] = (Note, *RuleQuery.__subclasses__())
QUERIES = {
    kind.__name__: kind
    for kind in KINDS
    # `dataclass` with slots makes each class anew and leaves the first one behind.
    if vars(sys.modules[kind.__module__])[kind.__name__] is kind
}


def asked_by(*modules: ModuleType) -> set[type]:
    """Return the kinds of queries that these modules of a rule create."""
    nodes = [node for module in modules for node in ast.walk(ast.parse(inspect.getsource(module)))]
    yielded = {name for node in nodes if isinstance(node, ast.Yield) for name in called(node.value)}
    assert yielded <= QUERIES.keys()
    return {QUERIES[name] for node in nodes for name in called(node) if name in QUERIES}


def called(node: ast.AST | None) -> tuple[str, ...]:
    """Return the name that the expression calls, if it calls one."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return (node.func.id,)
    return ()
