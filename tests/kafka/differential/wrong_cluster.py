"""Wrong requests about the cluster: topic metadata, coordinators, configs, producer ids; and
ApiVersions of clients that call themselves, and their software's version, by every kind of name.
"""

from collections.abc import Iterator
from typing import Any

from tests.kafka.differential.wrong import GOOD, NO_TOPIC, STRANGE_ID, ZERO_ID, Case, asking
from tests.messages import request

WORDS = (
    *("", "a", "1", "a b", " a", "a ", "-x", "x-", "x.y", "x-y", "x--y", "x_y", "_x", ".x", "x."),
    *("ü", "aüb", "a/b", "a+b", "a\n", "A-Z.9"),
)
LONG = "a" * 300


def hellos() -> Iterator[Case]:
    """ApiVersions; up to version 2 it says nothing. Each version ends with one that is right, on
    the same connection: it lives on.
    """

    def hello(name: str, number: str) -> Any:
        facts = {"client_software_name": name, "client_software_version": number}
        return asking("ApiVersions", **facts)

    for version in (0, 2, 3, 4):
        for word in (*WORDS, LONG, LONG + "-"):
            for name, number in ((word, "1.0"), ("test", word), (word, word)):
                yield Case(f"hello of {name[:9]!r} {number[:9]!r}", version, hello(name, number))
        yield Case("hello as it should be", version, hello("test", "1.0"))


def topic_metadata() -> Iterator[Case]:
    """Metadata, by names and by ids."""

    def metadata(*names: str | None, topic_id: bytes = ZERO_ID, create: bool = False) -> Any:
        topics = [{"name": name, "topic_id": topic_id} for name in names]
        return asking("Metadata", topics=topics, allow_auto_topic_creation=create)

    for version in (4, 8, 9, 12, 13):
        yield Case("metadata of an unknown topic", version, metadata(NO_TOPIC))
        yield Case("metadata of bad names", version, metadata("bad name", "", "..", "x" * 250))
        yield Case("metadata of good and bad", version, metadata(GOOD, NO_TOPIC))
        yield Case("metadata of a topic", version, metadata(GOOD))
    for version in (8, 10, 13):
        operations = {"include_cluster_authorized_operations": True} if version < 11 else {}
        asked = asking(
            "Metadata",
            topics=[{"name": name} for name in (GOOD, NO_TOPIC)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            **operations,
        )
        yield Case("metadata with operations", version, asked)
    yield Case("metadata of a topic to be made", 12, metadata("made-by-asking", create=True))
    yield Case("metadata of a bad name to be made", 12, metadata("bad name", create=True))
    for version in (12, 13):
        yield Case("metadata of an unknown id", version, metadata(None, topic_id=STRANGE_ID))
        yield Case(
            "metadata of a topic by its id",
            version,
            lambda good: request("Metadata", topics=[{"name": None, "topic_id": good}]),
        )
        yield Case("metadata of an id and a name", version, metadata(GOOD, topic_id=STRANGE_ID))
    yield Case("metadata of nothing", 12, metadata())


def others() -> Iterator[Case]:
    """FindCoordinator of every type of key, DescribeCluster, DescribeConfigs of resources that do
    not exist, and InitProducerId with transactional ids that Kafka refuses.
    """
    for key_type in (0, 2, 3, 77):
        for version in (3, 4, 6):
            keys: dict[str, Any] = {"key": "k"} if version < 4 else {"coordinator_keys": ("k", "")}
            asked = asking("FindCoordinator", key_type=key_type, **keys)
            yield Case(f"coordinator of type {key_type}", version, asked)
    asked = asking("FindCoordinator", key_type=1, coordinator_keys=("k",))
    yield Case("coordinator of a transaction", 6, asked)
    for endpoint in (1, 2, 3):
        asked = asking("DescribeCluster", endpoint_type=endpoint)
        yield Case(f"cluster by endpoint {endpoint}", 2, asked)
    asked = asking("DescribeCluster", include_cluster_authorized_operations=True)
    yield Case("cluster with operations", 2, asked)
    for kind, name in (
        *((2, name) for name in (NO_TOPIC, "bad name", "")),
        *((4, "99"), (4, "x"), (77, "x"), (0, "x")),
    ):
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        asked = asking("DescribeConfigs", resources=[resource])
        yield Case(f"configs of {kind} {name!r}", 4, asked)
    for name, txn in (("nobody", ""), ("a transaction", "t")):
        asked = asking("InitProducerId", transactional_id=txn, transaction_timeout_ms=1_000)
        yield Case(f"producer id for {name}", 5, asked)


VERSION_CASES = [*hellos()]
CLUSTER_CASES = [*topic_metadata(), *others()]
