"""Queries to a cluster: `scripts/queries/*.txt`, what each sends and what it reads in a response,
in the words of `query_words.py`; `pytest --rewrite` writes what stands behind `>`.

Steps:

- `query NAME`: one of `QUERIES`; the answer is its request
- `answer FIELDS`: the response; the answer is what the query reads in it
- `answer by name and by id FIELDS`: the same twice, with t by its name and by its id
- `answer for each FIELDS`: what it reads of each partition, errors too

BATCH is a batch of two records.
"""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from apportion.errors import Refused
from apportion.member.cluster_queries.acls import (
    CreateAclsQuery,
    DeleteAclsQuery,
    DescribeAclsQuery,
)
from apportion.member.cluster_queries.configs import (
    AlterConfigsQuery,
    DescribeConfigsQuery,
    DescribedSetting,
    SettingQuery,
)
from apportion.member.cluster_queries.group_changes import (
    DeleteGroupQuery,
    DeleteOffsetsQuery,
    RemoveConsumerMemberQuery,
    RemovedMember,
    RemoveMembersQuery,
)
from apportion.member.cluster_queries.groups import (
    ConsumerGroupDescribeQuery,
    DescribeGroupsQuery,
    FindCoordinatorQuery,
    ListedGroupQuery,
    ListGroupsQuery,
)
from apportion.member.cluster_queries.offsets import (
    AllOffsetsQuery,
    Membership,
    OffsetCommitQuery,
    OffsetFetchQuery,
)
from apportion.member.cluster_queries.records import FetchPosition, FetchQuery, ProduceQuery
from apportion.member.cluster_queries.scram_users import (
    DeletePasswordQuery,
    DescribeUsersQuery,
    SaltedPassword,
    SetPasswordQuery,
)
from apportion.member.cluster_queries.topic_changes import (
    CreatePartitionsQuery,
    CreateTopicsQuery,
    DeleteTopicsQuery,
    NewTopic,
)
from apportion.member.cluster_queries.topic_descriptions import (
    PartitionReplicas,
    TopicReplicas,
    TopicReplicasQuery,
)
from apportion.member.cluster_queries.topics import (
    ClusterMetadata,
    ListOffsetsQuery,
    MetadataQuery,
    TopicDescription,
    TopicWithLeaders,
)
from apportion.security.acls import AclFilter, PatternType, ResourceType
from apportion.security.scram_credentials import ScramMechanism
from apportion.topics import Topic, TopicIdPartition, TopicPartition, Topics
from apportion.wire.batch import encode_batch
from apportion.wire.messages.describe_configs import BROKER, GROUP, TOPIC
from apportion.wire.messages.list_offsets import LATEST
from tests.member.query_words import message, request_words, result_words
from tests.node.acl_requests import acl
from tests.scripted import check

SCRIPTS = sorted((Path(__file__).parent / "scripts" / "queries").glob("*.txt"))
assert SCRIPTS

P0, P1, P2 = (TopicIdPartition("t", b"i" * 16, number) for number in range(3))
A0 = TopicIdPartition("a", b"A" * 16, 0)
FILTER = AclFilter(ResourceType.TOPIC, "flights", PatternType.MATCH, "User:alice")
SHA_256, SHA_512 = ScramMechanism
PASSWORD = SaltedPassword(4096, b"a salt", b"a salted password")
BATCH = encode_batch([(None, b"a", ()), (None, b"b", ())], timestamp_ms=1)
START, NEWEST = FetchPosition(0), FetchPosition(9)
QUERIES: dict[str, Any] = {
    "commit of a member": OffsetCommitQuery("g", {P1: 7, P0: 5}, Membership("m", 3, "i"), "note"),
    "commit": OffsetCommitQuery("g", {P0: 1, P1: 1}),
    "commit of a topic": OffsetCommitQuery("g", {A0: 1}),
    "offsets of a member": OffsetFetchQuery("g", (P2, P0), Membership("m", 3)),
    "offsets that may be unstable": OffsetFetchQuery("g", (P0,), require_stable=False),
    "offsets": OffsetFetchQuery("g", (P0, P1)),
    "offsets of a topic": OffsetFetchQuery("g", (A0,)),
    "all offsets": AllOffsetsQuery("g"),
    "coordinator": FindCoordinatorQuery("g"),
    "consumer group": ConsumerGroupDescribeQuery("g"),
    "classic group": DescribeGroupsQuery("g"),
    "groups": ListGroupsQuery(),
    "listed group": ListedGroupQuery("g"),
    "group deletion": DeleteGroupQuery("g"),
    "offset deletion": DeleteOffsetsQuery("g", (TopicPartition("t", 1), TopicPartition("t", 0))),
    "removal of members": RemoveMembersQuery(
        "g", (RemovedMember("m"), RemovedMember("s-1", "s"), RemovedMember("gone")), "why"
    ),
    "removal of a KIP-848 member": RemoveConsumerMemberQuery("g", RemovedMember("m", "s")),
    "topics": MetadataQuery(("t", b"i" * 16)),
    "four topics": MetadataQuery(("absent", "leaderless", "t", "invalid")),
    "one topic": MetadataQuery(("t",)),
    "refused topics": MetadataQuery(("a", "b", "it's")),
    "topic of an id": MetadataQuery((b"\0" * 15 + b"\1",)),
    "all replicas": TopicReplicasQuery(None),
    "replicas": TopicReplicasQuery(("t", "nosuch")),
    "ends of logs": ListOffsetsQuery(LATEST, {P0: 3, P1: -1}),
    "ends": ListOffsetsQuery(LATEST, {P0: 3, P1: 3}),
    "end of a log": ListOffsetsQuery(LATEST, {A0: 0}),
    "produce": ProduceQuery({P0: b"a", P1: b"b"}, 500),
    "fetch": FetchQuery({P0: FetchPosition(5, 2), P1: START}, 300, 1_000),
    "fetch of one partition": FetchQuery({P0: START}, 0),
    "fetch of two partitions": FetchQuery({P0: START, P1: NEWEST}, 0),
    "fetch up to an end": FetchQuery({P0: START}, 0, end=0),
    "new topics": CreateTopicsQuery((NewTopic("t", 2), NewTopic("u", 1, 3, {"k": "v"})), 500),
    "new topic": CreateTopicsQuery((NewTopic("flights", 1),), 1_000),
    "more partitions": CreatePartitionsQuery("t", 3, 500),
    "topic deletion": DeleteTopicsQuery("t", 500),
    "broker setting": SettingQuery(BROKER, "3", "x.ms"),
    "topic settings": DescribeConfigsQuery(TOPIC, "t"),
    "group settings": DescribeConfigsQuery(GROUP, ""),
    "alteration": AlterConfigsQuery(GROUP, "g", {"w.ms": "1", "x.ms": None}, validate_only=True),
    "empty alteration": AlterConfigsQuery(GROUP, "g", {}),
    "broker alteration": AlterConfigsQuery(BROKER, "1", {"a": "b"}),
    "acls": DescribeAclsQuery(FILTER),
    "new acls": CreateAclsQuery((acl(), acl("b"), acl("c"))),
    "acl deletion": DeleteAclsQuery((FILTER, AclFilter())),
    "all users": DescribeUsersQuery(),
    "users": DescribeUsersQuery(("bob", "alice", "carol")),
    "password": SetPasswordQuery("alice", SHA_512, PASSWORD),
    "password deletion": DeletePasswordQuery("alice", SHA_256),
}


class QueryPlayer:
    """One script being played."""

    query: Any

    def play(self, line: str) -> list[str]:
        """What the query sends, or reads."""
        step, _, rest = line.partition(" ")
        if step == "query":
            self.query = QUERIES[rest]
            return [request_words(self.query)]
        assert step == "answer"
        if rest.startswith("by name and by id "):
            by_name = rest.removeprefix("by name and by id ")
            by_id = re.sub(r"\b(name|topic)=t\b", "topic_id=i", by_name)
            assert by_id != by_name
            read = self.read(by_name), self.read(by_id)
            return [*dict.fromkeys(read)]
        return [self.read(rest)]

    def read(self, text: str) -> str:
        """What the query reads in the response."""
        request = type(self.query.request())
        response = request.__name__.removesuffix("Request") + "Response"
        fields = text.removeprefix("for each ").replace("BATCH", f"0x{BATCH.hex()}")
        told = message(getattr(sys.modules[request.__module__], response), fields)
        read = self.query.results if text.startswith("for each ") else self.query.parse
        try:
            result = result_words(read(told))
        except Refused as refused:
            result = result_words(refused)
        return result.replace(f"0x{BATCH.hex()}", "BATCH")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_query_sends_and_reads_what_is_told(script: Path, request: pytest.FixtureRequest) -> None:
    check(script, QueryPlayer().play, request)


def test_every_query_is_in_a_script() -> None:
    steps = {line for script in SCRIPTS for line in script.read_text().splitlines()}
    assert [name for name in QUERIES if f"query {name}" not in steps] == []


def test_a_password_stands_in_no_text() -> None:
    text = f"{QUERIES['password']} {PASSWORD}"
    assert "salt" not in text.replace("SaltedPassword", "")


def test_metadata_replicas_and_settings_have_sums_of_their_own() -> None:
    described = TopicDescription("t", b"i" * 16, 2)
    metadata = ClusterMetadata({}, (TopicWithLeaders(described, {}),))
    assert metadata.topics == Topics([Topic("t", b"i" * 16, 2)])
    assert metadata.descriptions == (described,)
    replicas = PartitionReplicas(0, 1, (1, 2), (1,)), PartitionReplicas(1, None, (2,), ())
    assert TopicReplicas("t", b"i" * 16, False, replicas).replication_factor == 2
    assert [DescribedSetting("1", source, None).is_own for source in (1, 4, 5)] == [
        True,
        False,
        False,
    ]
