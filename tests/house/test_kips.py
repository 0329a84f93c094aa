"""docs/kips: every KIP that the code names has a page or a row, every page has the same parts, and
what a page names is there.
"""

import re
from typing import Any

from tools.pages import ROOT

FOLDER = ROOT / "docs" / "kips"
PAGES = sorted(FOLDER.glob("kip-*[0-9].md"))
INDEX = (FOLDER / "README.md").read_text()
PARTS = [
    "What it says",
    "What apportion does",
    "Where it lives",
    "How it was proved",
    "What is not done",
]
HOMES = (ROOT, ROOT / "src" / "apportion")


def numbers(text: str) -> Any:
    """Return the numbers of the KIPs that a text names."""
    return {int(number) for number in re.findall(r"\bKIP-(\d+)", text)}


def rows(title: Any) -> set[Any]:
    """Return the first cells of the table below that title of the index, as numbers."""
    table = INDEX.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
    return {int(number) for cell in cells for number in cell.split(", ")}


def test_every_kip_that_the_code_names_has_a_page_or_a_row() -> None:
    sources = (ROOT / "src").rglob("*.py")
    named = set().union(*(numbers(path.read_text()) for path in sources))
    paged = {int(page.stem.removeprefix("kip-")) for page in PAGES}
    documented = paged | rows("Obeyed without a page") | rows("Mentioned only")
    assert sorted(named - documented) == []
    assert len(named) > 20


def test_the_index_links_every_page_in_order() -> None:
    linked = re.findall(r"^\| \[(\d+)\]\(kip-\1\.md\) \|", INDEX, re.MULTILINE)
    assert linked == sorted((page.stem.removeprefix("kip-") for page in PAGES), key=int)


def test_every_page_has_the_five_parts_and_its_number() -> None:
    for page in PAGES:
        text = page.read_text()
        number = page.stem.removeprefix("kip-")
        assert re.match(rf"# KIP-{number}: .+\n", text), page.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS, page.name


def test_every_file_that_a_page_names_is_there() -> None:
    named = [
        (page.name, words)
        for page in [*PAGES, FOLDER / "README.md"]
        for words in re.findall(r"`([\w./-]+)`", page.read_text())
        if "/" in words and not words.startswith(("@", "."))
    ]
    assert [
        (page, words) for page, words in named if not any((home / words).exists() for home in HOMES)
    ] == []
