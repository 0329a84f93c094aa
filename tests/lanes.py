"""The lanes: which tests everybody runs, and which are drawn.

A test whose node id begins with a row of LANES is slow: it starts a foreign client, a real Kafka,
another Spark, or tells a long story. Every other test belongs to `make test`. `.ci/run` plays all
of `make test`, the lanes of one third, and the lanes that a change touches (`tests/touched.py`);
the third follows from the hash of the commit, so three commits of different draws have run
everything. `make all` plays every lane.

`pytest --lane=A,B` keeps the tests of these lanes alone, records their durations, and leaves out
what `tests/quarantine.toml` names. Without `--lane` pytest runs whatever it is given.
"""

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
QUARANTINE = ROOT / "tests" / "quarantine.toml"
TEST = "test"
"""The name of the lane of everybody."""
CHECK = "check"
"""The name of what `make check` runs: the laws of the house, and its documents."""
CHECKED = ("tests/test_tidy.py", "tests/house/")
QUICK = "quick"
"""The name of the part of TEST that starts no process: a contributor's inner loop."""
QUICK_HOMES = (
    *("assign", "columns", "coord", "drive", "member", "node", "security", "store", "streams"),
    "wire",
)
_BATCHES = "tests/node/test_batch_validation.py"
NOT_QUICK = (
    "tests/coord/test_intervals.py::test_peers_that_fill_the_calendar",
    "tests/coord/test_intervals.py::test_thousands_of_groups",
    "tests/coord/test_large_installs.py::test_every_law",
    "tests/node/test_many_names.py::test_a_request_of_many_names",
    f"{_BATCHES}::test_a_request_has_no_more_looked_into_than_one_batch_may_hold",
    "tests/wire/test_oracles.py",
)
"""Tests of those rooms that take seconds each, because they need thousands of things, or start a
process.
"""
THIRDS = 3


class Lane(NamedTuple):
    """One slow lane.

    third: the draw that has it. tests: beginnings of node ids; the longest of all lanes decides.
    proves: the paths below src/apportion that it is the proof of, besides what its tests import; a
    change there touches it. plays: other paths, from the root, that its tests run or read.
    searches: beginnings of the names of rows of tools/long.py, played from the commit's seed; the
    longest of all lanes decides.
    """

    name: str
    third: int
    sentence: str
    tests: tuple[str, ...] = ()
    proves: tuple[str, ...] = ()
    plays: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()


LANES = (
    Lane(
        "clients",
        0,
        "clients that others wrote, on our broker",
        ("tests/compat/",),
        ("adapters/", "coord/", "node/", "server/", "wire/"),
    ),
    Lane(
        "java-clients",
        1,
        "Kafka's own consumers and tools on our broker, and mixed with ours",
        tuple(f"tests/compat/test_{name}.py" for name in ("java_clients", "java_tools")),
        ("coord/", "node/", "wire/"),
    ),
    Lane(
        "java-migration",
        2,
        "groups of Java's clients that migrate between the protocols, on our broker",
        tuple(f"tests/compat/test_{name}.py" for name in ("java_migration", "mixed_groups")),
        ("coord/", "wire/"),
    ),
    Lane(
        "streams",
        0,
        "Kafka Streams on our broker, and our Streams members beside it",
        (
            "tests/compat/test_kafka_streams",
            "tests/compat/test_streams",
            "tests/kafka/test_streams",
        ),
        ("streams/", "member/streams/", "coord/classic/"),
    ),
    Lane(
        "secured-clients",
        1,
        "TLS and SASL with clients that others wrote, and with a real Kafka",
        (
            "tests/compat/test_secured_clients.py",
            "tests/kafka/test_sasl",
            "tests/kafka/test_scram",
            "tests/kafka/test_secured_clients.py",
        ),
        ("security/", "server/", "client/"),
    ),
    Lane(
        "acls",
        2,
        "ACLs as a real Kafka decides them",
        (
            "tests/kafka/test_acl",
            "tests/kafka/test_authorization",
        ),
        ("node/authorization/", "security/", "cli/acls/"),
    ),
    Lane(
        "kills",
        2,
        "SIGKILL of the broker under load",
        ("tests/compat/test_kill.py",),
        ("store/", "server/"),
    ),
    Lane(
        "pythons",
        2,
        "the rooms without Spark on every Python that is found",
        ("tests/compat/test_pythons.py",),
        (
            *("assign/", "client/", "coord/", "drive/", "member/", "node/", "security/"),
            *("server/", "store/", "streams/", "wire/"),
        ),
        ("pyproject.toml", "requirements-pythons.lock"),
    ),
    Lane(
        "spark-releases",
        2,
        "the Spark source on Spark 4.0, 4.1 and 4.2",
        ("tests/compat/test_spark_versions.py",),
        ("spark/",),
    ),
    Lane(
        "differential",
        1,
        "the same scripts on our broker and on a real Kafka",
        ("tests/kafka/test_differential",),
        ("coord/", "wire/"),
    ),
    Lane(
        "kafka",
        0,
        "our members, clients and commands on a real Kafka, and both brokers side by side",
        ("tests/kafka/",),
        ("assign/", "cli/", "client/", "columns/", "coord/", "drive/", "member/", "node/"),
        ("tests/client/",),
    ),
    Lane(
        "spark-on-kafka",
        1,
        "the Spark source and writer on a real Kafka",
        tuple(
            f"tests/kafka/test_{name}.py"
            for name in (
                "beside_format_kafka",
                "connect_on_kafka",
                "lost_offsets_on_kafka",
                "observed_on_kafka",
                "one_sink_on_kafka",
                "queries_on_kafka",
                "reads_on_kafka",
                "secured_spark",
                "spark_on_kafka",
                "topic_writer_on_kafka",
            )
        ),
        ("spark/", "member/batch/"),
    ),
    Lane(
        "takeovers",
        1,
        "long stories of Spark applications that are killed, frozen, cut off and short of disk",
        (
            "tests/spark/test_application_stories.py",
            "tests/spark/test_full_disk.py",
            "tests/spark/test_outage.py",
            "tests/spark/test_takeover_stories.py",
        ),
        ("spark/", "member/batch/"),
    ),
    Lane(
        "spark-clusters",
        2,
        "Spark clusters, spark-submit, and the demonstration on a cluster",
        (
            "tests/spark/test_standalone.py",
            "tests/spark/test_cluster.py",
            "tests/spark/test_cluster_page.py",
            "tests/spark/test_ending_applications.py",
            "tests/demo/test_cluster_stage.py",
        ),
        ("spark/",),
        ("demo/",),
    ),
    Lane(
        "spark-connect",
        0,
        "queries through Spark Connect, and secured ones",
        (
            "tests/spark/test_connect_stories.py",
            "tests/spark/test_secured.py",
            "tests/spark/test_secured_writer.py",
        ),
        ("spark/",),
    ),
    Lane(
        "pages",
        1,
        "the examples and tutorials of README and docs, run as they stand there",
        (
            "tests/spark/test_examples.py",
            "tests/spark/test_tutorial.py",
            "tests/spark/test_readme.py",
            "tests/house/test_examples.py",
            "tests/house/test_tutorials.py",
        ),
        plays=("README.md", "docs/"),
    ),
    Lane(
        "house",
        0,
        "wheel, sdist, typing, and the tools of this repository",
        (
            "tests/typing/",
            "tests/house/test_long.py",
            "tests/house/test_mutants.py",
            "tests/house/test_package.py",
        ),
        (
            *("__init__.py", "deadlines.py", "exports.py", "lazy_imports.py", "locations.py"),
            *("py.typed", "readable.py", "testing/"),
        ),
        (".ci/", "Makefile", "tools/"),
    ),
    Lane(
        "simulator",
        0,
        "seeds that nobody has played",
        proves=("assign/", "coord/", "member/", "sim/", "streams/"),
        searches=("sim-consumer", "sim-classic"),
    ),
    Lane(
        "simulator-worlds",
        1,
        "seeds of worlds with rare faults, assignors and Streams applications",
        proves=("assign/", "coord/", "member/", "sim/", "streams/"),
        searches=("sim-", "cleaning", "matrix", "rehearsals", "upgrades"),
    ),
    Lane(
        "simulator-mixed",
        2,
        "seeds of groups that migrate between the protocols",
        proves=("coord/", "member/", "sim/"),
        searches=("sim-mixed",),
    ),
    Lane(
        "properties",
        2,
        "fresh examples of properties, and histories that miss a guard",
        searches=("properties",),
    ),
)
BY_NAME = {lane.name: lane for lane in LANES}
ONLY_SEARCHES = [lane.name for lane in LANES if not lane.tests]
EVERY = [CHECK, QUICK, TEST, *(lane.name for lane in LANES if lane.tests)]
"""What `--lane` takes."""
_PREFIXES = dict.fromkeys(CHECKED, CHECK) | {
    prefix: lane.name for lane in LANES for prefix in lane.tests
}
_SEARCHES = {prefix: lane.name for lane in LANES for prefix in lane.searches}


def lane_of(nodeid: str) -> str:
    """Return the name of the lane that this test belongs to."""
    return _PREFIXES.get(_longest_start(nodeid, _PREFIXES), TEST)


def lane_of_search(name: str) -> str:
    """Return the name of the lane that plays a search of tools/long.py; "" if none does."""
    return _SEARCHES.get(_longest_start(name, _SEARCHES), "")


def _longest_start(name: str, starts: Iterable[str]) -> str:
    return max((each for each in starts if name.startswith(each)), key=len, default="")


def is_quick(nodeid: str) -> bool:
    """Return whether `make quick` runs this test, or tests of this file."""
    _, home, *within = nodeid.partition("::")[0].split("/")
    is_home = home in QUICK_HOMES or not within
    return is_home and lane_of(nodeid) == TEST and not nodeid.startswith(NOT_QUICK)


def may_hold(file: str, lanes: Iterable[str]) -> bool:
    """Return whether a test of this file may belong to one of these lanes."""
    within = {lane for prefix, lane in _PREFIXES.items() if prefix.startswith(file)}
    quick = {QUICK} if is_quick(file) else set()
    return not ({lane_of(file), *within, *quick}).isdisjoint(lanes)


@cache
def quarantined() -> dict[str, str]:
    """Return node id -> why: the tests that failed once and whose cause is not found yet."""
    rows = tomllib.loads(QUARANTINE.read_text()).get("test", [])
    return {row["test"]: f"{row['since']}: {row['seen']}" for row in rows}


def third_of(commit: str) -> int:
    """Return the third of the lanes that this commit draws; commit: its hash."""
    return int(commit[:8], 16) % THIRDS


def seed_of(commit: str) -> int:
    """Return the seed of all searches that are played for this commit."""
    return int(commit[:12], 16) % 10**9


def drawn(third: int) -> list[str]:
    """Return the names of the lanes of a third."""
    return [lane.name for lane in LANES if lane.third == third]


def add_option(parser: pytest.Parser) -> None:
    """Declare `--lane`."""
    parser.addoption(
        "--lane",
        metavar="NAME,...",
        help=f"only the tests of these lanes, and keep their durations: {', '.join(EVERY)}",
    )


def chosen(config: Any) -> list[str]:
    """Return the lanes of `--lane`; an empty list where it was not given.

    Raises UsageError for a name that no lane of tests has.
    """
    given: str | None = config.getoption("--lane")
    names = [] if given is None else [name.strip() for name in given.split(",")]
    if unknown := [name for name in names if name not in EVERY]:
        named = ", ".join(map(repr, unknown))
        raise pytest.UsageError(
            f"--lane: there is no lane {named} of tests; there are {', '.join(EVERY)} (the lanes "
            f"{', '.join(ONLY_SEARCHES)} are searches: make long ARGS=--sample plays them)"
        )
    return names


def check_paths(config: pytest.Config) -> None:
    """Raise UsageError for a path on the command line where nothing is, which xdist says nothing
    of.
    """
    for path in (argument.partition("::")[0] for argument in config.args):
        if not (config.invocation_params.dir / path).exists():
            raise pytest.UsageError(f"{path}: there is no such file or directory of tests")


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the chosen lanes that are not in quarantine."""
    names = chosen(config)
    if not names:
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        is_named = lane_of(item.nodeid) in names or (QUICK in names and is_quick(item.nodeid))
        is_kept = is_named and item.nodeid not in quarantined()
        (kept if is_kept else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)
