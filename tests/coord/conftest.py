"""Tests of the coordinator: `pytest --rewrite` writes what the scripts in `scripts/` really say;
`coordworld` is importable.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # importlib mode puts no test folder on the path


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite", action="store_true", help="rewrite the expected lines of script tests"
    )
