"""The examples of docs/ that need Spark run to their end; the others are in
tests/house/test_examples.py.
"""

from pathlib import Path

import pytest

from tests.house.examples import Example, examples, run

EXAMPLES = [example for example in examples() if example.mark == "run with spark"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_program_with_spark_runs_to_its_end(example: Example, tmp_path: Path) -> None:
    run(example, tmp_path)
