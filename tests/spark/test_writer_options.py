"""A writer refuses wrong arguments when it is made, and Spark's extra is named where it lacks."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apportion.spark.delta import Writer


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"table": 5}, "table must be a path or a URI, not 5"),
        ({"table": ""}, "table must be a path or a URI, not ''"),
        ({"table": " "}, "table must be a path or a URI, not ' '"),
        ({"table": "t", "adopt": "yes"}, "adopt must be True or False, not 'yes'"),
        ({"table": "t", "rewind": 1}, "rewind must be True or False, not 1"),
        (
            {"table": "t", "fail_on_data_loss": None},
            "fail_on_data_loss must be True or False, not None",
        ),
        ({"table": "t", "attempts": 0}, "attempts must be a whole number of at least 1, not 0"),
        (
            {"table": "t", "attempts": True},
            "attempts must be a whole number of at least 1, not True",
        ),
        (
            {"table": "t", "storage_options": "region"},
            "storage_options must be a mapping, not 'region'",
        ),
    ],
)
def test_a_wrong_argument_is_refused_when_the_writer_is_made(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError) as refusal:
        Writer(**arguments)
    assert str(refusal.value) == f"delta.Writer: {sentence}"


def test_a_writer_makes_as_many_attempts_as_its_page_says() -> None:
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    assert f"`delta.Writer(table, attempts={Writer('t').attempts})`" in page.read_text()


def test_a_table_may_be_given_as_a_path_object(tmp_path: Path) -> None:
    assert Writer(tmp_path / "t").sink == str(tmp_path / "t")


def test_without_the_extra_the_import_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from apportion.spark import delta"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.endswith(
        "ModuleNotFoundError: No module named 'pyarrow': pip install '.[spark]' in a clone of "
        "apportion\n"
    )
