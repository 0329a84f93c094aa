"""The messages of docs/spark-errors.md, compared with what is said."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "spark-errors.md"
ROW = re.compile(
    r"^\| (?P<wrong>[^|]+) \| (?P<where>[^|]+) \| `+ ?(?P<message>[^|]+?) ?`+ \|$", re.M
)
PLACE = re.compile(r"<[a-z ]+>")
"""Something in a message that differs from case to case."""


def messages() -> dict[str, str]:
    """By what is wrong, the message that the page has for it."""
    return {row["wrong"]: row["message"] for row in ROW.finditer(PAGE.read_text())}


def assert_on_page(wrong: str, said: object) -> None:
    """Fail unless the page's message for what is wrong is a part of what is said."""
    words = PLACE.split(messages()[wrong].removesuffix(" ..."))
    pattern = ".+?".join(map(re.escape, words))
    assert re.search(pattern, str(said)), f"{PAGE.name}: {wrong}: {said}"
