"""Scripts of a real shard, member or node: its answers stand behind `>`, and `pytest --rewrite`
writes it anew.

A step may have its response on its own line, `A beats  > epoch 2`: so checks read as a table. A
file of cases holds many short scripts, each behind its title, `= a sentence`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

TITLE = "= "


def retold(text: str, play: Callable[..., list[str]]) -> str:
    """The script with what `play(step)` really says, line for line; a line with "#" is a remark."""
    lines = []
    for line in text.splitlines():
        if line.startswith((">", TITLE)):
            lines += [line] if line.startswith(TITLE) else []
            continue
        told, is_beside, _ = line.partition(" >")
        step = told.partition("#")[0].strip()
        if is_beside:
            name = step.split()[0]
            answers = [answer.removeprefix(f"{name}: ") for answer in play(step)]
            lines.append(f"{told} > {'; '.join(answers)}".rstrip())
        else:
            lines.append(line)
            lines += [f"> {answer}" for answer in play(step)] if step else []
    return "\n".join(lines) + "\n"


def cases_of(script: Path) -> list[str]:
    """The titles in a file of cases."""
    lines = script.read_text().splitlines()
    titles = [line.removeprefix(TITLE) for line in lines if line.startswith(TITLE)]
    assert len(titles) == len(set(titles)) > 0, f"a title twice, or none, in {script}"
    return titles


def check(
    script: Path, play: Callable[..., list[str]], request: pytest.FixtureRequest, title: str = ""
) -> None:
    """The script, or the case of that title in it, is what was told, or with --rewrite becomes
    it.
    """
    text = script.read_text()
    begin = text.index(f"{TITLE}{title}\n") if title else 0
    end = text.find(f"\n{TITLE}", begin)
    end = len(text) if not title or end < 0 else end + 1
    written = text[begin:end]
    real = retold(written, play)
    if request.config.getoption("--rewrite"):
        script.write_text(text[:begin] + real + text[end:])
    else:
        assert real == written
