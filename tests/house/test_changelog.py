"""The fragments of changelog.d: each has a category, and says in the imperative what users
notice.
"""

import re
import tomllib

from tools.pages import ROOT

FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").glob("*") if path.name != "README.md")
CATEGORIES = {
    row["directory"]
    for row in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
}


def test_every_fragment_has_a_slug_and_a_category() -> None:
    form = re.compile(rf"[a-z0-9-]+\.({'|'.join(sorted(CATEGORIES))})\.md")
    assert [path.name for path in FRAGMENTS if not form.fullmatch(path.name)] == []


def test_no_fragment_begins_with_a_noun_or_a_heading() -> None:
    wrong = re.compile(r"(?:Added|Changed|Fixed|Removed|A|An|The|It|`)\b|`")
    assert [path.name for path in FRAGMENTS if wrong.match(path.read_text())] == []


def test_the_page_of_the_fragments_names_every_category() -> None:
    documented = re.findall(
        r"^\| `(\w+)` \|", (ROOT / "changelog.d" / "README.md").read_text(), re.MULTILINE
    )
    assert set(documented) == CATEGORIES
