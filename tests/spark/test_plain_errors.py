"""Errors that leave a query's Python process without a traceback, and those that keep it."""

import os

import pytest

from apportion.member.batch.data_loss import DataLoss
from apportion.member.batch.membership import MembershipFailed
from apportion.member.group_claims import AnotherSink
from apportion.spark.connect_query import ConnectRefused
from apportion.spark.option_values import OptionError
from apportion.spark.plain_errors import HIDE, without_traceback
from apportion.spark.plan_text import PlanNotShown
from apportion.spark.private_files import NoPrivateDirectory


def raise_within(error: Exception) -> None:
    """Raise an error that has a cause, as deep as errors are raised."""
    with without_traceback():
        try:
            raise ConnectionError("the cause")
        except ConnectionError as cause:
            raise error from cause


@pytest.mark.parametrize(
    "kind",
    [
        MembershipFailed,
        AnotherSink,
        DataLoss,
        OptionError,
        ConnectRefused,
        PlanNotShown,
        NoPrivateDirectory,
    ],
)
@pytest.mark.parametrize("worker", [True, False])
def test_an_error_in_a_sentence_loses_its_cause_and_in_sparks_process_its_traceback(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception], worker: bool
) -> None:
    monkeypatch.delenv(HIDE, raising=False)
    if worker:
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    with pytest.raises(kind, match=r"^why$") as raised:
        raise_within(kind("why"))
    assert (raised.value.__cause__, raised.value.__suppress_context__) == (None, True)
    assert os.environ.pop(HIDE, None) == ("1" if worker else None)


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    with pytest.raises(AssertionError) as raised:
        raise_within(AssertionError("a defect"))
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert HIDE not in os.environ
