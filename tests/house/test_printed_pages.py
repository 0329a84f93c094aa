"""The files of docs/ that are printed from the code (tools/pages.py) are in step with it."""

import pytest
from tools.pages import PRINTED, ROOT
from tools.settings_page import TABLES, with_tables


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_page_is_in_step_with_the_code(name: str) -> None:
    assert (ROOT / name).read_text() == PRINTED[name](), "run: .venv/bin/python -m tools.pages"


def test_a_page_without_a_place_for_its_table_is_no_page() -> None:
    with pytest.raises(AssertionError, match="no place for the table 'options of a consumer'"):
        with_tables("# The consumer\n<!-- end of table -->\n", "options of a consumer")


def test_the_text_around_a_table_stays() -> None:
    name = "options of a classic consumer"
    page = f"before\n<!-- printed: {name} -->\nold\n<!-- end of table -->\nafter\n"
    assert with_tables(page, name) == (
        f"before\n<!-- printed: {name} -->\n\n{TABLES[name]()}\n<!-- end of table -->\nafter\n"
    )
