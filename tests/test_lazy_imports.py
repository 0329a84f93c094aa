"""Lazy imports: what they import and when."""

import sys
from pathlib import Path

import pytest

from apportion.lazy_imports import import_lazy_modules, lazy_module


@pytest.fixture(autouse=True)
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a module `late` that nobody has imported."""
    (tmp_path / "late.py").write_text("WORDS = ['late']\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "late", raising=False)
    monkeypatch.setattr("apportion.lazy_imports._NAMES", {})


def test_a_lazy_module_is_imported_when_a_name_is_read() -> None:
    module = lazy_module("late")
    assert "late" not in sys.modules
    assert module.WORDS == ["late"]
    assert module.WORDS is sys.modules["late"].WORDS


def test_a_name_that_a_lazy_module_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'late' has no attribute 'NUMBERS'"):
        lazy_module("late").NUMBERS  # noqa: B018


def test_an_import_that_fails_is_tried_again_by_the_next_reading(tmp_path: Path) -> None:
    module = lazy_module("later_still")
    with pytest.raises(ModuleNotFoundError, match="later_still"):
        module.WORDS  # noqa: B018
    (tmp_path / "later_still.py").write_text("WORDS = 1\n")
    sys.path_importer_cache.clear()
    assert module.WORDS == 1
    del sys.modules["later_still"]


def test_all_lazy_modules_can_be_imported_beforehand() -> None:
    lazy_module("late")
    import_lazy_modules()
    assert "late" in sys.modules
