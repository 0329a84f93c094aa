"""Requests about ACLs, and their answers in short."""

from typing import Any

from apportion.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tests.messages import request

AUTHORIZED: dict[str, Any] = {
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Settings of a broker that decides by ACLs, and whose clients without a login may do all."""


EVERY_ACL = AclFilter()


def acl(name: str = "flights", **others: Any) -> AclBinding:
    """An ACL by which alice may read a topic, unless said otherwise."""
    return AclBinding(
        *(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", "*"),
        *(AclOperation.READ, AclPermission.ALLOW),
    )._replace(**others)


def creation(wanted: AclBinding, **numbers: Any) -> dict[str, Any]:
    """One ACL of a request, with these fields in place of its own."""
    return {
        "resource_type": wanted.resource_type,
        "resource_name": wanted.name,
        "resource_pattern_type": wanted.pattern_type,
        "principal": wanted.principal,
        "host": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    } | numbers


def creating(*wanted: AclBinding | dict[str, Any]) -> Any:
    creations = [creation(each) if isinstance(each, AclBinding) else each for each in wanted]
    return request("CreateAcls", creations=creations)


def fields_of(wanted: AclFilter) -> dict[str, Any]:
    """A filter as both kinds of requests have it."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def describing(wanted: AclFilter = EVERY_ACL, **numbers: Any) -> Any:
    return request("DescribeAcls", **fields_of(wanted) | numbers)


def deleting(*wanted: AclFilter, **numbers: Any) -> Any:
    return request("DeleteAcls", filters=[fields_of(each) | numbers for each in wanted])


def binding(*numbers: Any) -> AclBinding:
    """An ACL of a response."""
    resource, name, pattern, principal, host, operation, permission = numbers
    return AclBinding(
        *(ResourceType(resource), name, PatternType(pattern), principal, host),
        *(AclOperation(operation), AclPermission(permission)),
    )


def described(response: Any) -> list[AclBinding]:
    """The ACLs in the answer to a DescribeAcls, which succeeded."""
    assert response.error_code == 0, response
    return [
        binding(
            *(resource.resource_type, resource.resource_name, resource.pattern_type),
            *(each.principal, each.host, each.operation, each.permission_type),
        )
        for resource in response.resources
        for each in resource.acls
    ]


def deleted(response: Any) -> list[list[AclBinding]]:
    """The ACLs in the answer to a DeleteAcls by filter; each filter succeeded."""
    assert all(result.error_code == 0 for result in response.filter_results), response
    return [
        [
            binding(
                *(each.resource_type, each.resource_name, each.pattern_type),
                *(each.principal, each.host, each.operation, each.permission_type),
            )
            for each in result.matching_acls
        ]
        for result in response.filter_results
    ]


def codes(response: Any) -> list[int]:
    """The codes of the results of a creation or a deletion."""
    name = "results" if hasattr(response, "results") else "filter_results"
    return [result.error_code for result in getattr(response, name)]
