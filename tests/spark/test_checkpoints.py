"""The warning of a query without a checkpoint of its own, whose execution is played here."""

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from apportion.spark import guard, run, stop
from apportion.spark.queries.checkpoints import warn_of_temporary_checkpoint


def execution(run_id: str, root: str, name: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        runId=lambda: run_id, resolvedCheckpointRoot=lambda: root, name=lambda: name, id=lambda: "7"
    )


@pytest.mark.parametrize("name", [None, "flights"])
def test_a_query_without_a_checkpoint_is_warned_of_once(
    name: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    temporary = "file:/tmp/temporary-6734d533-6778-4983-a74a-2c5003a9ebdf"
    for _ in range(2):
        warn_of_temporary_checkpoint(execution(f"run of {name}", temporary, name))
    assert caplog.messages == [
        f"query {name or 7} has no checkpointLocation: at each start it begins at the group's "
        "offsets, and the batch that was not committed is read again, which apportion's writers "
        'alone write once; give writeStream.option("checkpointLocation", "...") a directory of its '
        "own"
    ]


@pytest.mark.parametrize("call", [run, stop, guard])
def test_every_call_with_a_query_warns_of_it(
    call: Callable[[Any], object], caplog: pytest.LogCaptureFixture
) -> None:
    played = execution(
        f"run of {call.__name__}", "file:/tmp/temporary-6734d533-6778-4983-a74a-2c5003a9ebdf"
    )
    query = SimpleNamespace(
        name=None,
        id="7",
        isActive=False,
        exception=lambda: None,
        _jsq=SimpleNamespace(streamingQuery=lambda: played),
    )
    # The played execution has no plan, at which guard looks after the warning.
    with suppress(AttributeError):
        call(query)
    (line,) = caplog.messages
    assert line.startswith("query 7 has no checkpointLocation")


@pytest.mark.parametrize("root", ["file:/checkpoints/v1", "s3a://lake/temporary-files"])
def test_a_query_with_a_checkpoint_is_not_warned_of(
    root: str, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_temporary_checkpoint(execution("another run", root))
    assert caplog.messages == []
