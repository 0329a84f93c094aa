"""The files of docs/ that are printed from the code (tools/pages.py) are in step with it."""

import re

import pytest
from tools.pages import PRINTED, ROOT
from tools.settings_page import TABLES, with_tables

from apportion.coord.config import GroupSettings
from apportion.node.settings import BrokerSettings
from apportion.settings import declared


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


@pytest.mark.parametrize("name", ["docs/broker.md", "docs/classic-groups.md"])
def test_a_default_beside_the_name_of_a_setting_is_the_declared_one(name: str) -> None:
    """These tables have columns of their own, so they are written by hand."""
    settings = {**declared(BrokerSettings), **declared(GroupSettings)}
    table = (ROOT / name).read_text().partition("## Settings\n")[2].partition("\n## ")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| `")]
    written = {
        setting: default
        for row in rows
        for setting, default in zip(
            re.findall(r"`([a-z.]+)`", row[0]), re.findall(r"-?\d+", row[1]), strict=True
        )
    }
    assert written
    declarations = {setting: settings[setting.replace(".", "_")] for setting in written}
    assert written == {
        # A default that depends on another setting is declared in words, its usual value first.
        setting: each.default_words.partition(",")[0] or str(each.default)
        for setting, each in declarations.items()
    }
