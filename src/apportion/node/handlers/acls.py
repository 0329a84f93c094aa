"""DescribeAcls, CreateAcls and DeleteAcls: who may do what (KIP-140, KIP-290).

Each ACL of a creation, and each filter of a deletion, has its own result. What the responses say is
on the disk, and holds from then on: a decision is made by the ACLs that are durable
(`BrokerContext.authorizer`), and by no others. Versions: 1-3 of all.
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import groupby
from typing import TypeVar

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Instant
from apportion.node.broker import Answer, BrokerContext, BrokerHandler
from apportion.readable import MAX_QUOTED
from apportion.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from apportion.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from apportion.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from apportion.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

MAX_CHANGES = 10_000
"""How many ACLs one request may create or delete, as in Kafka."""
IN_FILTERS = ("UNKNOWN", "ANY", "MATCH")
"""The values of each kind that no ACL has."""

N = TypeVar("N", bound=IntEnum)


def describe_acls(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle DescribeAcls: list the ACLs that match a filter, by resource.

    A number in the filter that has no meaning matches nothing, as in Kafka.
    Errors: SECURITY_DISABLED, INVALID_REQUEST.
    """
    request: DescribeAclsRequest = arrived.request
    try:
        _check_enabled(broker)
        wanted = _filter_or_none(request)
    except Refused as refused:
        return Answer(DescribeAclsResponse(error_code=int(refused.code), error_message=refused.why))
    acls = broker.topic_service.metadata_log.acls
    found = [] if wanted is None else acls.matching(wanted)
    return Answer(DescribeAclsResponse(resources=tuple(_resources(found))))


def create_acls(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle CreateAcls: add each ACL that is not there yet.

    Errors: SECURITY_DISABLED, INVALID_REQUEST; POLICY_VIOLATION for more than `MAX_CHANGES`.
    """
    request: CreateAclsRequest = arrived.request
    acls = broker.topic_service.metadata_log.acls
    checked = [_checked(broker, creation) for creation in request.creations]
    wanted = dict.fromkeys(each for each in checked if not isinstance(each, Refused))
    fresh = [acl for acl in wanted if acl not in acls]
    if len(fresh) > MAX_CHANGES:
        excess = Refused(
            Code.POLICY_VIOLATION,
            f"a request creates up to {MAX_CHANGES} ACLs, and this one {len(fresh)}",
        )
        checked = [each if isinstance(each, Refused) else excess for each in checked]
    elif fresh:
        broker.topic_service.record(lambda log: log.add_acls(fresh))
    return Answer(
        CreateAclsResponse(
            results=tuple(
                AclCreationResult(error_code=int(each.code), error_message=each.why)
                if isinstance(each, Refused)
                else AclCreationResult()
                for each in checked
            )
        )
    )


def delete_acls(broker: BrokerContext, arrived: Arrived, _now: Instant) -> Answer:
    """Handle DeleteAcls: delete the ACLs that match one of the filters.

    What several filters match is in the result of each.
    Errors: SECURITY_DISABLED, INVALID_REQUEST, also for more than `MAX_CHANGES`.
    """
    request: DeleteAclsRequest = arrived.request
    matched = [_matched(broker, wanted) for wanted in request.filters]
    gone = dict.fromkeys(acl for each in matched if not isinstance(each, Refused) for acl in each)
    if len(gone) > MAX_CHANGES:
        excess = Refused(
            Code.INVALID_REQUEST,
            f"a request deletes up to {MAX_CHANGES} ACLs, and this one matches {len(gone)}",
        )
        matched = [each if isinstance(each, Refused) else excess for each in matched]
    elif gone:
        broker.topic_service.record(lambda log: log.remove_acls(gone))
    return Answer(
        DeleteAclsResponse(
            filter_results=tuple(
                DeleteAclsFilterResult(error_code=int(each.code), error_message=each.why)
                if isinstance(each, Refused)
                else DeleteAclsFilterResult(matching_acls=tuple(map(_matching, each)))
                for each in matched
            )
        )
    )


def _check_enabled(broker: BrokerContext) -> None:
    """Refuse to speak of ACLs where nothing decides by them. Errors: SECURITY_DISABLED."""
    if not broker.settings.authorizer_class_name:
        raise Refused(
            Code.SECURITY_DISABLED, "there are no ACLs here: authorizer.class.name is not set"
        )


def _checked(broker: BrokerContext, creation: AclCreation) -> AclBinding | Refused:
    """Return the ACL to create, or why not: SECURITY_DISABLED, INVALID_REQUEST."""
    try:
        _check_enabled(broker)
        return _binding(creation)
    except Refused as refused:
        return refused


def _binding(creation: AclCreation) -> AclBinding:
    """Return the ACL that a creation asks for. The order of the checks is Kafka's.

    Errors: INVALID_REQUEST.
    """
    is_cluster = creation.resource_type == ResourceType.CLUSTER
    if is_cluster and creation.resource_name != CLUSTER_NAME:
        raise Refused(Code.INVALID_REQUEST, f"the one resource of type CLUSTER is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise Refused(Code.INVALID_REQUEST, "the name of the resource is empty; '*' is every name")
    acl = AclBinding(
        _own(ResourceType, creation.resource_type, "resource type"),
        creation.resource_name,
        _own(PatternType, creation.resource_pattern_type, "pattern type"),
        creation.principal,
        creation.host,
        _own(AclOperation, creation.operation, "operation"),
        _own(AclPermission, creation.permission_type, "permission"),
    )
    if ":" not in acl.principal:
        raise Refused(
            Code.INVALID_REQUEST,
            f"{acl.principal[:MAX_QUOTED]!r} is no principal: write its type before it, as in "
            "User:alice",
        )
    return acl


def _own(kind: type[N], number: int, what: str) -> N:
    """Return the value of a field of an ACL, which a filter's value cannot be.

    Errors: INVALID_REQUEST.
    """
    try:
        value = kind(number)
    except ValueError:
        raise Refused(Code.INVALID_REQUEST, f"{number} is no {what}") from None
    if value.name in IN_FILTERS:
        raise Refused(Code.INVALID_REQUEST, f"no ACL has the {what} {value.name}")
    return value


def _matched(broker: BrokerContext, wanted: DeleteAclsFilter) -> list[AclBinding] | Refused:
    """Return the ACLs that match a filter of a deletion, or why it is refused.

    Errors: SECURITY_DISABLED, INVALID_REQUEST.
    """
    try:
        _check_enabled(broker)
        meant = _filter_or_none(wanted)
    except Refused as refused:
        return refused
    if meant is None:
        return Refused(Code.INVALID_REQUEST, "a number in the filter has no meaning")
    return broker.topic_service.metadata_log.acls.matching(meant)


def _filter_or_none(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter | None:
    """Return the filter; None where a number of it has no meaning, so that no ACL has it.

    Errors: INVALID_REQUEST for UNKNOWN, upon which Kafka closes the connection.
    """
    try:
        meant = AclFilter(
            ResourceType(wanted.resource_type_filter),
            wanted.resource_name_filter,
            PatternType(wanted.pattern_type_filter),
            wanted.principal_filter,
            wanted.host_filter,
            AclOperation(wanted.operation),
            AclPermission(wanted.permission_type),
        )
    except ValueError:
        return None
    if not (meant.resource_type and meant.pattern_type and meant.operation and meant.permission):
        raise Refused(Code.INVALID_REQUEST, "a filter asks for UNKNOWN; ANY matches all")
    return meant


def _resources(acls: list[AclBinding]) -> Iterator[DescribeAclsResource]:
    """Yield ACLs that are in order by their resources."""
    for (resource, name, pattern), own in groupby(acls, key=lambda acl: acl[:3]):
        yield DescribeAclsResource(
            resource_type=resource,
            resource_name=name,
            pattern_type=pattern,
            acls=tuple(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in own
            ),
        )


def _matching(acl: AclBinding) -> DeleteAclsMatchingAcl:
    """Return a deleted ACL as the response has it."""
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


HANDLERS: dict[type, BrokerHandler] = {
    DescribeAclsRequest: describe_acls,
    CreateAclsRequest: create_acls,
    DeleteAclsRequest: delete_acls,
}
