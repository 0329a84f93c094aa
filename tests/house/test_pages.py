"""The pages: what they point at is there, and no page of docs/ is left that nobody points at."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def pages() -> list[Path]:
    """Every page that git tracks or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "README.md" in names
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def targets(page: Path) -> list[Path]:
    """The files and directories that a page links to, but for other sites."""
    links = LINK.findall(CODE.sub("", page.read_text()))
    return [(page.parent / target).resolve() for target in links if "://" not in target]


def test_every_link_leads_somewhere() -> None:
    assert [
        (page.name, target.name)
        for page in pages()
        for target in targets(page)
        if not target.exists()
    ] == []


def test_every_page_of_the_docs_is_linked() -> None:
    linked = {target for page in pages() for target in targets(page)}
    assert [page.name for page in sorted((ROOT / "docs").glob("*.md")) if page not in linked] == []


def test_the_index_of_decisions_lists_every_decision_by_its_title() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(
        r"^- \[(\d+\. [^\]]*)\]\(([^)]*)\)$", (folder / "README.md").read_text(), re.MULTILINE
    )
    titles = {
        page.name: page.read_text().splitlines()[0].removeprefix("# ")
        for page in folder.glob("0*.md")
    }
    assert {name: title for title, name in listed} == titles


def named_on_living_pages(pattern: str) -> list[tuple[str, str]]:
    """The names on pages that speak of the code as it is, each with its page. Decisions and the
    changelog speak of their time.
    """
    past = {"decisions", "changelog.d", "rooms.md"}
    return [
        (page.name, name)
        for page in pages()
        if not past & set(page.parts)
        for name in re.findall(pattern, page.read_text())
    ]


def test_every_module_and_every_script_that_a_page_names_is_there() -> None:
    roots = (ROOT, ROOT / "src" / "apportion", ROOT / "tests", ROOT / "tests" / "kafka")
    named = named_on_living_pages(r"`([a-z_]+/[a-z_/0-9-]+\.(?:py|txt))\b")
    assert [
        (page, name) for page, name in named if not any((root / name).exists() for root in roots)
    ] == []


def test_every_test_that_a_page_names_is_there() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    tests = {*re.findall(r"^def (test_\w+)\(", code, re.MULTILINE)}
    named = named_on_living_pages(r"`(test_\w+)`")
    assert len(named) > 100
    assert [(page, name) for page, name in named if name not in tests] == []


def test_every_commit_that_contributors_shall_read_has_that_subject(
    lane_missing: Callable[[str], None],
) -> None:
    cited = re.findall(
        r"`([0-9a-f]{7})`\s+\(([^)]+)\)", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL
    )
    assert len(cited) == 4
    if (ROOT / ".git" / "shallow").exists():
        lane_missing("a shallow clone has no history to compare with")
    command = ["git", "log", "--no-walk", "--format=%h %s", "--abbrev=7"]
    log = subprocess.run(
        [*command, *(commit for commit, _ in cited)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert sorted(log) == sorted(f"{commit} {' '.join(words.split())}" for commit, words in cited)
