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
from apportion.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from apportion.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from apportion.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from apportion.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from apportion.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)
from tests.node.acl_requests import acl, creating, deleting, describing

SHA_256, SHA_512 = ScramMechanism
FILTER = AclFilter(ResourceType.TOPIC, "flights", PatternType.MATCH, "User:alice")
NUMBERS: dict[str, Any] = {"operation": 3, "permission_type": 3}
RESOURCE: dict[str, Any] = {"resource_type": 2, "resource_name": "flights", "pattern_type": 3}
WHO: dict[str, Any] = {"principal": "User:alice", "host": "*"}


def test_acls_are_described_one_by_one() -> None:
    query = DescribeAclsQuery(FILTER)
    assert query.request() == describing(FILTER)
    entries = (
        AclDescription(**WHO, **NUMBERS),
        AclDescription(**WHO, **NUMBERS | {"operation": 8}),
    )
    resource = DescribeAclsResource(**RESOURCE, acls=entries)
    assert query.parse(DescribeAclsResponse(resources=(resource,))) == (
        acl(),
        acl(operation=AclOperation.DESCRIBE),
    )


def test_a_number_that_only_newer_brokers_know_is_unknown() -> None:
    entry = AclDescription(**WHO, **NUMBERS | {"operation": 99})
    resource = DescribeAclsResource(**RESOURCE | {"resource_type": 99}, acls=(entry,))
    (found,) = DescribeAclsQuery(FILTER).parse(DescribeAclsResponse(resources=(resource,)))
    assert found == acl(resource_type=ResourceType.UNKNOWN, operation=AclOperation.UNKNOWN)


def test_a_refused_description_has_the_brokers_words() -> None:
    response = DescribeAclsResponse(error_code=Code.SECURITY_DISABLED, error_message="no ACLs")
    with pytest.raises(Refused, match="SECURITY_DISABLED: no ACLs"):
        DescribeAclsQuery(FILTER).parse(response)


def test_each_acl_has_its_own_result_of_a_creation() -> None:
    wanted = (acl(), acl("b"), acl("c"))
    query = CreateAclsQuery(wanted)
    assert query.request() == creating(*wanted)
    results = (
        AclCreationResult(),
        AclCreationResult(error_code=Code.INVALID_REQUEST, error_message="no"),
    )
    first, second, third = query.parse(CreateAclsResponse(results=results))
    assert first is None
    assert (second and str(second), third and third.code) == (
        "INVALID_REQUEST: no",
        Code.UNKNOWN_SERVER_ERROR,
    )
    # A result of nothing that was asked for is of no ACL.
    assert query.parse(CreateAclsResponse(results=(AclCreationResult(),) * 4)) == (None,) * 3


def test_an_acl_that_two_filters_match_is_deleted_once() -> None:
    query = DeleteAclsQuery((FILTER, AclFilter()))
    assert query.request() == deleting(FILTER, AclFilter())
    matching = DeleteAclsMatchingAcl(**RESOURCE, **WHO, **NUMBERS)
    result = DeleteAclsFilterResult(matching_acls=(matching,))
    assert query.parse(DeleteAclsResponse(filter_results=(result, result))) == AclDeletion((acl(),))


@pytest.mark.parametrize(
    "result",
    [
        DeleteAclsFilterResult(error_code=Code.SECURITY_DISABLED, error_message="why"),
        DeleteAclsFilterResult(
            matching_acls=(
                DeleteAclsMatchingAcl(error_code=Code.SECURITY_DISABLED, error_message="why"),
            )
        ),
    ],
)
def test_a_deletion_that_failed_says_why_and_what_was_deleted(result: Any) -> None:
    query = DeleteAclsQuery((FILTER, AclFilter()))
    with pytest.raises(Refused, match="SECURITY_DISABLED: why"):
        query.parse(DeleteAclsResponse(filter_results=(result, result)))
    deleted = DeleteAclsFilterResult(
        matching_acls=(DeleteAclsMatchingAcl(**RESOURCE, **WHO, **NUMBERS),)
    )
    gone, failures = query.parse(DeleteAclsResponse(filter_results=(result, deleted, result)))
    assert gone == (acl(),)
    assert [str(each) for each in failures] == ["SECURITY_DISABLED: why"]


def test_users_are_described_by_name_and_mechanism() -> None:
    assert DescribeUsersQuery().request() == DescribeUserScramCredentialsRequest(users=None)
    query = DescribeUsersQuery(("bob", "alice", "carol"))
    names = tuple(UserName(name=name) for name in ("bob", "alice", "carol"))
    assert query.request() == DescribeUserScramCredentialsRequest(users=names)
    results = (
        DescribeUserScramCredentialsResult(
            user="bob", credential_infos=(CredentialInfo(mechanism=1, iterations=4096),)
        ),
        DescribeUserScramCredentialsResult(
            user="alice",
            credential_infos=(
                CredentialInfo(mechanism=2, iterations=8192),
                CredentialInfo(mechanism=1, iterations=4096),
                CredentialInfo(mechanism=77, iterations=4096),
            ),
        ),
        DescribeUserScramCredentialsResult(user="carol", error_code=Code.RESOURCE_NOT_FOUND),
    )
    assert query.parse(DescribeUserScramCredentialsResponse(results=results)) == (
        UserIterations("alice", SHA_256, 4096),
        UserIterations("alice", SHA_512, 8192),
        UserIterations("bob", SHA_256, 4096),
    )


@pytest.mark.parametrize(
    "response",
    [
        DescribeUserScramCredentialsResponse(
            error_code=Code.CLUSTER_AUTHORIZATION_FAILED, error_message="why"
        ),
        DescribeUserScramCredentialsResponse(
            results=(
                DescribeUserScramCredentialsResult(
                    error_code=Code.CLUSTER_AUTHORIZATION_FAILED, error_message="why"
                ),
            )
        ),
    ],
)
def test_users_that_may_not_be_described_are_refused(response: Any) -> None:
    with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED: why"):
        DescribeUsersQuery().parse(response)


def test_a_password_is_set_as_salted_and_stands_in_no_text() -> None:
    secret = SaltedPassword(4096, b"a salt", b"a salted password")
    query = SetPasswordQuery("alice", SHA_512, secret)
    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=2, iterations=4096, salt=b"a salt", salted_password=secret.salted
    )
    assert query.request() == AlterUserScramCredentialsRequest(upsertions=(upsertion,))
    assert "salt" not in f"{query} {secret}".replace("SaltedPassword", "")
    query.parse(AlterUserScramCredentialsResponse(results=(AlterUserScramCredentialsResult(),)))
    with pytest.raises(Refused, match="UNACCEPTABLE_CREDENTIAL: why"):
        query.parse(altered(Code.UNACCEPTABLE_CREDENTIAL))


def altered(code: Code) -> AlterUserScramCredentialsResponse:
    result = AlterUserScramCredentialsResult(user="alice", error_code=code, error_message="why")
    return AlterUserScramCredentialsResponse(results=(result,))


def test_a_password_that_is_not_there_is_not_deleted() -> None:
    query = DeletePasswordQuery("alice", SHA_256)
    deletion = ScramCredentialDeletion(name="alice", mechanism=1)
    assert query.request() == AlterUserScramCredentialsRequest(deletions=(deletion,))
    assert query.parse(altered(Code.NONE)) is True
    assert query.parse(altered(Code.RESOURCE_NOT_FOUND)) is False
    with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED: why"):
        query.parse(altered(Code.CLUSTER_AUTHORIZATION_FAILED))
