"""SCRAM users of our broker and of a real Kafka: the same codes, and the same from their tools."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from apportion.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tests.kafka.conftest import until
from tests.node.scram_requests import (
    DESCRIBED_AS_KAFKA,
    SAME_AS_KAFKA,
    altering,
    codes,
    deletion,
    described,
    describing,
    upsertion,
)


@pytest.fixture(scope="module")
def brokers(kafka: RealKafka) -> Iterator[tuple[str, str]]:
    """Where our broker and the real one listen."""
    with EmbeddedBroker() as broker:
        yield broker.bootstrap, kafka.bootstrap


def played(bootstrap: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The codes of all requests, each sent when the broker shows what the one before has done."""
    cluster = Cluster(bootstrap)
    try:
        return (
            {what: altered(cluster, request) for what, request in SAME_AS_KAFKA.items()},
            {what: described(cluster.call(each)) for what, each in DESCRIBED_AS_KAFKA.items()},
        )
    finally:
        cluster.close()


def altered(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> dict[str, int]:
    """The codes of a request, once what it has set and deleted is seen."""
    found = codes(cluster.call(request))
    deleted = {each.name for each in request.deletions}

    def is_seen() -> bool:
        users = described(cluster.call(describing()))
        return all((user in users) != (user in deleted) for user in found if not found[user])

    until(is_seen)
    return found


def test_both_answer_with_the_same_codes(brokers: tuple[str, str]) -> None:
    ours, theirs = map(played, brokers)
    assert ours == theirs


def test_both_alter_ten_thousand_users_at_once_and_none_of_more(
    brokers: tuple[str, str],
) -> None:
    names = [f"many-{number}" for number in range(10_001)]
    requests = (
        altering(*map(upsertion, names)),
        altering(*map(upsertion, names[1:])),
        altering(*map(deletion, names[1:])),
    )
    shown = []
    for bootstrap in brokers:
        cluster = Cluster(bootstrap)
        seen = [set(altered(cluster, request).values()) for request in requests]
        answer = cluster.call(describing(*names))
        shown.append([*seen, (answer.error_code, len(answer.results))])
        cluster.close()
    refused, unknown = Code.POLICY_VIOLATION, Code.UNKNOWN_SERVER_ERROR
    assert shown == [[{refused}, {0}, {0}, (refused, 0)], [{unknown}, {0}, {0}, (0, 10_001)]]


def test_the_config_tool_sets_and_deletes_users_alike(
    brokers: tuple[str, str], config_tool: Callable[..., list[str]]
) -> None:
    """To show users it asks for their quotas, too, which our broker does not have."""
    user = ("--alter", "--entity-type", "users", "--entity-name", "tool")
    told = []
    for bootstrap in brokers:
        cluster = Cluster(bootstrap)
        for change in (
            ("--add-config", "SCRAM-SHA-256=[iterations=8192,password=a-secret]"),
            ("--add-config", "SCRAM-SHA-256=[iterations=9,password=a-secret]"),
            ("--delete-config", "SCRAM-SHA-256"),
        ):
            printed = config_tool(bootstrap, *user, *change)
            told.append((printed, described(cluster.call(describing("tool")))))
        cluster.close()
    assert told[:3] == told[3:]
    assert told[0] == (["Completed updating config for user tool."], {"tool": {1: 8_192}})


def admin_story(bootstrap: str) -> list[Any]:
    """What librdkafka's admin client is told as it sets, lists and deletes a user."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
    setting = UserScramCredentialUpsertion("lib", info, b"a-secret", b"a salt of 16 by.")
    told: list[Any] = []

    def alter(change: Any) -> None:
        try:
            futures: dict[str, Any] = admin.alter_user_scram_credentials([change])
            told.append(futures["lib"].result())
        except KafkaException as refused:
            told.append(refused.args[0].code())

    def describe() -> Any:
        try:
            futures: Any = admin.describe_user_scram_credentials(["lib"])
            found = futures["lib"].result()
        except KafkaException as refused:
            return refused.args[0].code()
        return [(each.mechanism.name, each.iterations) for each in found.scram_credential_infos]

    alter(setting)
    until(lambda: isinstance(describe(), list))
    told.append(describe())
    alter(UserScramCredentialDeletion("lib", ScramMechanism.SCRAM_SHA_512))
    until(lambda: not isinstance(describe(), list))
    told.append(describe())
    alter(UserScramCredentialDeletion("lib", ScramMechanism.SCRAM_SHA_512))
    return told


def test_librdkafka_sets_lists_and_deletes_a_user_alike(brokers: tuple[str, str]) -> None:
    ours, theirs = map(admin_story, brokers)
    assert ours == theirs
    assert ours == [None, [("SCRAM_SHA_512", 4_096)], None, 91, 91]
