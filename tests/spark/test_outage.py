"""The broker goes away and comes back; the query waits and loses nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo import host
from tests.spark.harness import Pipeline, until

if TYPE_CHECKING:
    from tests.spark.conftest import Broker


@pytest.fixture
def own_broker(tmp_path: Path) -> "Iterator[Broker]":
    from tests.spark.conftest import Broker

    running = Broker(tmp_path / "data")
    yield running
    if running.process.poll() is None:
        running.kill()


def test_a_broker_that_is_gone_for_a_hundred_triggers_and_comes_back(
    own_broker: "Broker", pipeline_on: Callable[..., Pipeline]
) -> None:
    pipeline = pipeline_on(own_broker.bootstrap)
    application = pipeline.start("patient", planning="gated")
    pipeline.produce(200)
    pipeline.until_written()
    own_broker.kill()
    until(
        lambda: "the query waits until a broker answers" in application.tail(),
        what="the outage in its log",
        also=[application],
    )
    application.until_triggered(100)
    own_broker.start()
    pipeline.produce(200)
    pipeline.until_written()
    assert pipeline.rows() == pipeline.expected()


def test_available_now_survives_an_outage_and_reads_everything(
    own_broker: "Broker", pipeline_on: Callable[..., Pipeline]
) -> None:
    pipeline = pipeline_on(own_broker.bootstrap)
    pipeline.produce(400)
    application = pipeline.start(
        "once", trigger="available now", source={"maxOffsetsPerTrigger": "100"}
    )
    application.close_gate("written")
    application.wait_at("written")
    halted = host.suspend(own_broker.process.pid)
    application.open_gate("written")
    until(
        lambda: "the member tries again until a broker answers" in application.tail(),
        what="the outage in its log",
        also=[application],
    )
    host.resume(halted)
    application.wait_for_end()
    assert pipeline.rows() == pipeline.expected()
    assert pipeline.total_committed() <= 400
