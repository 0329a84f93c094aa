"""Commands of `apportion acls` that make no sense, or ask for an ACL that nothing would match."""

import json
from typing import Any

import pytest

from tests.cli.test_acls import ALICE, MATCH, PREFIXED, run

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
        *(
            (
                ("add", *ALICE, "--topic", "t", "--allow-host", host),
                f"--allow-host has {host!r}, which is no address: brokers know no names of "
                "machines, and no masks",
            )
            for host in ("", "broker.example", "10.0.0.0/8")
        ),
        (
            ("add", "--deny-principal", "User:bob", "--topic", "t", "--deny-host", "::1"),
            "--deny-host has '::1', which no client has: brokers write it 0:0:0:0:0:0:0:1",
        ),
        (
            ("add", "--deny-principal", "user:bob", "--topic", "t"),
            "--deny-principal has 'user:bob', which nobody is: write User:bob",
        ),
        *(
            (
                ("add", *ALICE, "--topic", name, *further),
                f"--topic has {name!r}, and no topic has a * in its name: give how the names "
                "begin, with --resource-pattern-type prefixed",
            )
            for name, further in (("fl*", ()), ("*", PREFIXED))
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
