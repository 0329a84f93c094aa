"""Filters of ACLs, what an ACL decides about, and addresses as ACLs have them."""

import pytest

from apportion.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    host_in_acls,
)

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ACL = AclBinding(
    *(ResourceType.TOPIC, "flights", LITERAL, "User:alice", "10.0.0.1"),
    *(AclOperation.READ, AclPermission.ALLOW),
)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        ({}, True),
        ({"resource_type": ResourceType.TOPIC}, True),
        ({"resource_type": ResourceType.GROUP}, False),
        ({"principal": "User:alice"}, True),
        ({"principal": "User:*"}, False),
        ({"host": "10.0.0.1"}, True),
        ({"host": "*"}, False),
        ({"operation": AclOperation.READ}, True),
        ({"operation": AclOperation.DESCRIBE}, False),
        ({"operation": AclOperation.ALL}, False),
        ({"permission": AclPermission.ALLOW}, True),
        ({"permission": AclPermission.DENY}, False),
    ],
)
def test_a_filter_matches_what_is_equal_and_knows_any(
    wanted: dict[str, object], matches: bool
) -> None:
    assert AclFilter(**wanted).matches(ACL) is matches  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern_type", "name", "matched"),
    [
        (PatternType.ANY, None, ["flights", "*", "fl-", "*-"]),
        (PatternType.ANY, "flights", ["flights"]),
        (PatternType.ANY, "*", ["*"]),
        (PatternType.ANY, "fl-", ["fl-"]),
        (PatternType.MATCH, None, ["flights", "*", "fl-", "*-"]),
        (PatternType.MATCH, "flights", ["flights", "*"]),
        (PatternType.MATCH, "fl-1", ["*", "fl-"]),
        (PatternType.MATCH, "fl-", ["*", "fl-"]),
        (PatternType.MATCH, "fl", ["*"]),
        (PatternType.MATCH, "*-x", ["*", "*-"]),
        (LITERAL, None, ["flights", "*"]),
        (LITERAL, "flights", ["flights"]),
        (LITERAL, "*", ["*"]),
        (LITERAL, "fl-", []),
        (PREFIXED, None, ["fl-", "*-"]),
        (PREFIXED, "fl-", ["fl-"]),
        (PREFIXED, "fl-1", []),
    ],
)
def test_a_filter_matches_patterns_of_a_name_or_all_that_it_falls_under(
    pattern_type: PatternType, name: str | None, matched: list[str]
) -> None:
    acls = [
        ACL._replace(name=name, pattern_type=kind)
        for name, kind in (
            *(("flights", LITERAL), ("*", LITERAL)),
            *(("fl-", PREFIXED), ("*-", PREFIXED)),
        )
    ]
    wanted = AclFilter(name=name, pattern_type=pattern_type)
    assert [acl.name for acl in acls if wanted.matches(acl)] == matched


@pytest.mark.parametrize(
    ("permission", "operation", "decided"),
    [
        (AclPermission.ALLOW, AclOperation.READ, ["READ", "DESCRIBE"]),
        (AclPermission.ALLOW, AclOperation.WRITE, ["WRITE", "DESCRIBE"]),
        (AclPermission.ALLOW, AclOperation.DELETE, ["DELETE", "DESCRIBE"]),
        (AclPermission.ALLOW, AclOperation.ALTER, ["ALTER", "DESCRIBE"]),
        (
            *(AclPermission.ALLOW, AclOperation.ALTER_CONFIGS),
            ["DESCRIBE_CONFIGS", "ALTER_CONFIGS"],
        ),
        (AclPermission.ALLOW, AclOperation.CREATE, ["CREATE"]),
        (AclPermission.DENY, AclOperation.READ, ["READ"]),
        (AclPermission.DENY, AclOperation.ALTER_CONFIGS, ["ALTER_CONFIGS"]),
        (AclPermission.DENY, AclOperation.DESCRIBE, ["DESCRIBE"]),
    ],
)
def test_only_permission_implies_that_one_may_describe(
    permission: AclPermission, operation: AclOperation, decided: list[str]
) -> None:
    acl = ACL._replace(permission=permission, operation=operation)
    assert [each.name for each in AclOperation if acl.concerns(each)] == decided


@pytest.mark.parametrize("permission", [AclPermission.ALLOW, AclPermission.DENY])
def test_an_acl_for_all_operations_decides_about_each(permission: AclPermission) -> None:
    acl = ACL._replace(permission=permission, operation=AclOperation.ALL)
    assert all(acl.concerns(operation) for operation in AclOperation)


@pytest.mark.parametrize(
    ("caller_host", "host"),
    [
        ("/127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("/::1", "0:0:0:0:0:0:0:1"),
        ("/2001:db8::ff00:42", "2001:db8:0:0:0:0:ff00:42"),
        ("/::ffff:10.0.0.1", "10.0.0.1"),
        ("/fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("/?", "?"),
        ("/a:b", "a:b"),
    ],
)
def test_the_address_of_a_client_is_written_as_kafka_writes_it(caller_host: str, host: str) -> None:
    assert host_in_acls(caller_host) == host
