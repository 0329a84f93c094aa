"""`apportion acls` on a running broker: what kafka-acls does, and says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.server.embedded import EmbeddedBroker
from apportion.server.embedded_security import BrokerSecurity
from tests.cli.completions import completed
from tests.node.acl_requests import AUTHORIZED

Run = tuple[int, str, str]


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A broker that decides by ACLs, of which there are none, and lets us do everything."""
    with EmbeddedBroker(**AUTHORIZED) as broker:
        yield broker.bootstrap


def run(bootstrap: str, *arguments: str) -> Run:
    """Exit code, stdout and stderr of the command."""
    result = CliRunner().invoke(app, ["acls", *arguments, "--bootstrap-server", bootstrap])
    return result.exit_code, result.stdout, result.stderr


def listed(bootstrap: str) -> list[str]:
    """All ACLs, each as one line, in order."""
    rows = json.loads(run(bootstrap, "list", "--json")[1])
    return [" ".join(row.values()) for row in rows]


ALICE = ("--allow-principal", "User:alice")
PREFIXED = ("--resource-pattern-type", "prefixed")
MATCH = ("--resource-pattern-type", "match")
READER = """\
RESOURCE  NAME     PATTERN  PRINCIPAL   HOST  PERMISSION  OPERATION
TOPIC     flights  LITERAL  User:alice  *     ALLOW       READ
TOPIC     flights  LITERAL  User:alice  *     ALLOW       DESCRIBE
GROUP     etl      LITERAL  User:alice  *     ALLOW       READ
"""


def test_a_consumer_is_allowed_what_it_needs(bootstrap: str) -> None:
    command = ("add", *ALICE, "--consumer", "--topic", "flights", "--group", "etl")
    assert run(bootstrap, "list") == (0, "There are no ACLs.\n", "")
    dry = "Nothing was changed: leave --dry-run out to add them.\n"
    assert run(bootstrap, *command, "--dry-run") == (0, READER + dry, "")
    assert listed(bootstrap) == []
    assert run(bootstrap, *command) == (0, f"{READER}3 ACLs are added.\n", "")
    assert run(bootstrap, "list") == (0, READER, "")
    code, stdout, _ = run(bootstrap, "list", "--group", "etl", "--json")
    row = {
        "resource": "GROUP",
        "name": "etl",
        "pattern": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "permission": "ALLOW",
        "operation": "READ",
    }
    assert (code, json.loads(stdout)) == (0, [row])


def test_an_acl_that_is_there_already_is_no_error(bootstrap: str) -> None:
    run(bootstrap, "add", *ALICE, "--topic", "t", "--operation", "Read")
    code, stdout, stderr = run(bootstrap, "add", *ALICE, "--consumer", "--topic", "t", "--group=g")
    assert (code, stderr) == (0, "")
    assert stdout.splitlines()[1:] == [
        "TOPIC     t     LITERAL  User:alice  *     ALLOW       READ       there already",
        "TOPIC     t     LITERAL  User:alice  *     ALLOW       DESCRIBE   -",
        "GROUP     g     LITERAL  User:alice  *     ALLOW       READ       -",
        "2 ACLs are added.",
    ]
    again = run(bootstrap, "add", *ALICE, "--topic", "t", "--operation", "Read", "--json")
    assert [(row["added"], row["note"]) for row in json.loads(again[1])] == [
        (False, "there already")
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--producer", "--topic", "t"),
            ["TOPIC t READ-LESS CREATE", "TOPIC t READ-LESS DESCRIBE", "TOPIC t READ-LESS WRITE"],
        ),
        (
            ("--producer", "--idempotent", "--topic", "t", "--transactional-id", "x"),
            [
                "CLUSTER kafka-cluster READ-LESS IDEMPOTENT_WRITE",
                "TOPIC t READ-LESS CREATE",
                "TOPIC t READ-LESS DESCRIBE",
                "TOPIC t READ-LESS WRITE",
                "TRANSACTIONAL_ID x READ-LESS DESCRIBE",
                "TRANSACTIONAL_ID x READ-LESS WRITE",
            ],
        ),
        (
            ("--producer", "--consumer", "--topic", "t", "--group", "*"),
            [
                "GROUP * READ-LESS READ",
                "TOPIC t READ-LESS CREATE",
                "TOPIC t READ-LESS DESCRIBE",
                "TOPIC t READ-LESS READ",
                "TOPIC t READ-LESS WRITE",
            ],
        ),
        (("--cluster",), ["CLUSTER kafka-cluster READ-LESS ALL"]),
        (
            ("--operation", "describe-configs", "--operation", "READ", "--topic=a", "--topic=b"),
            [
                "TOPIC a READ-LESS DESCRIBE_CONFIGS",
                "TOPIC a READ-LESS READ",
                "TOPIC b READ-LESS DESCRIBE_CONFIGS",
                "TOPIC b READ-LESS READ",
            ],
        ),
        (
            ("--operation", "Describe", "--delegation-token", "d"),
            ["DELEGATION_TOKEN d READ-LESS DESCRIBE"],
        ),
        (
            ("--operation", "CreateTokens", "--user-principal", "User:u"),
            ["USER User:u READ-LESS CREATE_TOKENS"],
        ),
    ],
)
def test_options_stand_for_the_same_acls_as_in_kafkas_tool(
    bootstrap: str, arguments: tuple[str, ...], expected: list[str]
) -> None:
    assert run(bootstrap, "add", *ALICE, *arguments)[0] == 0
    allowed = "LITERAL User:alice * ALLOW"
    assert sorted(listed(bootstrap)) == [each.replace("READ-LESS", allowed) for each in expected]


def test_principals_are_denied_from_hosts_by_a_prefix(bootstrap: str) -> None:
    hosts = ("--deny-host", "10.0.0.1", "--deny-host", "10.0.0.2")
    command = ("add", "--deny-principal", "User:bob", *hosts, "--operation", "Write", "--topic")
    assert run(bootstrap, *command, "fl", *PREFIXED)[0] == 0
    assert listed(bootstrap) == [
        f"TOPIC fl PREFIXED User:bob 10.0.0.{number} DENY WRITE" for number in (1, 2)
    ]


def test_a_list_by_name_says_what_holds_besides(bootstrap: str) -> None:
    for name, further in (("fl", PREFIXED), ("*", ()), ("flights", ()), ("other", ())):
        run(bootstrap, "add", *ALICE, "--operation", "Read", "--topic", name, *further)
    code, stdout, _ = run(bootstrap, "list", "--topic", "flights")
    assert (code, stdout.splitlines()[1:]) == (
        0,
        [
            "TOPIC     flights  LITERAL  User:alice  *     ALLOW       READ",
            "2 ACLs are about these, too, by a prefix or by *: --resource-pattern-type match "
            "shows all.",
        ],
    )
    matching = json.loads(run(bootstrap, "list", "--topic", "flights", *MATCH, "--json")[1])
    assert [row["name"] for row in matching] == ["*", "fl", "flights"]
    nobody = run(bootstrap, "list", "--topic", "flights", "--principal", "User:bob")
    assert nobody == (0, "No ACL matches.\n", "")


def test_acls_are_shown_before_they_are_removed(bootstrap: str) -> None:
    run(bootstrap, "add", *ALICE, "--consumer", "--topic", "flights", "--group", "etl")
    command = ("remove", *ALICE, "--consumer", "--topic", "flights", "--group", "etl")
    dry = "Nothing was changed: add --force to remove them.\n"
    for further in ((), ("--dry-run",)):
        assert run(bootstrap, *command, *further) == (0, READER + dry, "")
    assert len(listed(bootstrap)) == 3
    assert run(bootstrap, *command, "--force") == (0, f"{READER}3 ACLs are removed.\n", "")
    assert listed(bootstrap) == []
    assert run(bootstrap, *command, "--force") == (0, "No ACL matches.\n", "")


def test_a_resource_or_a_principal_stands_for_all_of_its_acls(bootstrap: str) -> None:
    for principal in ("User:alice", "User:bob"):
        for name in ("a", "b"):
            who = ("--allow-principal", principal)
            run(bootstrap, "add", *who, "--operation", "Read", "--topic", name)
    report = json.loads(run(bootstrap, "remove", "--topic", "a", "--force", "--json")[1])
    assert [(row["name"], row["principal"], row["removed"]) for row in report] == [
        ("a", "User:alice", True),
        ("a", "User:bob", True),
    ]
    assert run(bootstrap, "remove", "--principal", "User:bob", "--force")[0] == 0
    assert listed(bootstrap) == ["TOPIC b LITERAL User:alice * ALLOW READ"]


def test_without_an_operation_those_of_all_are_removed_as_in_kafkas_tool(bootstrap: str) -> None:
    run(bootstrap, "add", *ALICE, "--topic", "t", "--operation", "Read")
    assert run(bootstrap, "remove", *ALICE, "--topic", "t", "--force") == (
        0,
        "No ACL matches. Without --operation just those of All are removed: name others, or "
        "--principal.\n",
        "",
    )


KINDS = "--topic, --group, --cluster, --transactional-id, --delegation-token, --user-principal"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "--topic", "t"), "say whom: --allow-principal User:NAME or --deny-principal "
         "User:NAME"),
        (("add", *ALICE), f"say on what: {KINDS}"),
        (
            ("add", "--allow-principal", "alice", "--topic", "t"),
            "--allow-principal has 'alice', which is no principal: write User:alice",
        ),
        (
            ("list", "--principal", ":alice"),
            "--principal has ':alice', which is no principal, as User:alice is",
        ),
        (
            ("add", *ALICE, "--topic", "t", "--operation", "Reed"),
            "--operation has 'Reed', which is none: did you mean Read?",
        ),
        (
            ("add", *ALICE, "--topic", "t", "--operation", "zzz"),
            "--operation has 'zzz', which is none: All, Alter, AlterConfigs, ClusterAction, "
            "Create, CreateTokens, Delete, Describe, DescribeConfigs, DescribeTokens, "
            "IdempotentWrite, Read, TwoPhaseCommit, Write",
        ),
        (
            ("add", *ALICE, "--group", "g", "--operation", "Write"),
            "there is no Write for --group: give one of Read, Delete, Describe, DescribeConfigs, "
            "AlterConfigs, All",
        ),
        (
            ("add", *ALICE, "--topic", "t", *MATCH),
            "--resource-pattern-type must be one of literal, prefixed when ACLs are added, not "
            "'match'",
        ),
        (
            ("list", "--topic", "t", "--resource-pattern-type", "like"),
            "--resource-pattern-type must be one of literal, prefixed, match, any, not 'like'",
        ),
        (("add", *ALICE, "--topic", ""), "--topic needs a name; '*' is every name"),
        (
            ("add", *ALICE, "--topic", "t", "--deny-host", "h"),
            "--deny-host needs --deny-principal",
        ),
        (("add", *ALICE, "--producer", "--cluster"), "--producer needs --topic TOPIC"),
        (("add", *ALICE, "--consumer", "--topic", "t"), "--consumer needs --group GROUP"),
        (("add", *ALICE, "--idempotent", "--topic", "t"), "--idempotent needs --producer"),
        (
            ("add", *ALICE, "--producer", "--topic", "t", "--group", "g"),
            "--producer allows nothing on --group: leave it out",
        ),
        (
            ("add", *ALICE, "--producer", "--topic", "t", "--operation", "Read"),
            "--producer says the operations, and allows them: leave --operation out",
        ),
        (
            ("add", "--deny-principal", "User:a", "--consumer", "--topic", "t", "--group", "g"),
            "--consumer says the operations, and allows them: leave --deny-principal out",
        ),
        (
            ("remove", "--force"),
            f"say which ACLs to remove: those of a principal, as --principal User:NAME, or of "
            f"{KINDS}",
        ),
        (
            ("remove", "--topic", "t", "--operation", "Read"),
            "say whom: --allow-principal User:NAME or --deny-principal User:NAME",
        ),
        (
            ("remove", "--principal", "User:a", *ALICE, "--topic", "t"),
            "--principal stands for all ACLs of a principal: leave --allow-..., --deny-..., "
            "--operation, --producer and --consumer out",
        ),
        (
            ("remove", "--topic", "t", "--force", "--dry-run"),
            "say --dry-run or --force, not both",
        ),
    ],
)  # fmt: skip
def test_a_wrong_command_is_refused_with_the_next_step(
    arguments: tuple[str, ...], message: Any
) -> None:
    nowhere = "127.0.0.1:1"  # refused before anybody is asked
    assert run(nowhere, *arguments) == (2, "", f"apportion acls: {message}\n")
    code, stdout, stderr = run(nowhere, *arguments, "--json")
    assert (code, stdout, json.loads(stderr)) == (2, "", {"error": None, "message": message})


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("add", *ALICE, "--topic", "t"),
        ("remove", "--topic", "t"),
        ("remove", "--topic", "t", "--force"),
    ],
)
def test_a_cluster_without_an_authorizer_has_no_acls(arguments: tuple[str, ...]) -> None:
    with EmbeddedBroker() as broker:
        assert run(broker.bootstrap, *arguments) == (
            1,
            "",
            "apportion acls: this cluster has no ACLs, and everybody may do everything: its "
            "brokers have no authorizer. A broker of ours has one with --set "
            "authorizer.class.name=StandardAuthorizer and super.users (docs/security.md)\n",
        )


def test_a_user_without_the_permission_is_told_how_to_get_it(tmp_path: Path) -> None:
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"admin": "a", "alice": "b"},
        super_users=["User:admin"],
    )
    with EmbeddedBroker(security=security) as broker:
        files = {}
        for user in ("admin", "alice"):
            files[user] = tmp_path / user
            lines = [f"{key}={value}" for key, value in broker.client_properties(user).items()]
            files[user].write_text("\n".join(lines))

        def run_as(user: str, *arguments: str) -> Run:
            return run(broker.bootstrap, *arguments, "--command-config", str(files[user]))

        told = [
            run_as("alice", *command)
            for command in (("list",), ("remove", "--topic", "t", "--force"))
        ]
        given = run_as("admin", "add", *ALICE, "--operation", "Describe", "--cluster")
        told.append(run_as("alice", "add", *ALICE, "--topic", "t"))
        assert given[0] == 0
        assert run_as("alice", "list")[0] == 0
    texts = [
        f"apportion acls: you may not {what} ACLs: that needs {operation.upper()} on the cluster. "
        "A super user gives it to you by `apportion acls add --allow-principal User:NAME "
        f"--operation {operation} --cluster`; or give your own login as --command-config FILE\n"
        for what, operation in (("show", "Describe"), ("change", "Alter"), ("change", "Alter"))
    ]
    assert told == [(1, "", text) for text in texts]


def test_names_are_completed(bootstrap: str) -> None:
    run(bootstrap, "add", *ALICE, "--topic", "t")
    run(bootstrap, "add", "--deny-principal", "User:bob", "--topic", "t")
    at = ("--bootstrap-server", bootstrap)
    for option in ("--principal", "--allow-principal", "--deny-principal"):
        found = completed("apportion", "acls", "remove", *at, option, "")
        assert found == ["User:alice", "User:bob"]
    assert completed("apportion", "acls", "add", "--operation", "Desc") == [
        "Describe",
        "DescribeConfigs",
        "DescribeTokens",
    ]
    assert completed("apportion", "acls", "add", "--resource-pattern-type", "") == [
        "literal",
        "prefixed",
    ]
    assert completed("apportion", "acls", "list", "--resource-pattern-type", "m") == ["match"]
    nowhere = ("--bootstrap-server", "127.0.0.1:1")
    assert completed("apportion", "acls", "list", *nowhere, "--principal", "") == []
