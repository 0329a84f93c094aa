"""The file of the results of all runs: each row as the last run has it that had a figure."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.rows import ROWS


class UnreadableResults(RuntimeError):
    """The file holds no results; the text says which file, and what to do."""


def read_results(path: Path) -> list[dict[str, Any]]:
    """Return the results of earlier runs, none if there is no file. Raises UnreadableResults."""
    if not path.exists():
        return []
    try:
        results = json.loads(path.read_text())
        return [dict(each) for each in results if each["name"]]
    except (ValueError, TypeError, KeyError) as error:
        why = f"{path} is not what bench-peers has written ({error}): remove it"
        raise UnreadableResults(why) from None


def write_results(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Put the results into the place of the file at once: whoever is killed leaves the older."""
    path.parent.mkdir(exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(results, indent=1) + "\n")
    os.replace(draft, path)


def merged(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the results of earlier runs with those measured again replaced, in the order of ROWS.

    A result without a figure replaces none that has one.
    """
    by_name = {result["name"]: result for result in before}
    for result in now:
        if result["ours"] is not None or by_name.get(result["name"], result)["ours"] is None:
            by_name[result["name"]] = result
    return [by_name[row.name] for row in ROWS if row.name in by_name]
