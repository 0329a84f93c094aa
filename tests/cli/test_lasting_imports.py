"""Imports that the garbage collector leaves alone."""

import gc

import pytest

from apportion.cli.lasting_imports import lasting_imports


def test_collections_leave_out_what_was_imported() -> None:
    before = gc.get_freeze_count()
    with lasting_imports():
        assert not gc.isenabled()
        lasting: list[list[int]] = [[] for _ in range(1_000)]
    try:
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(lasting)
    finally:
        gc.unfreeze()


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError), lasting_imports():
        raise ImportError
    assert gc.isenabled()
