"""Hooks of mkdocs: the pages of the site that are not in docs/, and links as they must be there.

Pages at the root of the repository (ARCHITECTURE.md and its like) appear on the site under their
own names. A link to a file that is no page, such as a module, becomes its path in plain text,
because the site has no copy of the sources.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from tools import reference

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
"""Pages at the root of the repository that are pages of the site. README.md is not: docs/index.md
stands in its place.
"""

CODE_OR_LINK = re.compile(
    r"```.*?```|`[^`\n]*`(?!\])|\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)",
    re.DOTALL,
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every decision, every KIP and every public module into the navigation."""
    decisions = sorted(page.name for page in (ROOT / "docs" / "decisions").glob("0*.md"))
    kips = sorted(
        (page.name for page in (ROOT / "docs" / "kips").glob("kip-*[0-9].md")),
        key=lambda name: int(name.removeprefix("kip-").removesuffix(".md")),
    )
    many: dict[str, list[str | dict[str, str]]] = {
        "Decisions": [f"decisions/{name}" for name in ["README.md", *decisions]],
        "KIPs": [f"kips/{name}" for name in ["README.md", *kips]],
        "API": [{name: f"reference/api/{name}.md"} for name in reference.modules()],
    }
    for section in config.nav or []:
        for title, entries in section.items():
            if isinstance(entries, list):
                section[title] = [
                    {entry: many[entry]} if isinstance(entry, str) and entry in many else entry
                    for entry in entries
                ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for name in ROOT_PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name, text in reference.pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(
    markdown: str,
    page: Page,
    config: MkDocsConfig,  # noqa: ARG001 (MkDocs passes it by name)
    files: Files,
) -> str:
    """Return the page with each link to a file of the repository as the site needs it."""
    here = Path(page.file.src_uri)
    source = here if page.file.src_uri in ROOT_PAGES else Path("docs") / here

    def rewritten(match: re.Match[str]) -> str:
        target = match["target"]
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        path = os.path.normpath(source.parent / target)
        uri = site_uri_or_none(path, files)
        if uri is None:
            return match["text"]
        return f"[{match['text']}]({os.path.relpath(uri, here.parent)}{match['anchor'] or ''})"

    return CODE_OR_LINK.sub(rewritten, markdown)


def site_uri_or_none(path: str, files: Files) -> str | None:
    """Return where the site has a file of the repository; None where it has not."""
    if path == "README.md":
        return "index.md"
    names = [path] if path in ROOT_PAGES else []
    if path.startswith("docs/"):
        name = path.removeprefix("docs/")
        names = [name, f"{name}/README.md"]
    return next((name for name in names if files.get_file_from_path(name) is not None), None)
