"""`apportion acls` and `apportion users` on our broker and a real Kafka, beside Kafka's tools."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from tests.kafka.conftest import until
from tests.kafka.secured import PASSWORD, Secured
from tests.node.acl_requests import AUTHORIZED

SECURED = "guarded"
CHANGED = [("carol", name, 5000) for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
ALICE = ("--allow-principal", "User:alice")
NAMED = ("--entity-type", "users", "--entity-name", "carol")


@pytest.fixture(scope="module")
def brokers(secured: Secured) -> Iterator[tuple[str, str]]:
    """Where our broker and a real Kafka listen, without an ACL; they let us do everything."""
    with EmbeddedBroker(**AUTHORIZED) as broker:
        removed(secured.broker.bootstrap)
        yield broker.bootstrap, secured.broker.bootstrap


def run(bootstrap: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command of ours."""
    result = CliRunner().invoke(app, [*arguments, "--bootstrap-server", bootstrap])
    return result.exit_code, result.stdout, result.stderr


def listed(bootstrap: str, *arguments: str) -> list[str]:
    """The ACLs that ours lists, each as a line."""
    code, stdout, stderr = run(bootstrap, "acls", "list", *arguments, "--json")
    assert (code, stderr) == (0, "")
    return [" ".join(row.values()) for row in json.loads(stdout)]


def removed(bootstrap: str) -> None:
    """No ACL is left."""
    for row in json.loads(run(bootstrap, "acls", "list", "--json")[1]):
        run(bootstrap, "acls", "remove", "--principal", row["principal"], "--execute")
    until(lambda: listed(bootstrap) == [])


SETS: tuple[tuple[str, ...], ...] = (
    ("--producer", "--topic", "t"),
    ("--producer", "--topic", "p-", "--resource-pattern-type", "prefixed", "--idempotent"),
    ("--producer", "--topic", "t", "--transactional-id", "x", "--idempotent"),
    ("--consumer", "--topic", "t", "--topic", "u", "--group", "*"),
    ("--producer", "--consumer", "--topic", "t", "--group", "g", "--transactional-id", "x"),
    ("--operation", "Read", "--operation", "DescribeConfigs", "--topic", "t", "--group", "g"),
    ("--cluster", "--allow-host", "10.0.0.1", "--allow-host", "10.0.0.2"),
    ("--delegation-token", "d", "--user-principal", "User:u"),
)


@pytest.mark.parametrize("options", SETS, ids=" ".join)
def test_the_same_options_give_the_same_acls_as_kafkas_tool(
    brokers: tuple[str, str], acl_tool: Callable[..., list[str]], options: tuple[str, ...]
) -> None:
    ours, theirs = brokers
    acl_tool(ours, "--add", *ALICE, *options)
    expected = listed(ours)
    assert expected
    removed(ours)
    for bootstrap in (ours, theirs):
        assert run(bootstrap, "acls", "add", *ALICE, *options)[0] == 0
        until(lambda at=bootstrap: listed(at) == expected)
    removed(theirs)
    assert run(ours, "acls", "remove", *ALICE, *options, "--execute")[0] == 0
    assert listed(ours) == []


def test_users_are_changed_alike_and_kafkas_tool_lists_them(
    brokers: tuple[str, str], config_tool: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "a-secret")
    password = ("--password-env", "PASSWORD")

    def users(bootstrap: str) -> Any:
        code, stdout, stderr = run(bootstrap, "users", "list", "carol", "--json")
        if code:
            return [json.loads(stderr)["error"]]
        return [tuple(row.values()) for row in json.loads(stdout)]

    seen = []
    for bootstrap in brokers:
        both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
        told = [run(bootstrap, "users", "add", "carol", *password, *both, "--iterations", "8192")]
        until(lambda at=bootstrap: len(users(at)) == 2)
        told.append(run(bootstrap, "users", "alter", "carol", *password, "--iterations", "5000"))
        until(lambda at=bootstrap: users(at) == CHANGED)
        described = config_tool(bootstrap, "--describe", *NAMED)
        told.append(
            run(bootstrap, "users", "remove", "carol", "--mechanism", "SCRAM-SHA-256", "--execute")
        )
        until(lambda at=bootstrap: len(users(at)) == 1)
        told.append(run(bootstrap, "users", "remove", "carol", "--execute"))
        until(lambda at=bootstrap: users(at) == [Code.RESOURCE_NOT_FOUND.name])
        seen.append(told)
    assert seen[0] == seen[1]
    assert [code for code, _, _ in seen[0]] == [0, 0, 0, 0]
    # Of our broker it asks for quotas first, which there are not, and ends.
    (line,) = described
    start, _, iterations = line.partition(" are ")
    assert start == "SCRAM credential configs for user-principal 'carol'"
    assert sorted(iterations.split(", ")) == [
        "SCRAM-SHA-256=iterations=5000",
        "SCRAM-SHA-512=iterations=5000",
    ]


def test_a_kafka_without_an_authorizer_is_said_to_have_no_acls(kafka: RealKafka) -> None:
    told = []
    with EmbeddedBroker() as broker:
        for bootstrap in (broker.bootstrap, kafka.bootstrap):
            told += [
                run(bootstrap, "acls", "list"),
                run(bootstrap, "acls", "add", *ALICE, "--topic", "t"),
                run(bootstrap, "acls", "remove", "--topic", "t", "--execute"),
            ]
    assert len(set(told)) == 1
    assert told[0][:2] == (1, "")
    assert "this cluster has no ACLs" in told[0][2]


def test_a_user_without_permission_is_told_which_one_on_kafka(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANOTHER", "a-secret")
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="bob" password="{PASSWORD}";\n'
    )

    def told(*arguments: str) -> str:
        at = secured.broker.addresses["BARE"]
        code, stdout, stderr = run(at, *arguments, "--command-config", str(path))
        assert (code, stdout) == (1, "")
        return stderr

    shown = told("acls", "list")
    assert shown.startswith("apportion acls: you may not show ACLs: that needs DESCRIBE on the ")
    assert told("acls", "add", *ALICE, "--topic", "t") == shown
    changed = told("acls", "remove", "--topic", "t", "--execute")
    assert changed.startswith("apportion acls: you may not change ACLs: that needs ALTER on the ")
    added = told("users", "add", "carol", "--password-env", "ANOTHER")
    assert added.startswith("apportion users: you may not show users: that needs DESCRIBE on the ")
    # Kafka leaves the request about all users without an answer.
    unanswered = told("users", "list", "--timeout-ms", "3000")
    assert "Apache Kafka does not answer who may not DESCRIBE the cluster" in unanswered
