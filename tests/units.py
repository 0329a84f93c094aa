"""How a run is shared out to several workers (`pytest -n 3`): in units, of which the longest begin
first.

A unit is what one worker runs together, in order: a file, unless a row below says otherwise. So
what a module's tests share (a broker, a Spark session) is made once. Tests that wait long and share
little are units of their own.
"""

from typing import Any

import pytest

FIRST = (
    "tests/demo/test_play.py",
    "tests/demo/test_cluster_stage.py",
    "tests/spark/test_standalone.py",
    "tests/spark/test_outage.py",
    "tests/spark/test_takeover.py",
    "tests/spark/",
    "tests/client/",
    "tests/sim/",
    "tests/cli/",
    "tests/adapters/",
    "tests/server/",
    "tests/house/test_mutants.py",
    "tests/wire/test_codec.py",
    "tests/wire/test_oracles.py",
    # of make test-compat
    "tests/kafka/test_differential_classic.py",
    "tests/kafka/test_spark_on_kafka.py",
    "tests/kafka/test_retention_on_kafka.py",
    "tests/compat/test_spark_versions.py",
    "tests/compat/test_kafka_streams.py",
    "tests/compat/test_kafka_streams_mixed.py",
    "tests/compat/test_java_clients.py",
    "tests/compat/test_java_migration.py",
    "tests/kafka/test_differential.py",
    "tests/compat/test_mixed_groups.py",
    "tests/kafka/test_connect_on_kafka.py",
    "tests/compat/test_kill.py",
    "tests/compat/test_clients.py",
    "tests/compat/",
)
"""Beginnings of node ids, what takes longest first; everything else follows in its order."""

APART = (
    "tests/spark/test_takeover.py",
    "tests/spark/test_outage.py",
    "tests/compat/test_clients.py",
    "tests/compat/test_spark_versions.py",
)
"""Files whose tests are units of their own."""

TOGETHER = {
    "tests/spark/test_query.py": "a Spark session",
    "tests/spark/test_one_sink.py": "a Spark session",
    "tests/spark/test_seeds.py": "a Spark session",
    "tests/spark/test_rehearsals.py": "a Spark session",
    "tests/kafka/test_differential.py": "the group without a name",
    "tests/kafka/test_differential_classic.py": "the group without a name",
    "tests/kafka/test_wrong_requests.py": "the group without a name",
    "tests/kafka/test_acl_rules_on_both.py": "all ACLs of a Kafka",
    "tests/kafka/test_acls_on_both.py": "all ACLs of a Kafka",
    "tests/kafka/test_acls_command_on_both.py": "all ACLs of a Kafka",
    "tests/kafka/test_authorization_on_both.py": "all ACLs of a Kafka",
}
"""Files that are one unit, by its name: what one worker at a time may use. PySpark starts one JVM
in a process; tests that use the group without a name, or delete all ACLs, share a Kafka.
"""


def unit_of(nodeid: str) -> str:
    """Return the name of the unit that this test belongs to."""
    file = nodeid.partition("::")[0]
    if file in APART:
        return nodeid
    return TOGETHER.get(file, file)


def rank(nodeid: str) -> int:
    """Return where this test stands among those of FIRST."""
    return next(
        (index for index, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST)
    )


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler of pytest-xdist that gives each worker a unit when it has done its last
    one.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByUnits(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False  # the order of the collection stands
    return ByUnits(config, log)
