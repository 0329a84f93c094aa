"""The class `Weighted` of docs/assignors.md, as it stands there."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "assignors.md"


def weighted() -> Any:
    """The class."""
    chapter = PAGE.read_text().partition("## An assignor of your own")[2].partition("\n## ")[0]
    programs = re.findall(r"^```python\n(.*?)^```", chapter, re.MULTILINE | re.DOTALL)
    (program,) = (each for each in programs if "class Weighted" in each)
    names: dict[str, object] = {}
    exec(program, names)
    return names["Weighted"]
