"""docs/settings.md says what the code declares."""

from pathlib import Path

from tools.settings_page import PAGE, page


def test_the_page_of_settings_is_what_the_code_declares():
    assert Path(PAGE).read_text() == page(), "run: .venv/bin/python tools/settings_page.py"
