"""What a partition still knows of its producers after a step that broke off, or after a flush that
the disk refused.
"""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.errors import Code
from apportion.store.segment import Segment
from tests.node import kit
from tests.node.fault_histories import Fault, begun
from tests.node.topic_requests import EARLIEST, create, listed, produced

OFTEN = {"log.retention.check.interval.ms": 1000}
LOOK_MS = 600_000
"""How often producers that have fallen silent are looked for."""


def sent(history: Any, producer_id: int, sequence: int = 0, **facts: Any) -> tuple[int, int]:
    """The answer to a batch of that producer."""
    facts = {"timestamp_ms": history.now.wall_ms} | facts
    batch = kit.batch(
        b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **facts
    )
    answer = produced(history, kit.produce("t", batch))
    return answer.error_code, answer.base_offset


def broken_step(history: Any, producer_id: int) -> None:
    """A batch of that producer is written and then undone."""
    with pytest.MonkeyPatch.context() as patch:
        history.faults = (Fault(patch, (Segment, "append"), 1, True, RuntimeError("planted")),)
        assert sent(history, producer_id) == (Code.UNKNOWN_SERVER_ERROR, -1)
        history.faults = ()


def refused_flush(history: Any, producer_id: int) -> None:
    """A batch of that producer is written and never reaches the disk."""
    batch = kit.batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    ticket = history.ask(kit.produce("t", batch), 12)
    history.fail_flush()
    [response] = history.answers[ticket].responses[0].partition_responses
    assert response.error_code == Code.KAFKA_STORAGE_ERROR
    history.flush()


@pytest.fixture(params=[broken_step, refused_flush])
def undone(request: pytest.FixtureRequest) -> Callable[..., None]:
    result: Callable[..., None] = request.param
    return result


def test_a_producer_of_old_records_is_known_as_long_as_without_the_failure(
    undone: Callable[..., None],
) -> None:
    history = begun()
    history.create("t")
    assert sent(history, 7, timestamp_ms=1) == (Code.NONE, 0)
    undone(history, 8)
    history.sleep(LOOK_MS + 1)
    assert sent(history, 7, timestamp_ms=1) == (Code.NONE, 0), "a repeat"


def test_a_producer_that_was_forgotten_stays_so(undone: Callable[..., None]) -> None:
    history = begun(**{"producer.id.expiration.ms": 1000})
    history.create("t")
    assert sent(history, 7) == (Code.NONE, 0)
    history.sleep(LOOK_MS + 1)
    undone(history, 8)
    assert sent(history, 7, sequence=5) == (Code.NONE, 1), "it may start anywhere"


def test_a_producer_whose_records_have_expired_is_still_known(undone: Callable[..., None]) -> None:
    history = begun(**OFTEN)
    create(history, retention_bytes="0")
    assert sent(history, 7) == (Code.NONE, 0)
    history.sleep(2_000)
    history.flush()
    assert listed(history, EARLIEST) == (1, -1)
    undone(history, 8)
    assert sent(history, 7) == (Code.NONE, 0), "a repeat"


def test_a_producer_whose_batch_was_undone_is_where_it_was_before(
    undone: Callable[..., None],
) -> None:
    history = begun()
    history.create("t")
    assert sent(history, 7, sequence=9) == (Code.NONE, 0)
    batch = kit.batch(b"v", producer_id=7, producer_epoch=1, base_sequence=0)
    undone(history, 8)
    ticket = history.ask(kit.produce("t", batch), 12)
    history.fail_flush()
    assert (
        history.answers[ticket].responses[0].partition_responses[0].error_code
        == Code.KAFKA_STORAGE_ERROR
    )
    history.flush()
    assert sent(history, 7, sequence=10) == (Code.NONE, 1)
    assert sent(history, 7, sequence=9) == (Code.NONE, 0), "a repeat"
    assert sent(history, 8) == (Code.NONE, 2)
