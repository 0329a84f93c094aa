"""`apportion acls` on a running broker: what kafka-acls does, and says."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.acls import CreateAclsQuery
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.server.embedded import EmbeddedBroker
from apportion.server.embedded_security import BrokerSecurity
from tests.cli.completions import completed
from tests.cli.denying_broker import DenyingBroker
from tests.node.acl_requests import AUTHORIZED, acl

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
            ["TOPIC t {} CREATE", "TOPIC t {} DESCRIBE", "TOPIC t {} WRITE"],
        ),
        (
            ("--producer", "--idempotent", "--topic", "t", "--transactional-id", "x"),
            [
                "CLUSTER kafka-cluster {} IDEMPOTENT_WRITE",
                "TOPIC t {} CREATE",
                "TOPIC t {} DESCRIBE",
                "TOPIC t {} WRITE",
                "TRANSACTIONAL_ID x {} DESCRIBE",
                "TRANSACTIONAL_ID x {} WRITE",
            ],
        ),
        (
            ("--producer", "--consumer", "--topic", "t", "--group", "*"),
            [
                "GROUP * {} READ",
                "TOPIC t {} CREATE",
                "TOPIC t {} DESCRIBE",
                "TOPIC t {} READ",
                "TOPIC t {} WRITE",
            ],
        ),
        (("--cluster",), ["CLUSTER kafka-cluster {} ALL"]),
        (
            ("--operation", "describe-configs", "--operation", "READ", "--topic=a", "--topic=b"),
            [
                "TOPIC a {} DESCRIBE_CONFIGS",
                "TOPIC a {} READ",
                "TOPIC b {} DESCRIBE_CONFIGS",
                "TOPIC b {} READ",
            ],
        ),
        (
            ("--operation", "Describe", "--delegation-token", "d"),
            ["DELEGATION_TOKEN d {} DESCRIBE"],
        ),
        (
            ("--operation", "CreateTokens", "--user-principal", "User:u"),
            ["USER User:u {} CREATE_TOKENS"],
        ),
    ],
)
def test_options_stand_for_the_same_acls_as_in_kafkas_tool(
    bootstrap: str, arguments: tuple[str, ...], expected: list[str]
) -> None:
    assert run(bootstrap, "add", *ALICE, *arguments)[0] == 0
    allowed = "LITERAL User:alice * ALLOW"
    assert sorted(listed(bootstrap)) == [each.format(allowed) for each in expected]


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


def test_an_acl_that_is_of_no_use_is_removed_by_its_own_names(bootstrap: str) -> None:
    useless = acl("fl*", principal="user:bob", host="::1")
    cluster = Cluster(bootstrap)
    assert cluster.run(send_until_accepted(CreateAclsQuery((useless,)))) == (None,)
    cluster.close()
    who = ("--allow-principal", "user:bob", "--allow-host", "::1", "--operation", "Read")
    assert run(bootstrap, "remove", *who, "--topic", "fl*", "--force")[0] == 0
    assert listed(bootstrap) == []


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


@pytest.fixture
def denying() -> Iterator[str]:
    """A broker that deletes the ACL of the topic a, and not that of b."""
    broker = DenyingBroker(acl("a"), acl("b"), "the ACLs of b are kept by a policy")
    broker.start()
    yield broker.bootstrap
    broker.close()


def test_a_removal_that_fails_in_part_says_what_is_gone_and_what_is_not(denying: str) -> None:
    code, stdout, stderr = run(denying, "remove", "--topic", "a", "--topic", "b", "--force")
    assert (code, [" ".join(line.split()) for line in stdout.splitlines()], stderr) == (
        1,
        [
            "RESOURCE NAME PATTERN PRINCIPAL HOST PERMISSION OPERATION NOTE",
            "TOPIC a LITERAL User:alice * ALLOW READ removed",
            "TOPIC b LITERAL User:alice * ALLOW READ still there",
            "1 ACL is removed.",
        ],
        "apportion acls: POLICY_VIOLATION: the ACLs of b are kept by a policy\n",
    )


def test_a_removal_shows_what_is_gone_if_the_rest_cannot_be_read() -> None:
    broker = DenyingBroker(acl("a"), acl("b"), "the ACLs of b are kept by a policy", hides=True)
    broker.start()
    code, stdout, stderr = run(broker.bootstrap, "remove", "--topic", "a", "--force", "--json")
    broker.close()
    assert (code, [(row["name"], row["removed"]) for row in json.loads(stdout)]) == (
        1,
        [("a", True)],
    )
    assert [json.loads(line)["message"] for line in stderr.splitlines()] == [
        "the ACLs of b are kept by a policy",
        "no ACLs today",
    ]


def test_as_json_each_acl_says_whether_it_was_removed(denying: str) -> None:
    code, stdout, stderr = run(denying, "remove", "--topic", "a", "--force", "--json")
    assert (code, [(row["name"], row["removed"]) for row in json.loads(stdout)]) == (
        1,
        [("a", True), ("b", False)],
    )
    assert json.loads(stderr) == {
        "error": "POLICY_VIOLATION",
        "message": "the ACLs of b are kept by a policy",
    }


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
        f"apportion acls: you may not {what} ACLs: that needs {operation.upper()} on the cluster; "
        "whoever may alter the cluster gives "
        "it by `apportion acls add --allow-principal User:NAME --operation "
        f"{operation} --cluster --bootstrap {broker.bootstrap}`\n"
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
    offered = completed("apportion", "acls", "add", "--operation", "")
    wrong = run(bootstrap, "add", *ALICE, "--topic", "t", "--operation", "none")[2]
    assert sorted(offered) == wrong.strip().partition("is none: ")[2].split(", ")
    assert completed("apportion", "acls", "add", "--operation", "Desc") == [
        "Describe",
        "DescribeConfigs",
        "DescribeTokens",
    ]
    for typed, word in (("re", "read"), ("Re", "Read"), ("RE", "READ")):
        assert completed("apportion", "acls", "add", "--operation", typed) == [word]
    assert completed("apportion", "acls", "add", "--resource-pattern-type", "") == [
        "literal",
        "prefixed",
    ]
    assert completed("apportion", "acls", "list", "--resource-pattern-type", "m") == ["match"]
    nowhere = ("--bootstrap-server", "127.0.0.1:1")
    assert completed("apportion", "acls", "list", *nowhere, "--principal", "") == []
