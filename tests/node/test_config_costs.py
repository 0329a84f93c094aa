"""What it costs to alter and to describe settings where there are many topics and groups.

Counted in instructions of Python, because the clock of a busy machine says nothing.
"""

import sys
from types import FrameType
from typing import Any

import pytest

from tests.node.config_requests import changes_of, describe, incremental
from tests.node.kit import NodeDriver


def work(driver: NodeDriver, request: Any) -> int:
    """The instructions of the step that answers a request."""
    counted = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted += event == "opcode"
        return trace

    before = sys.gettrace()
    here = sys._getframe()
    # From Python 3.12 on no frame has events of opcodes unless one asks before tracing begins.
    here.f_trace_opcodes = True
    sys.settrace(trace)
    try:
        driver.send(request)
    finally:
        sys.settrace(before)
    driver.flush()
    return counted


@pytest.mark.parametrize(
    ("kind", "setting", "few", "many"),
    [("topic", "max_message_bytes", 10, 100), ("group", "consumer_session_timeout_ms", 40, 400)],
    ids=["topics", "groups"],
)
def test_a_resource_costs_the_same_however_many_a_request_alters(
    driver: NodeDriver, kind: str, setting: str, few: int, many: int
) -> None:
    names = [f"n{number:03}" for number in range(many)]

    def altering(count: int, value: str) -> Any:
        changes = changes_of(**{setting: value})
        return incremental(*((kind, name, changes) for name in names[:count]))

    def create_topics(names: list[str]) -> None:
        if kind == "topic":
            for name in names:
                driver.create(name)

    create_topics(names[:few])
    driver.call(altering(few, "6000"))  # what is done once for all is not counted
    among_few = work(driver, altering(few, "7000")) / few
    create_topics(names[few:])
    driver.call(altering(many, "8000"))
    assert work(driver, altering(many, "9000")) / many < 1.2 * among_few


def test_a_description_costs_the_same_for_each_setting(driver: NodeDriver) -> None:
    request = describe("broker", "1")
    described = len(driver.call(request).results[0].configs)
    assert work(driver, request) < 1_000 * described
