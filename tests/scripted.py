"""Scripts of a real shard or member: its answers stand behind `>`, and `pytest --rewrite`
writes it anew.
"""

from collections.abc import Callable
from pathlib import Path

import pytest


def retold(text: str, play: Callable[..., list[str]]) -> str:
    """The script with what `play(step)` really says, line for line; a line with "#" is a remark."""
    lines = []
    for line in text.splitlines():
        if line.startswith(">"):
            continue
        lines.append(line)
        step = line.partition("#")[0].strip()
        if step:
            lines += [f"> {answer}" for answer in play(step)]
    return "\n".join(lines) + "\n"


def check(script: Path, play: Callable[..., list[str]], request: pytest.FixtureRequest) -> None:
    """The script is what was told, or with --rewrite becomes it."""
    written = script.read_text()
    real = retold(written, play)
    if request.config.getoption("--rewrite"):
        script.write_text(real)
    else:
        assert real == written
