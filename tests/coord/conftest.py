"""Tests of the coordinator: `pytest --rewrite` writes what the scripts in `scripts/` really say."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="rewrite the expected lines of script tests"
    )
