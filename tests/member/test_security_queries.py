"""Queries about ACLs and users of SCRAM: each request, and what its response has."""

from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.acls import (
    AclDeletion,
    CreateAclsQuery,
    DeleteAclsQuery,
    DescribeAclsQuery,
)
from apportion.member.cluster_queries.scram_users import (
    DeletePasswordQuery,
    DescribeUsersQuery,
    SaltedPassword,
    SetPasswordQuery,
    UserIterations,
)
from apportion.security.acls import AclFilter, AclOperation, PatternType, ResourceType
from apportion.security.scram_credentials import ScramMechanism
from tests.messages import request, response
from tests.node.acl_requests import acl, creating, deleting, describing

SHA_256, SHA_512 = ScramMechanism
FILTER = AclFilter(ResourceType.TOPIC, "flights", PatternType.MATCH, "User:alice")
NUMBERS: dict[str, Any] = {"operation": 3, "permission_type": 3}
RESOURCE: dict[str, Any] = {"resource_type": 2, "resource_name": "flights", "pattern_type": 3}
WHO: dict[str, Any] = {"principal": "User:alice", "host": "*"}
ENTRY, MATCHING = WHO | NUMBERS, RESOURCE | WHO | NUMBERS
REFUSED: dict[str, Any] = {"error_code": Code.SECURITY_DISABLED, "error_message": "why"}
DENIED: dict[str, Any] = {"error_code": Code.CLUSTER_AUTHORIZATION_FAILED, "error_message": "why"}


def test_acls_are_described_one_by_one() -> None:
    query = DescribeAclsQuery(FILTER)
    assert query.request() == describing(FILTER)
    resource = RESOURCE | {"acls": [ENTRY, ENTRY | {"operation": 8}]}
    assert query.parse(response("DescribeAcls", resources=[resource])) == (
        acl(),
        acl(operation=AclOperation.DESCRIBE),
    )


def test_a_number_that_only_newer_brokers_know_is_unknown() -> None:
    resource = RESOURCE | {"resource_type": 99, "acls": [ENTRY | {"operation": 99}]}
    (found,) = DescribeAclsQuery(FILTER).parse(response("DescribeAcls", resources=[resource]))
    assert found == acl(resource_type=ResourceType.UNKNOWN, operation=AclOperation.UNKNOWN)


def test_a_refused_description_has_the_brokers_words() -> None:
    with pytest.raises(Refused, match="SECURITY_DISABLED: why"):
        DescribeAclsQuery(FILTER).parse(response("DescribeAcls", **REFUSED))


def test_each_acl_has_its_own_result_of_a_creation() -> None:
    wanted = (acl(), acl("b"), acl("c"))
    query = CreateAclsQuery(wanted)
    assert query.request() == creating(*wanted)
    results = [{}, {"error_code": Code.INVALID_REQUEST, "error_message": "no"}]
    first, second, third = query.parse(response("CreateAcls", results=results))
    assert first is None
    assert (second and str(second), third and third.code) == (
        "INVALID_REQUEST: no",
        Code.UNKNOWN_SERVER_ERROR,
    )
    # A result of nothing that was asked for is of no ACL.
    assert query.parse(response("CreateAcls", results=[{}] * 4)) == (None,) * 3


def test_an_acl_that_two_filters_match_is_deleted_once() -> None:
    query = DeleteAclsQuery((FILTER, AclFilter()))
    assert query.request() == deleting(FILTER, AclFilter())
    results = [{"matching_acls": [MATCHING]}] * 2
    assert query.parse(response("DeleteAcls", filter_results=results)) == AclDeletion((acl(),))


@pytest.mark.parametrize("result", [REFUSED, {"matching_acls": [REFUSED]}])
def test_a_deletion_that_failed_says_why_and_what_was_deleted(result: Any) -> None:
    query = DeleteAclsQuery((FILTER, AclFilter()))
    with pytest.raises(Refused, match="SECURITY_DISABLED: why"):
        query.parse(response("DeleteAcls", filter_results=[result, result]))
    results = [result, {"matching_acls": [MATCHING]}, result]
    gone, failures = query.parse(response("DeleteAcls", filter_results=results))
    assert gone == (acl(),)
    assert [str(each) for each in failures] == ["SECURITY_DISABLED: why"]


def test_users_are_described_by_name_and_mechanism() -> None:
    assert DescribeUsersQuery().request() == request("DescribeUserScramCredentials", users=None)
    names = ("bob", "alice", "carol")
    query = DescribeUsersQuery(names)
    assert query.request() == request(
        "DescribeUserScramCredentials", users=[{"name": name} for name in names]
    )

    def infos(*numbers: tuple[int, int]) -> dict[str, Any]:
        return {"credential_infos": [{"mechanism": kind, "iterations": n} for kind, n in numbers]}

    results = [
        {"user": "bob"} | infos((1, 4096)),
        {"user": "alice"} | infos((2, 8192), (1, 4096), (77, 4096)),
        {"user": "carol", "error_code": Code.RESOURCE_NOT_FOUND},
    ]
    assert query.parse(response("DescribeUserScramCredentials", results=results)) == (
        UserIterations("alice", SHA_256, 4096),
        UserIterations("alice", SHA_512, 8192),
        UserIterations("bob", SHA_256, 4096),
    )


@pytest.mark.parametrize("fields", [DENIED, {"results": [DENIED]}])
def test_users_that_may_not_be_described_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED: why"):
        DescribeUsersQuery().parse(response("DescribeUserScramCredentials", **fields))


def test_a_password_is_set_as_salted_and_stands_in_no_text() -> None:
    secret = SaltedPassword(4096, b"a salt", b"a salted password")
    query = SetPasswordQuery("alice", SHA_512, secret)
    wanted = {"iterations": 4096, "salt": b"a salt", "salted_password": secret.salted}
    assert query.request() == request(
        "AlterUserScramCredentials", upsertions=[wanted | {"name": "alice", "mechanism": 2}]
    )
    assert "salt" not in f"{query} {secret}".replace("SaltedPassword", "")
    query.parse(altered(Code.NONE))
    with pytest.raises(Refused, match="UNACCEPTABLE_CREDENTIAL: why"):
        query.parse(altered(Code.UNACCEPTABLE_CREDENTIAL))


def altered(code: Code) -> Any:
    result = {"user": "alice", "error_code": code, "error_message": "why"}
    return response("AlterUserScramCredentials", results=[result])


def test_a_password_that_is_not_there_is_not_deleted() -> None:
    query = DeletePasswordQuery("alice", SHA_256)
    deletion = {"name": "alice", "mechanism": 1}
    assert query.request() == request("AlterUserScramCredentials", deletions=[deletion])
    assert query.parse(altered(Code.NONE)) is True
    assert query.parse(altered(Code.RESOURCE_NOT_FOUND)) is False
    with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED: why"):
        query.parse(altered(Code.CLUSTER_AUTHORIZATION_FAILED))
