"""Rehearsals of upgrades on Spark: the same outcomes as anywhere, a row each."""

import json

import pytest
from typer.testing import CliRunner

from apportion.cli import rehearsal_matrix
from apportion.cli.main import app
from apportion.sim.streams.matrix import matrix_runs, play_run


def test_on_spark_the_matrix_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    some = matrix_runs(leaders=("last",), crashes=("leader",))[::7]
    monkeypatch.setattr(rehearsal_matrix, "matrix_runs", lambda seed: some)
    monkeypatch.setattr(rehearsal_matrix, "cells", lambda: [(one.from_, one.to) for one in some])
    result = CliRunner().invoke(
        app, ["streams", "rehearse", "--matrix", "--spark", "local[2]", "--json"]
    )
    report = json.loads(result.stdout)
    here = [play_run(play) for play in some]
    assert result.exit_code == 0
    assert [
        (tuple(play["versions"]), cell["longest_unowned_ms"])
        for cell in report
        for play in cell["plays"]
    ] == [(one.versions, one.longest_unowned_ms) for one in here]
