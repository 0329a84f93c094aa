"""The files of docs/ that are printed from the code (tools/pages.py) are in step with it."""

import pytest
from tools.pages import PRINTED, ROOT


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_page_is_in_step_with_the_code(name: str) -> None:
    assert (ROOT / name).read_text() == PRINTED[name](), "run: .venv/bin/python -m tools.pages"
